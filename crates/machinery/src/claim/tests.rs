//! Tests of claiming; the cases of upstream's `controller_ref_manager_test.go` among them.

use std::sync::Arc;

use muster_objects::Object;
use muster_objects::{Labels, ReplicaSet};
use serde_json::Value;

use super::*;

fn uid(number: u8) -> Uid {
    Uid::from_bytes([number; 16])
}

fn meta(name: &str, number: u8) -> Meta {
    Meta { namespace: Arc::from("ns"), name: Arc::from(name), uid: uid(number), ..Meta::default() }
}

fn controlled_by(object: Meta, owner: &Meta) -> Meta {
    let controller = ControllerRef::to(ReplicaSet::API_VERSION, ReplicaSet::KIND, owner);
    Meta { controller: Some(Arc::new(controller)), ..object }
}

fn deleted(object: Meta) -> Meta {
    Meta { deletion_timestamp: Some(Timestamp::from_seconds(1)), ..object }
}

/// Contract: RS-06
#[test]
fn every_combination_of_owner_match_and_deletion() {
    let owner = meta("rs", 1);
    let other = meta("other", 2);
    let selector = Selector::parse("app=web").unwrap();
    for (labels, matches) in [("web", true), ("db", false)] {
        let labels: Labels = [("app", labels)].into_iter().collect();
        let orphan = Meta { labels, ..meta("pod", 9) };
        let ours = controlled_by(orphan.clone(), &owner);
        let theirs = controlled_by(orphan.clone(), &other);
        let cases = [
            // An owned pod that matches is kept, even while the owner or the pod is being deleted.
            (&owner, ours.clone(), if matches { Claim::Keep } else { Claim::Release }),
            (&owner, deleted(ours.clone()), if matches { Claim::Keep } else { Claim::Release }),
            (&deleted(owner.clone()), ours.clone(), if matches { Claim::Keep } else { Claim::Ignore }),
            // An orphan that matches is adopted, unless one of both is being deleted.
            (&owner, orphan.clone(), if matches { Claim::Adopt } else { Claim::Ignore }),
            (&owner, deleted(orphan.clone()), Claim::Ignore),
            (&deleted(owner.clone()), orphan.clone(), Claim::Ignore),
            (&owner, Meta { namespace: Arc::from("elsewhere"), ..orphan.clone() }, Claim::Ignore),
            // Other owners' pods are left alone.
            (&owner, theirs.clone(), Claim::Ignore),
            (&deleted(owner.clone()), theirs, Claim::Ignore),
        ];
        for (at, (owner, object, expected)) in cases.into_iter().enumerate() {
            assert_eq!(claim(owner, &selector, &object), expected, "case {at}, matching: {matches}");
        }
    }
}

/// An owner that was recreated under its name does not own its predecessor's pods.
///
/// Contract: RS-06
#[test]
fn ownership_is_by_uid() {
    let pod = controlled_by(meta("pod", 9), &meta("rs", 1));
    assert_eq!(claim(&meta("rs", 2), &Selector::everything(), &pod), Claim::Ignore);
}

/// Contract: RS-08
#[test]
fn the_patches_are_upstreams() {
    let owner = ControllerRef::to("apps/v1", "ReplicaSet", &meta("rs", 1));
    let adopt: Value = serde_json::from_slice(&adopt_patch(&owner, &uid(9))).unwrap();
    let expected = serde_json::json!({ "metadata": {
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs",
            "uid": "01010101-0101-0101-0101-010101010101", "controller": true, "blockOwnerDeletion": true,
        }],
        "uid": "09090909-0909-0909-0909-090909090909",
    }});
    assert_eq!(adopt, expected);
    let release: Value = serde_json::from_slice(&release_patch(&owner.uid, &uid(9))).unwrap();
    let expected = serde_json::json!({ "metadata": {
        "uid": "09090909-0909-0909-0909-090909090909",
        "ownerReferences": [{ "$patch": "delete", "uid": "01010101-0101-0101-0101-010101010101" }],
    }});
    assert_eq!(release, expected);
}

/// Contract: RS-07
#[test]
fn a_fresh_read_of_the_owner_can_refuse_adoption() {
    let owner = meta("rs", 1);
    assert_eq!(recheck_owner("ReplicaSet", &owner, &owner), Ok(()));
    let adoption = |refused| AdoptionError { kind: "Pod".into(), object: "ns/pod".into(), uid: uid(9), refused };
    let gone = recheck_owner("ReplicaSet", &owner, &meta("rs", 2)).unwrap_err();
    assert_eq!(
        adoption(gone).to_string(),
        "can't adopt Pod ns/pod (09090909-0909-0909-0909-090909090909): can't recheck DeletionTimestamp: original \
         ReplicaSet ns/rs is gone: got uid 02020202-0202-0202-0202-020202020202, wanted \
         01010101-0101-0101-0101-010101010101"
    );
    let dying = Meta { deletion_timestamp: Some(Timestamp::parse("2026-01-02T15:04:05Z").unwrap()), ..owner.clone() };
    let refused = recheck_owner("ReplicaSet", &owner, &dying).unwrap_err();
    assert_eq!(refused.to_string(), "ns/rs has just been deleted at 2026-01-02 15:04:05 +0000 UTC");
}
