//! The slim pod out of protobuf: the same fields as out of JSON, into the same shapes.

use super::{
    ConditionWire, ContainerStatusWire, DeletionCost, InitContainerWire, Pod, PodWire, Readiness, SpecWire, StateWire,
    StatusWire, TerminatedWire,
};
use crate::condition::ConditionStatus;
use crate::intern::Interner;
use crate::object::{DecodeError, Object};
use crate::protobuf::{Fields, Malformed};
use crate::wire::protobuf::{text, time};
use crate::wire::{Fold, MetaWire, Single, Text, Time};

/// Decodes a pod from its message, which is what an [`Envelope`](crate::protobuf::Envelope) or the item of a
/// list holds.
pub(super) fn decode(message: &[u8], interner: &mut Interner) -> Result<Pod, DecodeError> {
    let wire = pod(message).map_err(DecodeError::of(Pod::KIND))?;
    Ok(wire.into_pod(interner))
}

fn pod(message: &[u8]) -> Result<PodWire<'_>, Malformed> {
    let mut metadata = MetaWire::<'_, Single<'_, DeletionCost>>::default();
    let mut spec = SpecWire::default();
    let mut status = StatusWire::default();
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            1 => metadata.merge_protobuf(field.bytes()?)?,
            2 => merge_spec(&mut spec, field.bytes()?)?,
            3 => merge_status(&mut status, field.bytes()?)?,
            _ => {}
        }
    }
    Ok(PodWire { metadata: Some(metadata), spec: Some(spec), status: Some(status) })
}

fn merge_spec<'a>(spec: &mut SpecWire<'a>, message: &'a [u8]) -> Result<(), Malformed> {
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            10 => spec.node_name = text(&field)?,
            20 => spec.init_containers.0.take(init_container(field.bytes()?)?),
            _ => {}
        }
    }
    Ok(())
}

fn init_container(message: &[u8]) -> Result<InitContainerWire<'_>, Malformed> {
    let mut container = InitContainerWire { name: Text::default(), restart_policy: Text::default() };
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            1 => container.name = text(&field)?,
            24 => container.restart_policy = text(&field)?,
            _ => {}
        }
    }
    Ok(container)
}

fn merge_status<'a>(status: &mut StatusWire<'a>, message: &'a [u8]) -> Result<(), Malformed> {
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            1 => status.phase = text(&field)?,
            2 => status.conditions.0.take(condition(field.bytes()?)?),
            7 => status.start_time = time(field.bytes()?)?,
            8 => status.container_statuses.0.take(container_status(field.bytes()?)?),
            10 => status.init_container_statuses.0.take(container_status(field.bytes()?)?),
            _ => {}
        }
    }
    Ok(())
}

fn condition(message: &[u8]) -> Result<ConditionWire, Malformed> {
    let mut is_ready = false;
    let mut readiness = Readiness { status: ConditionStatus::Unknown, last_transition_time: None };
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            1 => is_ready = field.bytes()? == b"Ready",
            2 => readiness.status = ConditionStatus::from_text(field.text()?),
            4 => readiness.last_transition_time = time(field.bytes()?)?.0,
            _ => {}
        }
    }
    Ok(ConditionWire(is_ready.then_some(readiness)))
}

fn container_status(message: &[u8]) -> Result<ContainerStatusWire<'_>, Malformed> {
    let mut container = ContainerStatusWire { name: Text::default(), restart_count: None, state: None };
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            1 => container.name = text(&field)?,
            2 => merge_state(container.state.get_or_insert(StateWire { terminated: None }), field.bytes()?)?,
            5 => container.restart_count = Some(field.int32()?),
            _ => {}
        }
    }
    Ok(container)
}

fn merge_state(state: &mut StateWire, message: &[u8]) -> Result<(), Malformed> {
    for field in Fields::of(message) {
        let field = field?;
        if field.number != 3 {
            continue;
        }
        let terminated = state.terminated.get_or_insert(TerminatedWire { finished_at: Time(None) });
        for field in Fields::of(field.bytes()?) {
            let field = field?;
            if field.number == 6 {
                terminated.finished_at = time(field.bytes()?)?;
            }
        }
    }
    Ok(())
}
