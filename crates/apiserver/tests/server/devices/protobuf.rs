//! Devices as protobuf: by the table of types in both directions, and by the numbers of upstream's generated.proto,
//! which stand here once more.

use muster_apiserver::codec::to_protobuf;
use serde_json::json;

use super::{CLAIMS, CLASSES, SLICES, TEMPLATES, change_status, make, object};
use crate::support::{Answer, Server, start};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("seven bits"));
    out
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn text(field: u64, content: &str) -> Vec<u8> {
    bytes(field, content.as_bytes())
}

fn message(field: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    bytes(field, &fields.concat())
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    let length = u64::try_from(content.len()).expect("a length");
    [varint(field << 3 | 2), varint(length), content.to_vec()].concat()
}

/// An object in its envelope.
fn envelope(kind: &str, fields: &[Vec<u8>]) -> Vec<u8> {
    let type_meta = message(1, &[text(1, "resource.k8s.io/v1"), text(2, kind)]);
    [b"k8s\0".to_vec(), type_meta, message(2, fields)].concat()
}

enum Held<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

fn fields(mut message: &[u8]) -> Vec<(u64, Held<'_>)> {
    let mut out = Vec::new();
    while !message.is_empty() {
        let key = read(&mut message);
        let held = match key & 7 {
            0 => Held::Number(read(&mut message)),
            2 => {
                let length = usize::try_from(read(&mut message)).expect("a length");
                let (content, rest) = message.split_at(length);
                message = rest;
                Held::Bytes(content)
            }
            other => panic!("no field is of type {other}"),
        };
        out.push((key >> 3, held));
    }
    out
}

fn read(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = message.split_first().expect("a number that ends");
        *message = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than 64 bits")
}

/// What stands at a path of numbers of fields, in all messages on the way.
fn at<'m>(message: &'m [u8], path: &[u64]) -> Vec<&'m [u8]> {
    path.iter().fold(vec![message], |messages, number| {
        let all = messages.into_iter().flat_map(fields).filter(|(own, _)| own == number);
        let bytes = |(_, held): (u64, Held<'m>)| if let Held::Bytes(content) = held { Some(content) } else { None };
        all.filter_map(bytes).collect()
    })
}

fn texts<'m>(message: &'m [u8], path: &[u64]) -> Vec<&'m str> {
    at(message, path).into_iter().map(|content| std::str::from_utf8(content).expect("a text")).collect()
}

fn numbers(message: &[u8], path: &[u64]) -> Vec<u64> {
    let (last, path) = path.split_last().expect("a field");
    let all = at(message, path).into_iter().flat_map(fields).filter(|(own, _)| own == last);
    all.filter_map(|(_, held)| if let Held::Number(value) = held { Some(value) } else { None }).collect()
}

async fn send(server: &Server, path: &str, body: Vec<u8>) -> Answer {
    let answer = server.send("POST", path, &[("Content-Type", PROTOBUF)], body).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    answer
}

/// The object that is at a path, out of its envelope.
async fn get(server: &Server, path: &str, kind: &str) -> Vec<u8> {
    let answer = server.send("GET", path, &[("Accept", PROTOBUF)], "").await;
    let unknown = answer.body.strip_prefix(b"k8s\0").expect("an envelope");
    assert_eq!((texts(unknown, &[1, 1]), texts(unknown, &[1, 2])), (vec!["resource.k8s.io/v1"], vec![kind]));
    let [object] = at(unknown, &[2])[..] else { panic!("not one object") };
    object.to_vec()
}

/// Contract: API-05, API-18, API-43
#[tokio::test(start_paused = true)]
async fn what_comes_as_protobuf_is_as_what_comes_as_json_and_a_deletion_tells_what_it_was() {
    let server = start();
    let opaque = json!({"driver": "a.example.com", "parameters": {"b": [1, {"c": null}]}});
    let selector = json!({"cel": {"expression": "device.driver == 'a'"}});
    let toleration = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3});
    let request = json!({"deviceClassName": "gpu", "selectors": [selector], "allocationMode": "ExactCount", "count": 2,
        "adminAccess": false, "tolerations": [toleration], "capacity": {"requests": {"a.example.com/mem": "1Gi"}}});
    let mut alternative = request.clone();
    alternative["name"] = json!("b");
    alternative.as_object_mut().expect("an object").remove("adminAccess");
    let devices = json!({
        "requests": [{"name": "a", "exactly": request}, {"name": "any", "firstAvailable": [alternative]}],
        "constraints": [{"requests": ["a"], "matchAttribute": "a.example.com/b"}, {"distinctAttribute": "a.example.com/c"}],
        "config": [{"requests": ["any/b"], "opaque": opaque}],
    });
    let class =
        json!({"selectors": [selector], "config": [{"opaque": opaque}], "extendedResourceName": "example.com/gpu"});
    let policy = json!({"default": "1", "validRange": {"min": "1", "max": "3", "step": "1"}});
    let device = json!({
        "name": "a", "allowMultipleAllocations": true, "bindsToNode": true, "allNodes": true,
        "attributes": {"b": {"bool": false}, "i": {"int": 0}, "s": {"string": ""}, "v": {"version": "1.0.0-a.1+b"}},
        "capacity": {"m": {"value": "4", "requestPolicy": policy}}, "bindingConditions": ["x"], "bindingFailureConditions": ["y"],
        "consumesCounters": [{"counterSet": "c", "counters": {"d": {"value": "10m"}}}],
        "taints": [{"key": "t", "effect": "None", "timeAdded": "2026-01-01T00:00:00Z"}],
    });
    let offered = json!({"driver": "a.example.com", "pool": {"name": "p/q", "generation": 3, "resourceSliceCount": 2},
        "perDeviceNodeSelection": true, "devices": [device]});
    for (path, object) in [
        (CLASSES, object("DeviceClass", &class)),
        (CLAIMS, object("ResourceClaim", &json!({"devices": devices}))),
        (
            TEMPLATES,
            object("ResourceClaimTemplate", &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"devices": devices}})),
        ),
        (SLICES, object("ResourceSlice", &offered)),
    ] {
        let made = make(&server, path, &object).await;
        assert_eq!(made["spec"], object["spec"], "{path}");
        let deleted = server.delete(&format!("{path}/one"), None).await;
        assert_eq!((deleted.status, &deleted.json()["spec"]), (200, &object["spec"]), "{path}");
        let protobuf = to_protobuf(&object.clone().into()).expect("protobuf has a form for it");
        let headers = [("Content-Type", "application/vnd.kubernetes.protobuf")];
        let answer = server.send("POST", path, &headers, protobuf).await;
        assert_eq!((answer.status, &answer.json()["spec"]), (201, &object["spec"]), "{path}");
        let answer = server.send("GET", &format!("{path}/one"), &[("Accept", headers[0].1)], "").await;
        assert_eq!((answer.status, answer.header("Content-Type")), (200, headers[0].1), "{path}");
    }
}

/// Contract: API-05, API-43
#[tokio::test(start_paused = true)]
async fn classes_have_the_numbers_of_upstream() {
    let server = start();
    let expression = "device.driver == 'a'";
    let opaque = message(1, &[text(1, "a.example.com"), message(2, &[text(1, r#"{"b":[1,null]}"#)])]);
    let selector = message(1, &[message(1, &[text(1, expression)])]);
    let spec = message(2, &[selector, message(2, &[message(1, &[opaque])]), text(4, "example.com/gpu")]);
    let body = envelope("DeviceClass", &[message(1, &[text(1, "one")]), spec]);
    let class = json!({
        "selectors": [{"cel": {"expression": expression}}],
        "config": [{"opaque": {"driver": "a.example.com", "parameters": {"b": [1, null]}}}],
        "extendedResourceName": "example.com/gpu",
    });
    assert_eq!(send(&server, CLASSES, body).await.json()["spec"], class);

    let class = get(&server, &format!("{CLASSES}/one"), "DeviceClass").await;
    let told: &[(&[u64], &[&str])] = &[
        (&[1, 1], &["one"]),
        (&[2, 1, 1, 1], &[expression]),
        (&[2, 2, 1, 1, 1], &["a.example.com"]),
        (&[2, 2, 1, 1, 2, 1], &[r#"{"b":[1,null]}"#]),
        (&[2, 4], &["example.com/gpu"]),
    ];
    for (path, expected) in told {
        assert_eq!(texts(&class, path), *expected, "{path:?}");
    }
}

/// Contract: API-05, API-43
#[tokio::test(start_paused = true)]
async fn claims_have_the_numbers_of_upstream() {
    let server = start();
    let toleration = message(6, &[text(1, "a"), text(2, "Exists"), text(4, "NoExecute"), number(5, 3)]);
    let capacity = message(7, &[message(1, &[text(1, "a.example.com/mem"), message(2, &[text(1, "1Gi")])])]);
    let exactly = [
        text(1, "gpu"),
        message(2, &[message(1, &[text(1, "true")])]),
        text(3, "ExactCount"),
        number(4, 2),
        number(5, 0),
        toleration.clone(),
        capacity.clone(),
    ];
    let alternative = [text(1, "b"), text(2, "gpu"), text(4, "ExactCount"), number(5, 300), toleration, capacity];
    let opaque = message(1, &[text(1, "a.example.com"), message(2, &[text(1, "{}")])]);
    let devices = [
        message(1, &[text(1, "a"), message(2, &exactly)]),
        message(1, &[text(1, "any"), message(3, &alternative)]),
        message(2, &[text(1, "a"), text(2, "a.example.com/b")]),
        message(2, &[text(3, "a.example.com/c")]),
        message(3, &[text(1, "any/b"), message(2, &[opaque])]),
    ];
    let metadata = message(1, &[text(1, "one"), text(3, "default")]);
    let body = envelope("ResourceClaim", &[metadata, message(2, &[message(1, &devices)])]);
    let toleration = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3});
    let capacity = json!({"requests": {"a.example.com/mem": "1Gi"}});
    let devices = json!({
        "requests": [
            {"name": "a", "exactly": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "true"}}],
                "allocationMode": "ExactCount", "count": 2, "adminAccess": false, "tolerations": [toleration],
                "capacity": capacity}},
            {"name": "any", "firstAvailable": [{"name": "b", "deviceClassName": "gpu", "allocationMode": "ExactCount",
                "count": 300, "tolerations": [toleration], "capacity": capacity}]},
        ],
        "constraints": [
            {"requests": ["a"], "matchAttribute": "a.example.com/b"}, {"distinctAttribute": "a.example.com/c"},
        ],
        "config": [{"requests": ["any/b"], "opaque": {"driver": "a.example.com", "parameters": {}}}],
    });
    assert_eq!(send(&server, CLAIMS, body).await.json()["spec"]["devices"], devices);

    let share = "ac051fac-2ead-46d9-b8b4-4e0fbeb7455d";
    let given = json!({"request": "any/b", "driver": "a.example.com", "pool": "p", "device": "d", "shareID": share,
        "bindingConditions": ["x"], "bindingFailureConditions": ["y"]});
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["n"]});
    let node = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    let network = json!({"interfaceName": "eth0", "ips": ["10.0.0.1/8"], "hardwareAddress": "00:01"});
    let status = json!({
        "allocation": {"devices": {"results": [given]}, "nodeSelector": node},
        "reservedFor": [{"resource": "pods", "name": "r", "uid": "1"}],
        "devices": [{"driver": "a.example.com", "pool": "p", "device": "d", "shareID": share, "data": {"a": 1},
            "networkData": network}],
    });
    let answer = change_status(&server, &status).await;
    assert_eq!(answer.status, 200, "{}", answer.json());

    let claim = get(&server, &format!("{CLAIMS}/one"), "ResourceClaim").await;
    let told: &[(&[u64], &[&str])] = &[
        (&[1, 1], &["one"]),
        (&[1, 3], &["default"]),
        (&[2, 1, 1, 1], &["a", "any"]),
        (&[2, 1, 1, 2, 1], &["gpu"]),
        (&[2, 1, 1, 2, 2, 1, 1], &["true"]),
        (&[2, 1, 1, 2, 3], &["ExactCount"]),
        (&[2, 1, 1, 2, 6, 1], &["a"]),
        (&[2, 1, 1, 2, 6, 2], &["Exists"]),
        (&[2, 1, 1, 2, 6, 4], &["NoExecute"]),
        (&[2, 1, 1, 2, 7, 1, 1], &["a.example.com/mem"]),
        (&[2, 1, 1, 2, 7, 1, 2, 1], &["1Gi"]),
        (&[2, 1, 1, 3, 1], &["b"]),
        (&[2, 1, 1, 3, 2], &["gpu"]),
        (&[2, 1, 1, 3, 4], &["ExactCount"]),
        (&[2, 1, 1, 3, 6, 1], &["a"]),
        (&[2, 1, 1, 3, 7, 1, 2, 1], &["1Gi"]),
        (&[2, 1, 2, 1], &["a"]),
        (&[2, 1, 2, 2], &["a.example.com/b"]),
        (&[2, 1, 2, 3], &["a.example.com/c"]),
        (&[2, 1, 3, 1], &["any/b"]),
        (&[2, 1, 3, 2, 1, 1], &["a.example.com"]),
        (&[2, 1, 3, 2, 1, 2, 1], &["{}"]),
        (&[3, 1, 1, 1, 1], &["any/b"]),
        (&[3, 1, 1, 1, 2], &["a.example.com"]),
        (&[3, 1, 1, 1, 3], &["p"]),
        (&[3, 1, 1, 1, 4], &["d"]),
        (&[3, 1, 1, 1, 7], &["x"]),
        (&[3, 1, 1, 1, 8], &["y"]),
        (&[3, 1, 1, 1, 9], &[share]),
        (&[3, 1, 3, 1, 2, 1], &["metadata.name"]),
        (&[3, 1, 3, 1, 2, 3], &["n"]),
        (&[3, 2, 3], &["pods"]),
        (&[3, 2, 4], &["r"]),
        (&[3, 2, 5], &["1"]),
        (&[3, 4, 1], &["a.example.com"]),
        (&[3, 4, 2], &["p"]),
        (&[3, 4, 3], &["d"]),
        (&[3, 4, 5, 1], &[r#"{"a":1}"#]),
        (&[3, 4, 6, 1], &["eth0"]),
        (&[3, 4, 6, 2], &["10.0.0.1/8"]),
        (&[3, 4, 6, 3], &["00:01"]),
        (&[3, 4, 7], &[share]),
    ];
    for (path, expected) in told {
        assert_eq!(texts(&claim, path), *expected, "{path:?}");
    }
    let told: &[(&[u64], &[u64])] =
        &[(&[2, 1, 1, 2, 4], &[2]), (&[2, 1, 1, 2, 5], &[0]), (&[2, 1, 1, 2, 6, 5], &[3]), (&[2, 1, 1, 3, 5], &[300])];
    for (path, expected) in told {
        assert_eq!(numbers(&claim, path), *expected, "{path:?}");
    }
}

/// Contract: API-05, API-43
#[tokio::test(start_paused = true)]
async fn slices_have_the_numbers_of_upstream() {
    let server = start();
    let quantity = |field: u64, amount: &str| message(field, &[text(1, amount)]);
    let attribute = |key: &str, value: Vec<u8>| message(2, &[text(1, key), message(2, &[value])]);
    let range = message(4, &[quantity(1, "1"), quantity(2, "3"), quantity(3, "2")]);
    let policy = message(2, &[quantity(1, "1"), range]);
    let choice = message(2, &[quantity(1, "2"), quantity(3, "2")]);
    let capacity = |key: &str, policy: Vec<u8>| message(3, &[text(1, key), message(2, &[quantity(1, "4"), policy])]);
    let counter = message(2, &[text(1, "d"), message(2, &[quantity(1, "10m")])]);
    let device = [
        text(1, "a"),
        attribute("b", number(3, 0)),
        attribute("i", number(2, 5)),
        attribute("s", text(4, "t")),
        attribute("v", text(5, "1.0.0")),
        capacity("m", policy),
        capacity("o", choice),
        message(4, &[text(1, "c"), counter]),
        text(5, "n"),
        message(8, &[text(1, "t"), text(2, "u"), text(3, "None"), message(4, &[number(1, 1_767_225_600)])]),
        number(9, 1),
        text(10, "x"),
        text(11, "y"),
        number(12, 1),
    ];
    let pool = message(2, &[text(1, "p"), number(2, 3), number(3, 2)]);
    let spec = message(2, &[text(1, "a.example.com"), pool, message(6, &device), number(7, 1)]);
    let body = envelope("ResourceSlice", &[message(1, &[text(1, "one")]), spec]);
    let range = json!({"min": "1", "max": "3", "step": "2"});
    let device = json!({
        "name": "a", "nodeName": "n", "bindsToNode": true, "allowMultipleAllocations": true,
        "attributes": {"b": {"bool": false}, "i": {"int": 5}, "s": {"string": "t"}, "v": {"version": "1.0.0"}},
        "capacity": {
            "m": {"value": "4", "requestPolicy": {"default": "1", "validRange": range}},
            "o": {"value": "4", "requestPolicy": {"default": "2", "validValues": ["2"]}},
        },
        "consumesCounters": [{"counterSet": "c", "counters": {"d": {"value": "10m"}}}],
        "taints": [{"key": "t", "value": "u", "effect": "None", "timeAdded": "2026-01-01T00:00:00Z"}],
        "bindingConditions": ["x"], "bindingFailureConditions": ["y"],
    });
    let slice = json!({"driver": "a.example.com", "pool": {"name": "p", "generation": 3, "resourceSliceCount": 2},
        "perDeviceNodeSelection": true, "devices": [device]});
    assert_eq!(send(&server, SLICES, body).await.json()["spec"], slice);

    let slice = get(&server, &format!("{SLICES}/one"), "ResourceSlice").await;
    let told: &[(&[u64], &[&str])] = &[
        (&[2, 1], &["a.example.com"]),
        (&[2, 2, 1], &["p"]),
        (&[2, 6, 1], &["a"]),
        (&[2, 6, 2, 1], &["b", "i", "s", "v"]),
        (&[2, 6, 2, 2, 4], &["t"]),
        (&[2, 6, 2, 2, 5], &["1.0.0"]),
        (&[2, 6, 3, 1], &["m", "o"]),
        (&[2, 6, 3, 2, 1, 1], &["4", "4"]),
        (&[2, 6, 3, 2, 2, 1, 1], &["1", "2"]),
        (&[2, 6, 3, 2, 2, 3, 1], &["2"]),
        (&[2, 6, 3, 2, 2, 4, 1, 1], &["1"]),
        (&[2, 6, 3, 2, 2, 4, 2, 1], &["3"]),
        (&[2, 6, 3, 2, 2, 4, 3, 1], &["2"]),
        (&[2, 6, 4, 1], &["c"]),
        (&[2, 6, 4, 2, 1], &["d"]),
        (&[2, 6, 4, 2, 2, 1, 1], &["10m"]),
        (&[2, 6, 5], &["n"]),
        (&[2, 6, 8, 1], &["t"]),
        (&[2, 6, 8, 2], &["u"]),
        (&[2, 6, 8, 3], &["None"]),
        (&[2, 6, 10], &["x"]),
        (&[2, 6, 11], &["y"]),
    ];
    for (path, expected) in told {
        assert_eq!(texts(&slice, path), *expected, "{path:?}");
    }
    let told: &[(&[u64], &[u64])] = &[
        (&[2, 2, 2], &[3]),
        (&[2, 2, 3], &[2]),
        (&[2, 6, 2, 2, 2], &[5]),
        (&[2, 6, 2, 2, 3], &[0]),
        (&[2, 6, 8, 4, 1], &[1_767_225_600]),
        (&[2, 6, 9], &[1]),
        (&[2, 6, 12], &[1]),
        (&[2, 7], &[1]),
    ];
    for (path, expected) in told {
        assert_eq!(numbers(&slice, path), *expected, "{path:?}");
    }
}
