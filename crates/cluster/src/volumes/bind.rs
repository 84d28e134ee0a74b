//! The decision about a volume: free, bound, or what becomes of it when its claim is gone.

use super::objects::{Claim, PROVISIONED_BY, Volume};
use super::writes::{Decision, Note, unbind, volume_phase, volume_phase_saying};
use super::{about_claim, about_volume};
use crate::control::Slim;

/// Decides on a volume. `claim` is the very claim that it is bound to, if that exists, and `used` says whether pods use
/// a claim of that name.
pub(super) fn decide(volume: &Slim<Volume>, claim: Option<&Slim<Claim>>, used: bool) -> Decision {
    let mut decision = Decision::default();
    if volume.body.claim.as_ref().is_none_or(|reference| reference.uid.is_empty()) {
        // Nobody's, or kept for a claim that is not bound yet.
        decision.writes.extend(volume_phase(volume, "Available"));
        return decision;
    }
    let Some(claim) = claim else {
        release(volume, used, &mut decision);
        return decision;
    };
    if claim.body.volume.is_empty() {
        if claim.body.mode != volume.body.mode {
            mismatch(volume, claim, &mut decision);
        }
        // The claim's own sync does the rest.
    } else if *claim.body.volume == *volume.meta.name {
        decision.writes.extend(volume_phase(volume, "Bound"));
    } else if volume.body.annotations.has(PROVISIONED_BY) && volume.body.reclaim == "Delete" {
        // It was made for a claim that found another one.
        release(volume, used, &mut decision);
    } else {
        decision.writes.extend(unbind(volume));
    }
    decision
}

/// Its claim is gone.
fn release(volume: &Slim<Volume>, used: bool, decision: &mut Decision) {
    if !matches!(&*volume.body.status.phase, "Released" | "Failed") {
        decision.writes.extend(volume_phase(volume, "Released"));
    }
    if volume.body.is_migrated() {
        return;
    }
    match &*volume.body.reclaim {
        "Retain" => {}
        "Delete" => {
            if let Some(why) = not_deletable(volume) {
                fail(volume, "VolumeFailedDelete", why, decision);
            }
        }
        // There is nothing on a simulated volume that would have to be wiped.
        "Recycle" if used => {}
        "Recycle" => {
            tell(volume, false, "VolumeRecycled", "Volume recycled".to_owned(), decision);
            decision.writes.extend(unbind(volume));
        }
        _ => {
            let message = "Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned();
            fail(volume, "VolumeUnknownReclaimPolicy", message, decision);
        }
    }
}

/// Why nobody will delete a volume, if so: the drivers that make volumes delete them too.
fn not_deletable(volume: &Slim<Volume>) -> Option<String> {
    match volume.body.annotations.get(PROVISIONED_BY).filter(|by| !by.is_empty()) {
        Some(by) if by.starts_with("kubernetes.io/") => Some(format!("no volume plugin matched name: {by}")),
        Some(_) => None,
        None if volume.body.is_csi => None,
        None => {
            let name = &*volume.meta.name;
            Some(format!("error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched"))
        }
    }
}

fn fail(volume: &Slim<Volume>, reason: &'static str, message: String, decision: &mut Decision) {
    if volume.body.status.phase == "Failed" {
        return;
    }
    decision.writes.extend(volume_phase_saying(volume, "Failed", Some(&message)));
    tell(volume, true, reason, message, decision);
}

fn mismatch(volume: &Slim<Volume>, claim: &Slim<Claim>, decision: &mut Decision) {
    let message = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
        &*claim.meta.name
    );
    tell(volume, true, "VolumeMismatch", message, decision);
    let message = format!(
        "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
        &*volume.meta.name
    );
    decision.tell.push(Note { about: about_claim(claim), warning: true, reason: "VolumeMismatch", message });
}

fn tell(volume: &Slim<Volume>, warning: bool, reason: &'static str, message: String, decision: &mut Decision) {
    decision.tell.push(Note { about: about_volume(volume), warning, reason, message });
}
