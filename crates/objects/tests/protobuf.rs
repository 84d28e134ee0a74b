//! Pods out of protobuf: what a real server sent, what could be made up, and what is no message at all.

use muster_objects::protobuf::{Envelope, Fields, Malformed};
use muster_objects::stream::{Bookmark, ListPage, WatchEvent, WatchEventType};
use muster_objects::{DecodeError, Interner, Object, Pod, ResourceVersion};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

/// What kube-apiserver 1.36.2 sent of one pod in its two forms.
const RECORDED: &[(&str, &[u8], &[u8])] = &[
    ("plain", include_bytes!("vectors/protobuf/plain.pb"), include_bytes!("vectors/protobuf/plain.json")),
    ("running", include_bytes!("vectors/protobuf/running.pb"), include_bytes!("vectors/protobuf/running.json")),
    ("failed", include_bytes!("vectors/protobuf/failed.pb"), include_bytes!("vectors/protobuf/failed.json")),
    ("deleting", include_bytes!("vectors/protobuf/deleting.pb"), include_bytes!("vectors/protobuf/deleting.json")),
];
const PAGE: (&[u8], &[u8]) = (include_bytes!("vectors/protobuf/page.pb"), include_bytes!("vectors/protobuf/page.json"));
const WATCH: &[u8] = include_bytes!("vectors/protobuf/watch.pb");
const NOT_FOUND: &[u8] = include_bytes!("vectors/protobuf/not-found.pb");

fn from_json(json: &[u8]) -> Result<Pod, DecodeError> {
    Pod::decode(json, &mut Interner::new())
}

fn from_message(message: &[u8]) -> Result<Pod, DecodeError> {
    Pod::PROTOBUF.expect("pods are read in protobuf")(message, &mut Interner::new())
}

/// Contract: INF-10
#[test]
fn a_recorded_pod_is_the_same_in_both_forms() {
    for (name, body, json) in RECORDED {
        let envelope = Envelope::decode(body).expect(name);
        assert_eq!(envelope.kind, "Pod", "{name}");
        let pod = from_message(envelope.message).expect(name);
        assert_eq!(pod, from_json(json).expect(name), "{name}");
        assert_eq!(&*pod.meta.name, *name);
    }
}

/// Contract: INF-01
#[test]
fn a_recorded_page_is_the_same_in_both_forms() {
    let page = ListPage::decode_protobuf(PAGE.0).expect("a page");
    let json = ListPage::decode(PAGE.1).expect("a page");
    let (rest, token) = (page.remaining_item_count, &page.continue_token);
    assert_eq!((page.resource_version, token, rest), (json.resource_version, &json.continue_token, Some(2)));
    assert!(token.is_some());
    let pods: Vec<Pod> = page.items.iter().map(|item| from_message(item).expect("a pod")).collect();
    let same: Vec<Pod> = json.items.iter().map(|item| from_json(item).expect("a pod")).collect();
    assert_eq!((pods.len(), pods), (2, same));
}

/// Contract: INF-01
#[test]
fn a_recorded_streaming_list_ends_with_its_bookmark() {
    let mut rest = WATCH;
    let mut names = Vec::new();
    let mut end = None;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (frame, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
        rest = behind;
        let event = WatchEvent::decode_protobuf(frame).expect("an event");
        match event.kind {
            WatchEventType::Added => {
                names.push(from_message(event.object).expect("a pod").meta.name.to_string());
            }
            WatchEventType::Bookmark => end = Some(Bookmark::decode_protobuf(event.object).expect("a bookmark")),
            other => panic!("a list has no {other:?}"),
        }
    }
    names.sort_unstable();
    assert_eq!(names, ["deleting", "failed", "plain", "running"]);
    let end = end.expect("a bookmark at the end");
    assert!(end.initial_events_end && end.resource_version.is_known());
}

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn number(mut self, field: u64, value: i64) -> Self {
        self.varint(field << 3);
        self.varint(value.cast_unsigned());
        self
    }

    fn bytes(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn message(self, field: u64, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    /// A text that is left out where there is none.
    fn text(self, field: u64, json: &Value) -> Self {
        match json.as_str() {
            Some(text) => self.bytes(field, text),
            None => self,
        }
    }

    fn time(self, field: u64, json: &Value) -> Self {
        let message = match json.as_str() {
            Some(text) => {
                let seconds = muster_objects::Timestamp::parse(text).expect("a time").as_seconds();
                Self::default().number(1, seconds).number(2, 0)
            }
            None => Self::default(),
        };
        self.message(field, &message)
    }

    fn each<'a>(self, json: &'a Value, add: impl Fn(Self, &'a Value) -> Self) -> Self {
        json.as_array().into_iter().flatten().fold(self, add)
    }

    fn map(self, field: u64, json: &Value) -> Self {
        let pairs = json.as_object().into_iter().flatten();
        pairs.fold(self, |message, (key, value)| message.message(field, &Self::default().bytes(1, key).text(2, value)))
    }
}

/// A pod's message from its JSON, with fields between that are none of ours.
fn encode(pod: &Value) -> Message {
    let meta = &pod["metadata"];
    let metadata = Message::default().text(1, &meta["name"]).bytes(2, "generated-").text(3, &meta["namespace"]);
    let metadata = metadata.text(5, &meta["uid"]).text(6, &meta["resourceVersion"]);
    let metadata = metadata.number(7, meta["generation"].as_i64().unwrap_or(0)).time(8, &meta["creationTimestamp"]);
    let metadata = match &meta["deletionTimestamp"] {
        Value::Null => metadata,
        time => metadata.time(9, time).number(10, 30),
    };
    let metadata = metadata.map(11, &meta["labels"]).map(12, &meta["annotations"]);
    let metadata = metadata.each(&meta["ownerReferences"], |metadata, owner| {
        let reference = Message::default().text(1, &owner["kind"]).text(3, &owner["name"]).text(4, &owner["uid"]);
        let reference = reference.text(5, &owner["apiVersion"]);
        metadata.message(13, &reference.number(6, i64::from(owner["controller"] == true)).number(7, 1))
    });
    let spec = Message::default().bytes(2, b"\x0a\x03a{\"").text(10, &pod["spec"]["nodeName"]);
    let spec = spec.each(&pod["spec"]["initContainers"], |spec, container| {
        let container = Message::default().text(1, &container["name"]).text(24, &container["restartPolicy"]);
        spec.message(20, &container)
    });
    let status = &pod["status"];
    let encoded = Message::default().text(1, &status["phase"]);
    let encoded = encoded.each(&status["conditions"], |status, condition| {
        let message = Message::default().text(1, &condition["type"]).text(2, &condition["status"]);
        let message = message.time(3, &Value::Null).time(4, &condition["lastTransitionTime"]);
        status.message(2, &message.bytes(5, "Reason").number(7, -1))
    });
    let encoded = match &status["startTime"] {
        Value::Null => encoded,
        time => encoded.time(7, time),
    };
    let containers = |number| {
        move |status: Message, container: &Value| {
            let finished = &container["state"]["terminated"]["finishedAt"];
            let terminated = Message::default().number(1, 137).time(5, &Value::Null).time(6, finished);
            let state = match &container["state"] {
                Value::Null => Message::default(),
                _ => Message::default().message(3, &terminated),
            };
            let message = Message::default().text(1, &container["name"]).message(2, &state);
            let message = message.message(3, &Message::default().message(3, &terminated));
            status.message(number, &message.number(5, container["restartCount"].as_i64().unwrap_or(0)))
        }
    };
    let encoded = encoded.each(&status["containerStatuses"], containers(8));
    let encoded = encoded.each(&status["initContainerStatuses"], containers(10));
    Message::default().message(1, &metadata).message(2, &spec).message(3, &encoded)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{0,40}", "[\\PC]{0,5}", "[a-z\"\\\\{}]{0,300}"]
}

fn uid() -> impl Strategy<Value = String> {
    prop_oneof!["[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[a-z]{0,5}"]
}

fn time() -> impl Strategy<Value = Value> {
    let seconds = prop_oneof![-2_000_000_000_i64..4_000_000_000, Just(0)];
    option::weighted(0.8, seconds)
        .prop_map(|seconds| json!(seconds.map(|s| muster_objects::Timestamp::from_seconds(s).to_string())))
}

fn texts() -> impl Strategy<Value = Value> {
    let key = prop_oneof![4 => text(), 1 => Just(muster_objects::pod::POD_DELETION_COST.to_owned())];
    let value = prop_oneof![text(), any::<i32>().prop_map(|cost| cost.to_string())];
    vec((key, value), 0..6).prop_map(|pairs| {
        Value::Object(pairs.into_iter().map(|(key, value)| (key, Value::from(value))).collect::<Map<_, _>>())
    })
}

fn metadata() -> impl Strategy<Value = Value> {
    let owner = (text(), text(), text(), uid(), any::<bool>()).prop_map(|(version, kind, name, uid, controller)| {
        json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": controller})
    });
    let names = (text(), text(), uid());
    let numbers = (option::of(1..=u64::MAX), any::<i64>());
    (names, numbers, time(), time(), texts(), texts(), vec(owner, 0..3)).prop_map(
        |((name, namespace, uid), (version, generation), created, deleted, labels, annotations, owners)| {
            json!({
                "name": name, "namespace": namespace, "uid": uid, "generation": generation,
                "resourceVersion": version.map_or_else(String::new, |version| version.to_string()),
                "creationTimestamp": created, "deletionTimestamp": deleted,
                "labels": labels, "annotations": annotations, "ownerReferences": owners,
            })
        },
    )
}

fn status() -> impl Strategy<Value = Value> {
    let phase = select(std::vec!["", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Dreaming"]);
    let kind = select(std::vec!["Ready", "PodScheduled", "ContainersReady", ""]);
    let condition = (kind, select(std::vec!["True", "False", "Unknown", "Maybe"]), time())
        .prop_map(|(kind, status, time)| json!({"type": kind, "status": status, "lastTransitionTime": time}));
    let container = || {
        (select(std::vec!["a", "b", "c"]), any::<i32>(), option::of(time())).prop_map(|(name, restarts, finished)| {
            let state = finished.map(|finished| json!({"terminated": {"finishedAt": finished}}));
            json!({"name": name, "restartCount": restarts, "state": state})
        })
    };
    (phase, vec(condition, 0..4), vec(container(), 0..4), vec(container(), 0..4), time()).prop_map(
        |(phase, conditions, containers, init_containers, start)| {
            json!({
                "phase": phase, "conditions": conditions, "containerStatuses": containers,
                "initContainerStatuses": init_containers, "startTime": start,
            })
        },
    )
}

fn pod() -> impl Strategy<Value = Value> {
    let container = (select(std::vec!["a", "b", "c"]), select(std::vec!["Always", "", "Never"]))
        .prop_map(|(name, policy)| json!({"name": name, "restartPolicy": policy}));
    (metadata(), text(), vec(container, 0..4), status()).prop_map(|(metadata, node, containers, status)| {
        json!({"metadata": metadata, "spec": {"nodeName": node, "initContainers": containers}, "status": status})
    })
}

proptest! {
    /// Contract: INF-10
    #[test]
    fn a_pod_is_the_same_in_both_forms(pod in pod()) {
        let json = from_json(pod.to_string().as_bytes()).expect("a pod");
        prop_assert_eq!(from_message(&encode(&pod).0).expect("a pod"), json);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = from_message(&bytes);
        let _ = Envelope::decode(&bytes);
        let _ = WatchEvent::decode_protobuf(&bytes);
        let _ = Bookmark::decode_protobuf(&bytes);
        let _ = ListPage::decode_protobuf(&[b"k8s\0", &*bytes].concat());
    }

    /// A recorded body with some of its bytes changed, so that the damage lies deep inside.
    #[test]
    fn no_damage_makes_it_panic(pod in 0..RECORDED.len(), damage in vec((any::<Index>(), any::<u8>()), 1..6)) {
        let mut body = RECORDED[pod].1.to_vec();
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if let Ok(envelope) = Envelope::decode(&body) {
            let _ = from_message(envelope.message);
        }
    }

    /// A pod's message has no end of its own: cut between two fields it is a pod, anywhere else an error.
    #[test]
    fn a_message_that_is_cut_off_is_noticed(pod in 0..RECORDED.len(), cut in any::<Index>()) {
        let message = Envelope::decode(RECORDED[pod].1).expect("recorded").message;
        let cut = &message[..cut.index(message.len())];
        let ends: Vec<usize> = (0..=message.len()).filter(|end| Fields::of(&message[..*end]).all(|f| f.is_ok())).collect();
        prop_assert_eq!(ends.len(), 4, "metadata, spec, status");
        prop_assert_eq!(from_message(cut).is_ok(), ends.contains(&cut.len()));
    }
}

#[test]
fn what_is_no_message_is_an_error_that_says_why() {
    let in_meta = |meta: Message| Message::default().message(1, &meta).0;
    let bodies: [(&str, Vec<u8>, &str); 9] = [
        ("a field's end", std::vec![0x0a, 5, 0], "ends in the middle of a field"),
        ("a length beyond memory", [&[0x0a][..], &[0xff; 9], &[1]].concat(), "ends in the middle of a field"),
        ("an endless number", [&[0x08][..], &[0xff; 12]].concat(), "longer than 64 bits"),
        ("a group", std::vec![0x0b], "11 is no tag"),
        ("field 0", std::vec![0x02, 0], "2 is no tag"),
        ("a name in numbers", in_meta(Message::default().number(1, 7)), "field 1 is not a text"),
        ("a name of bytes", in_meta(Message::default().bytes(1, b"\xff")), "field 1 is not UTF-8"),
        ("a label of bytes", in_meta(Message::default().bytes(11, b"\x0a\x01\xff")), "field 11 is not UTF-8"),
        ("a version of no number", in_meta(Message::default().bytes(6, "007")), "not well formed: 007"),
    ];
    for (what, body, why) in bodies {
        let error = from_message(&body).expect_err(what).to_string();
        assert!(error.starts_with("cannot decode Pod: ") && error.contains(why), "{what}: {error}");
    }
    let restarts = Message::default().message(8, &Message::default().number(5, 1 << 40));
    assert!(from_message(&Message::default().message(3, &restarts).0).is_err(), "a count of more than 32 bits");
    assert_eq!(Envelope::decode(b"{}"), Err(Malformed::Magic));
}

/// What the generated code of upstream makes of a field that came twice, and of types unknown to it.
#[test]
fn messages_are_merged_and_the_last_scalar_counts() {
    let metadata = |name: &str| Message::default().bytes(1, name);
    let pod = Message::default().message(1, &metadata("a").bytes(3, "ns")).message(1, &metadata("b"));
    // A fixed64 and a fixed32 that a version to come may have added.
    let tail = [pod.0, std::vec![0xf9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xfd, 1, 0, 0, 0, 0]].concat();
    let pod = from_message(&tail).expect("a pod");
    assert_eq!(pod.meta.key().to_string(), "ns/b");
    assert_eq!(from_message(b"").expect("an empty message is a pod"), from_json(b"{}").expect("a pod"));
}

#[test]
fn what_is_no_watch_event_is_an_error() {
    let body = |kind: &str, object: &[u8]| {
        Message::default().bytes(1, kind).message(2, &Message::default().bytes(1, object)).0
    };
    let pod = RECORDED[0].1;
    assert!(WatchEvent::decode_protobuf(&body("MODIFIED", pod)).is_ok());
    for (frame, why) in [
        (body("LOST", pod), "unknown event type \"LOST\""),
        (body("ADDED", b"{}"), "magic bytes"),
        (std::vec![], "unknown event type \"\""),
    ] {
        let error = WatchEvent::decode_protobuf(&frame).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
    let bookmark =
        Message::default().message(1, &Message::default().bytes(6, "12").bytes(12, b"\x0a\x01a\x12\x04true"));
    let bookmark = Bookmark::decode_protobuf(&bookmark.0).expect("a bookmark");
    assert_eq!(bookmark, Bookmark { resource_version: ResourceVersion(12), initial_events_end: false });
    let error = Bookmark::decode_protobuf(b"").expect_err("no version").to_string();
    assert_eq!(error, "cannot decode bookmark: no resourceVersion");
    assert_eq!(Envelope::decode(NOT_FOUND).map(|envelope| envelope.kind), Ok("Status"));
}
