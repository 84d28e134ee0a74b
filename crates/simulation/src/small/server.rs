//! The server of a small world: one request at a time, with the patches of the embedded server.

use muster_apiserver::codec::json_patch::{self, Touched};
use muster_apiserver::schema::strategic_merge;
use muster_tree::{List, Value, json};

use super::objects::{self, Objects};
use super::state::{Answer, Call, Kind, Phase, Pod, State, Stored, Verb, Version};
use crate::laws::{Broken, Law};

/// Serves a request. Something that the laws do not allow it to ask is an error.
pub(super) fn serve(objects: &mut Objects, state: &mut State, call: Call, body: &Value) -> Result<Answer, Broken> {
    match (call.kind, call.verb) {
        (Kind::Pods, verb) => Ok(serve_pod(state, call, verb, body)),
        (Kind::Sets, Verb::Create) => create_set(objects, state, call, body),
        (kind, verb) => Ok(serve_stored(objects, state, call, kind, verb, body)),
    }
}

/// A new object of the Deployment, as a user makes it.
pub(super) fn edit(objects: &mut Objects, state: &mut State, change: impl FnOnce(&mut Value)) {
    let mut json = objects.json(*state.deployments.now()).clone();
    change(&mut json["spec"]);
    let stored = stored_after(objects, *state.deployments.now(), json);
    state.deployments.write(stored);
}

fn serve_pod(state: &mut State, call: Call, verb: Verb, body: &Value) -> Answer {
    let mut pods = state.pods.now().clone();
    if verb == Verb::Create {
        let pod = Pod { id: state.fresh_id(), set: call.target, phase: Phase::Starting };
        pods.push(pod);
        state.pods.write(pods);
        return Answer::Is(Version::Pod(pod));
    }
    let Some(at) = pods.iter().position(|pod| pod.id == call.target) else { return Answer::NotFound };
    let pod = pods[at];
    if verb == Verb::Read {
        return Answer::Is(Version::Pod(pod));
    }
    assert_eq!(verb, Verb::Delete, "no controller patches a pod that it owns");
    if body["preconditions"]["resourceVersion"] != objects::version(Version::Pod(pod)) {
        return Answer::Conflict;
    }
    let after = match pod.phase {
        Phase::Starting => Pod { phase: Phase::Gone, ..pods.remove(at) },
        Phase::Ready | Phase::Going | Phase::Gone => {
            pods[at].phase = Phase::Going;
            pods[at]
        }
    };
    state.pods.write(pods);
    Answer::Is(Version::Pod(after))
}

fn create_set(objects: &mut Objects, state: &mut State, call: Call, body: &Value) -> Result<Answer, Broken> {
    let at = usize::from(call.target);
    let mut sets = *state.sets.now();
    let Some(there) = sets.get(at) else {
        let how = format!("a second ReplicaSet of a template is created: {}", body["metadata"]["name"]);
        return Err(Broken::at_the_end(Law::Templates, &how));
    };
    if there.is_there() {
        return Ok(Answer::Exists);
    }
    sets[at] = objects.store(Objects::created_set(at, body.clone()));
    state.sets.write(sets);
    Ok(Answer::Is(Version::Stored(sets[at])))
}

fn serve_stored(objects: &mut Objects, state: &mut State, call: Call, kind: Kind, verb: Verb, body: &Value) -> Answer {
    let at = usize::from(call.target);
    let before = if kind == Kind::Deployments { *state.deployments.now() } else { state.sets.now()[at] };
    if !before.is_there() {
        return Answer::NotFound;
    }
    let mut json = objects.json(before).clone();
    match verb {
        Verb::Read => return Answer::Is(Version::Stored(before)),
        Verb::Patch => {
            let operations = body.as_array().map(List::as_slice).unwrap_or_default();
            if json_patch::apply(&mut json, operations, &mut Touched::default()).is_err() {
                return Answer::Invalid;
            }
        }
        Verb::Status => {
            let precondition = &body["metadata"]["resourceVersion"];
            if !precondition.is_null() && *precondition != objects::version(Version::Stored(before)) {
                return Answer::Conflict;
            }
            let mut patch = json!({"status": body["status"]});
            if !body["metadata"]["annotations"].is_null() {
                patch["metadata"] = json!({"annotations": body["metadata"]["annotations"]});
            }
            let kind = json["kind"].as_str().unwrap_or_default();
            json =
                strategic_merge("apps", "v1", kind, &json, &patch).expect("a controller's patch of a status applies");
        }
        Verb::Create | Verb::Delete => unreachable!("no history is as long as to be cleaned up"),
    }
    let after = stored_after(objects, before, json);
    match kind {
        Kind::Deployments => state.deployments.write(after),
        _ => {
            let mut sets = *state.sets.now();
            sets[at] = after;
            state.sets.write(sets);
        }
    }
    Answer::Is(Version::Stored(after))
}

/// The object after a write: a new spec is a new generation.
fn stored_after(objects: &mut Objects, before: Stored, mut json: Value) -> Stored {
    if json["spec"] != objects.json(before)["spec"] {
        json["metadata"]["generation"] = json!(json["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
    }
    objects.store(json)
}
