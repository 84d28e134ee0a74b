use muster_machinery::Cache;
use serde_json::{Value, json};

use super::matching::find;
use super::objects::{default_class, waiting};
use super::protect;
use super::provision::{is_to_go, make};
use super::*;
use crate::testing::{merge, slim, uid_text};

fn claim(change: &Value) -> Slim<Claim> {
    let mut claim = json!({
        "metadata": {"name": "data", "namespace": "ns", "uid": uid_text(500), "resourceVersion": "5"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "gold",
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    });
    merge(&mut claim, change);
    slim(&claim)
}

fn volume(name: &str, change: &Value) -> Slim<Volume> {
    let mut volume = json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "3"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "gold",
            "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
        },
        "status": {"phase": "Available"},
    });
    merge(&mut volume, change);
    slim(&volume)
}

fn class(change: &Value) -> Slim<Class> {
    let mut class = json!({
        "metadata": {"name": "gold", "uid": "gold", "resourceVersion": "1"},
        "provisioner": "example.com", "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete",
    });
    merge(&mut class, change);
    slim(&class)
}

fn cache<T: muster_machinery::Cached>(objects: impl IntoIterator<Item = T>) -> Cache<T> {
    let mut cache = Cache::new();
    objects.into_iter().for_each(|object| drop(cache.apply(object)));
    cache
}

/// A reference to the claim, with its uid or another.
fn reference(uid: &str) -> Value {
    json!({"spec": {"claimRef": {"namespace": "ns", "name": "data", "uid": uid}}})
}

fn decided(claim: &Slim<Claim>, volumes: &[Slim<Volume>], classes: &[Slim<Class>]) -> Decision {
    claims::decide(claim, &cache(volumes.iter().cloned()), &cache(classes.iter().cloned()), &[])
}

/// What is written, in one word each, and what is told.
fn words(decision: &Decision) -> (Vec<String>, Vec<&'static str>) {
    let writes = decision.writes.iter().map(|write| {
        let (what, patch) = match write {
            Write::Claim(_, patch) => ("claim", patch),
            Write::ClaimStatus(_, patch) => {
                return format!("claim {}", patch["status"]["phase"].as_str().unwrap_or("-"));
            }
            Write::Volume(name, patch) => (&**name, patch),
            Write::VolumeStatus(name, patch) => {
                return format!("{name} {}", patch["status"]["phase"].as_str().unwrap_or("-"));
            }
        };
        let spec = patch["spec"].as_object().into_iter().flat_map(|spec| spec.keys().cloned());
        format!("{what} {}", spec.collect::<Vec<_>>().join(","))
    });
    (writes.collect(), decision.tell.iter().map(|note| note.reason).collect())
}

/// Contract: SIM-07
#[test]
fn a_claim_gets_the_smallest_volume_that_does() {
    let more = |modes: &[&str]| json!({"spec": {"accessModes": modes}});
    let of = |size: &str| json!({"spec": {"capacity": {"storage": size}}});
    let none = json!({});
    let bound = json!({"status": {"phase": "Bound"}});
    for (name, claim_change, volumes, expected) in [
        ("none", none.clone(), vec![], None),
        ("the smallest", none.clone(), vec![("a", of("3Gi")), ("b", of("2Gi")), ("c", of("2Gi"))], Some("b")),
        ("none that is too small", none.clone(), vec![("a", of("1023Mi"))], None),
        ("none of another class", json!({"spec": {"storageClassName": "tin"}}), vec![("a", none.clone())], None),
        ("none of another mode", json!({"spec": {"volumeMode": "Block"}}), vec![("a", none.clone())], None),
        ("none that is not available", none.clone(), vec![("a", bound)], None),
        (
            "none that is going",
            none.clone(),
            vec![("a", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))],
            None,
        ),
        (
            "fewer modes before less space",
            none.clone(),
            vec![("a", more(&["ReadWriteOnce", "ReadWriteMany"])), ("b", of("9Gi"))],
            Some("b"),
        ),
        ("every mode", more(&["ReadWriteMany"]), vec![("a", none.clone())], None),
        (
            "by its labels",
            json!({"spec": {"selector": {"matchLabels": {"disk": "ssd"}}}}),
            vec![("a", none.clone()), ("b", json!({"metadata": {"labels": {"disk": "ssd"}}}))],
            Some("b"),
        ),
        (
            "one that is kept for it",
            none.clone(),
            vec![
                ("a", none.clone()),
                ("b", {
                    let mut v = of("9Gi");
                    merge(&mut v, &reference(""));
                    v
                }),
            ],
            Some("b"),
        ),
        ("none of another's", none.clone(), vec![("a", reference("other"))], None),
    ] {
        let volumes = cache(volumes.iter().map(|(name, change)| volume(name, change)));
        let found = find(&claim(&claim_change), &volumes, false);
        assert_eq!(found.as_ref().map(|volume| &*volume.meta.name), expected, "{name}");
    }
    // Where its pod decides, only one that is kept for it.
    let kept = volume("b", &reference(""));
    assert!(find(&claim(&json!({})), &cache([volume("a", &json!({}))]), true).is_none());
    assert!(find(&claim(&json!({})), &cache([kept]), true).is_some());
}

/// Contract: SIM-07
#[test]
fn a_claim_and_its_volume_are_bound_to_each_other_the_volume_first() {
    let decision = decided(&claim(&json!({})), &[volume("a", &json!({}))], &[]);
    let Decision { writes, tell, failure } = &decision;
    assert_eq!((tell.len(), failure), (0, &None));
    let name: Arc<str> = "a".into();
    let key = ObjectKey::new("ns", "data");
    assert_eq!(
        *writes,
        [
            Write::Volume(
                name.clone(),
                json!({
                    "metadata": {"uid": "a", "resourceVersion": "3", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                    "spec": {"claimRef": {
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "data",
                        "uid": uid_text(500), "resourceVersion": "5",
                    }},
                })
            ),
            Write::VolumeStatus(name, json!({"metadata": {"uid": "a"}, "status": {"phase": "Bound", "message": null}})),
            Write::Claim(
                key.clone(),
                json!({
                    "metadata": {"uid": uid_text(500), "resourceVersion": "5", "annotations": {
                        "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
                    }},
                    "spec": {"volumeName": "a"},
                })
            ),
            Write::ClaimStatus(
                key,
                json!({
                    "metadata": {"uid": uid_text(500)},
                    "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
                })
            ),
        ]
    );
    // What is done already is not done again, from wherever it stopped.
    let mut taken = reference(&uid_text(500));
    merge(&mut taken, &json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}}));
    let decision = decided(&claim(&json!({})), &[volume("a", &taken)], &[]);
    assert_eq!(words(&decision).0, ["a Bound", "claim volumeName", "claim Bound"]);
    merge(&mut taken, &json!({"status": {"phase": "Bound"}}));
    let done = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"volumeName": "a"},
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
    });
    assert_eq!(decided(&claim(&done), &[volume("a", &taken)], &[]), Decision::default());
}

/// Contract: SIM-07
#[test]
fn a_claim_that_finds_no_volume_says_what_it_waits_for() {
    let delayed = class(&json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}}});
    let pending = json!({"status": {"phase": ""}});
    let asking = json!({"spec": {"volumeName": "a"}});
    for (name, claim_change, volumes, classes, writes, reasons) in [
        ("no class", json!({"spec": {"storageClassName": ""}}), vec![], vec![], vec![], vec!["FailedBinding"]),
        ("no class that is there", json!({}), vec![], vec![], vec![], vec!["ProvisioningFailed"]),
        ("a provisioner", json!({}), vec![], vec![class(&json!({}))], vec!["claim "], vec!["ExternalProvisioning"]),
        (
            "nobody provisions",
            json!({}),
            vec![],
            vec![class(&json!({"provisioner": "kubernetes.io/no-provisioner"}))],
            vec![],
            vec!["ProvisioningFailed"],
        ),
        ("its pod", pending, vec![], vec![delayed.clone()], vec!["claim Pending"], vec!["WaitForFirstConsumer"]),
        ("its pod has a node", selected, vec![], vec![delayed], vec!["claim "], vec!["ExternalProvisioning"]),
        (
            "the class of those that do not say",
            json!({"spec": {"storageClassName": null}}),
            vec![],
            vec![class(&json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}))],
            vec!["claim storageClassName"],
            vec![],
        ),
        ("a volume that is not there", asking.clone(), vec![], vec![], vec![], vec![]),
        (
            "a volume that is too small",
            asking.clone(),
            vec![volume("a", &json!({"spec": {"capacity": {"storage": "1Mi"}}}))],
            vec![],
            vec![],
            vec!["VolumeMismatch"],
        ),
        (
            "another's volume",
            asking.clone(),
            vec![volume("a", &reference("other"))],
            vec![],
            vec![],
            vec!["FailedBinding"],
        ),
        (
            "a volume that is kept for it",
            asking,
            vec![volume("a", &reference(""))],
            vec![],
            vec!["a claimRef", "a Bound", "claim ", "claim Bound"],
            vec![],
        ),
    ] {
        let decision = decided(&claim(&claim_change), &volumes, &classes);
        let expected: Vec<String> = writes.into_iter().map(str::to_owned).collect();
        assert_eq!(words(&decision), (expected, reasons), "{name}");
    }
    let message = |pods: &[&str]| {
        let pods: Vec<String> = pods.iter().map(|pod| (*pod).to_owned()).collect();
        let classes = cache([class(&json!({"volumeBindingMode": "WaitForFirstConsumer"}))]);
        claims::decide(&claim(&json!({})), &Cache::new(), &classes, &pods).tell.remove(0).message
    };
    assert_eq!(message(&[]), "waiting for first consumer to be created before binding");
    assert_eq!(message(&["p"]), "waiting for pod p to be scheduled");
    assert_eq!(message(&["p", "q"]), "waiting for pods p,q to be scheduled");
}

/// Contract: SIM-07
#[test]
fn a_claim_that_was_bound_is_lost_with_its_volume() {
    let bound = |volume: &str| {
        claim(&json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": volume},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
        }))
    };
    for (name, claim, volumes, reason) in [
        ("its volume's name", bound(""), vec![], "ClaimLost"),
        ("its volume", bound("a"), vec![], "ClaimLost"),
        ("its volume to another", bound("a"), vec![volume("a", &reference("other"))], "ClaimMisbound"),
    ] {
        let decision = decided(&claim, &volumes, &[]);
        assert_eq!(words(&decision), (vec!["claim Lost".to_owned()], vec![reason]), "{name}");
        let Write::ClaimStatus(_, patch) = &decision.writes[0] else { panic!("{name}") };
        assert_eq!(patch["status"]["capacity"], Value::Null, "{name}");
    }
    // A volume that has come loose is bound again.
    let decision = decided(&bound("a"), &[volume("a", &json!({}))], &[]);
    assert_eq!(words(&decision).0, ["a claimRef", "a Bound"]);
}

/// Contract: SIM-07
#[test]
fn what_becomes_of_a_volume() {
    let mine = reference(&uid_text(500));
    let with = |changes: &[&Value]| {
        let mut change = json!({});
        changes.iter().for_each(|each| merge(&mut change, each));
        volume("a", &change)
    };
    let policy = |policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let made = json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "example.com"}}});
    let by_controller = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}});
    let to = |volume: &str| claim(&json!({"spec": {"volumeName": volume}}));
    for (name, volume, claim, used, writes, reasons) in [
        ("nobody's", with(&[&phase("")]), None, false, vec!["a Available"], vec![]),
        ("kept for a claim", with(&[&reference(""), &phase("")]), None, false, vec!["a Available"], vec![]),
        ("bound", with(&[&mine, &phase("Available")]), Some(to("a")), false, vec!["a Bound"], vec![]),
        ("its claim is not yet", with(&[&mine]), Some(to("")), false, vec![], vec![]),
        (
            "its claim is of another mode",
            with(&[&mine]),
            Some(claim(&json!({"spec": {"volumeMode": "Block"}}))),
            false,
            vec![],
            vec!["VolumeMismatch", "VolumeMismatch"],
        ),
        ("its claim is gone", with(&[&mine, &phase("Bound")]), None, false, vec!["a Released"], vec![]),
        ("and it stays", with(&[&mine, &phase("Released")]), None, false, vec![], vec![]),
        (
            "and who made it deletes it",
            with(&[&mine, &phase("Bound"), &policy("Delete"), &made]),
            None,
            false,
            vec!["a Released"],
            vec![],
        ),
        (
            "and nobody deletes it",
            with(&[&mine, &phase("Bound"), &policy("Delete")]),
            None,
            false,
            vec!["a Released", "a Failed"],
            vec!["VolumeFailedDelete"],
        ),
        ("and that is known", with(&[&mine, &phase("Failed"), &policy("Delete")]), None, false, vec![], vec![]),
        (
            "and it is used again",
            with(&[&mine, &phase("Released"), &policy("Recycle"), &by_controller]),
            None,
            false,
            vec!["a claimRef", "a Available"],
            vec!["VolumeRecycled"],
        ),
        (
            "but for pods that use it",
            with(&[&mine, &phase("Released"), &policy("Recycle")]),
            None,
            true,
            vec![],
            vec![],
        ),
        (
            "its claim has another",
            with(&[&mine, &phase("Bound"), &by_controller]),
            Some(to("b")),
            false,
            vec!["a claimRef", "a Available"],
            vec![],
        ),
        (
            "its claim has another, and it was made for it",
            with(&[&mine, &phase("Bound"), &policy("Delete"), &made]),
            Some(to("b")),
            false,
            vec!["a Released"],
            vec![],
        ),
    ] {
        let decision = bind::decide(&volume, claim.as_ref(), used);
        let expected: Vec<String> = writes.into_iter().map(str::to_owned).collect();
        assert_eq!(words(&decision), (expected, reasons), "{name}");
    }
}

/// Contract: SIM-07
#[test]
fn volumes_are_made_for_claims_and_go_with_them() {
    let asked = |change: &Value| {
        let mut asked =
            json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "example.com"}}});
        merge(&mut asked, change);
        claim(&asked)
    };
    let gold = cache([class(&json!({"mountOptions": ["ro"]}))]);
    let name = format!("pvc-{}", uid_text(500));
    let made = make(&asked(&json!({})), &gold, &Cache::new()).expect("it waits for one");
    assert_eq!(
        made["metadata"],
        json!({
            "name": name,
            "annotations": {"pv.kubernetes.io/provisioned-by": "example.com", "muster.dev/simulated": "true"},
        })
    );
    assert_eq!(
        made["spec"],
        json!({
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "gold", "mountOptions": ["ro"],
            "csi": {"driver": "example.com", "volumeHandle": name},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "data",
                "uid": uid_text(500), "resourceVersion": "5",
            },
        })
    );
    let delayed = cache([class(&json!({"volumeBindingMode": "WaitForFirstConsumer"}))]);
    let foreign = cache([class(&json!({"metadata": {"annotations": {"muster.dev/provision": "false"}}}))]);
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}}});
    let there = cache([volume(&name, &json!({}))]);
    for (name, claim, classes, volumes, expected) in [
        ("not asked for", claim(&json!({})), &gold, &Cache::new(), false),
        ("bound", asked(&json!({"spec": {"volumeName": "a"}})), &gold, &Cache::new(), false),
        ("its pod has no node", asked(&json!({})), &delayed, &Cache::new(), false),
        ("its pod has one", asked(&selected), &delayed, &Cache::new(), true),
        ("another's business", asked(&json!({})), &foreign, &Cache::new(), false),
        ("made", asked(&json!({})), &gold, &there, false),
        (
            "going",
            asked(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            &gold,
            &Cache::new(),
            false,
        ),
    ] {
        assert_eq!(make(&claim, classes, volumes).is_some(), expected, "{name}");
    }
    let directory =
        json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "rancher.io/local-path"}}});
    let made = make(&claim(&directory), &gold, &Cache::new()).expect("it waits for one");
    assert_eq!(made["spec"]["hostPath"]["path"], format!("/var/lib/muster/{name}"));

    let simulated =
        json!({"metadata": {"annotations": {"muster.dev/simulated": "true"}}, "status": {"phase": "Released"}});
    let deleted = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
    let both = {
        let mut both = simulated.clone();
        merge(&mut both, &deleted);
        both
    };
    assert!(is_to_go(&volume("a", &both)));
    assert!(!is_to_go(&volume("a", &simulated)), "it is to stay");
    assert!(
        !is_to_go(&volume(
            "a",
            &json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}, "status": {"phase": "Released"}})
        )),
        "it is not ours"
    );
}

/// Contract: SIM-07
#[test]
fn finalizers_are_put_on_and_taken_off_when_nothing_uses_the_object() {
    const FINALIZER: &str = "kubernetes.io/pvc-protection";
    let decide = |finalizers: &[&str], going: bool, used: bool| {
        let mut change = json!({});
        if going {
            change = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        }
        let finalizers: Vec<String> = finalizers.iter().map(|each| (*each).to_owned()).collect();
        let patch = protect::decide(&claim(&change).meta, &finalizers, FINALIZER, || used);
        patch.map(|patch| patch["metadata"]["finalizers"].clone())
    };
    assert_eq!(decide(&["a"], false, false), Some(json!(["a", FINALIZER])));
    assert_eq!(decide(&[FINALIZER], false, false), None);
    assert_eq!(decide(&[FINALIZER, "a"], true, true), None, "it is used");
    assert_eq!(decide(&[FINALIZER, "a"], true, false), Some(json!(["a"])));
    assert_eq!(decide(&[], true, false), None);
}

/// Contract: SIM-07
#[test]
fn the_newest_default_class_is_the_default_and_claims_wait_until_bound() {
    let default = |name: &str, created: &str| {
        class(&json!({"metadata": {
            "name": name, "uid": name, "creationTimestamp": created,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        }}))
    };
    let classes = cache([
        class(&json!({})),
        default("old", "2026-01-01T00:00:00Z"),
        default("z", "2026-01-02T00:00:00Z"),
        default("a", "2026-01-02T00:00:00Z"),
    ]);
    assert_eq!(default_class(&classes).map(|class| &*class.meta.name), Some("a"));
    let bound = json!({
        "metadata": {"name": "bound", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
    });
    let claims = cache([claim(&json!({})), claim(&bound)]);
    assert_eq!(waiting(&claims).map(|claim| &*claim.meta.name).collect::<Vec<_>>(), ["data"]);
}
