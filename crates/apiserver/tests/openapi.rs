//! The OpenAPI documents, as clients ask for them.

mod support;

use serde_json::{Value, json};

use support::start;

/// The fields of a protobuf message that have a length, by their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for place in 0.. {
            let (first, rest) = message.split_first().expect("more bytes");
            *message = rest;
            value |= u64::from(first & 0x7f) << (7 * place);
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        assert_eq!(key & 7, 2, "field {} has a length", key >> 3);
        let length = usize::try_from(varint(&mut message)).expect("a length");
        let (content, rest) = message.split_at(length);
        found.push((key >> 3, content));
        message = rest;
    }
    found
}

fn text(message: &[u8], number: u64) -> Option<&str> {
    fields(message)
        .into_iter()
        .find(|(found, _)| *found == number)
        .map(|(_, text)| str::from_utf8(text).expect("UTF-8"))
}

/// A schema of `openapi.v2`, as far as documents of Kubernetes use it.
fn schema(message: &[u8]) -> Value {
    let mut out = json!({});
    for (number, content) in fields(message) {
        let any =
            |message| -> Value { text(message, 2).map(|yaml| serde_json::from_str(yaml).expect("JSON")).unwrap() };
        match number {
            1 | 2 | 4 => {
                let name = ["$ref", "format", "", "description"][usize::try_from(number - 1).unwrap()];
                out[name] = json!(str::from_utf8(content).expect("UTF-8"));
            }
            5 => out["default"] = any(content),
            19 | 20 => {
                let (name, item) = match number {
                    19 => ("required", json!(str::from_utf8(content).expect("UTF-8"))),
                    _ => ("enum", any(content)),
                };
                out.as_object_mut().unwrap().entry(name).or_insert(json!([])).as_array_mut().unwrap().push(item);
            }
            21 => out["additionalProperties"] = schema(fields(content)[0].1),
            22 => out["type"] = json!(text(content, 1)),
            23 => out["items"] = schema(fields(content)[0].1),
            25 => out["properties"] = schemas(content),
            31 => out[text(content, 1).unwrap()] = any(fields(content)[1].1),
            other => panic!("field {other}"),
        }
    }
    out
}

fn schemas(message: &[u8]) -> Value {
    fields(message)
        .into_iter()
        .map(|(_, pair)| (text(pair, 1).unwrap().to_owned(), schema(fields(pair)[1].1)))
        .collect()
}

/// client-go asks for protobuf only, by an older name of the type.
///
/// Contract: API-04
#[tokio::test(start_paused = true)]
async fn openapi_v2_is_the_same_in_json_and_in_protobuf() {
    let server = start();
    let asked = async |accept: &str| server.send("GET", "/openapi/v2", &[("Accept", accept)], "").await;
    let json = asked("application/json").await.json();
    let answer = asked("application/com.github.proto-openapi.spec.v2@v1.0+protobuf").await;
    assert_eq!(answer.header("content-type"), "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    let document = fields(&answer.body);
    assert_eq!(document.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 8, 9]);
    assert_eq!((document[0].1, text(document[1].1, 1)), (&b"2.0"[..], Some("Kubernetes")));
    assert_eq!(schemas(document[3].1), json["definitions"]);
    assert!(json["definitions"]["io.k8s.api.apps.v1.ReplicaSet"]["properties"]["spec"]["$ref"].is_string());
    assert_eq!(asked("text/plain").await.status, 406);
    assert_eq!(asked("text/html, */*;q=0.1").await.header("content-type"), "application/json");
}
