//! Kubernetes' protobuf as a server writes it: enough of it for the objects of the tests.

use serde_json::Value;

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

    fn number(mut self, field: u64, value: &Value) -> Self {
        if let Some(number) = value.as_u64() {
            self.varint(field << 3);
            self.varint(number);
        }
        self
    }

    fn bytes(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// A text; absent where the JSON has none.
    fn text(self, field: u64, json: &Value) -> Self {
        match json.as_str() {
            Some(text) => self.bytes(field, text),
            None => self,
        }
    }
}

/// The message of an object that has nothing but metadata, of a Status, or of a list of the former.
fn message(object: &Value) -> Message {
    let metadata = &object["metadata"];
    if object["kind"] == "Status" {
        let status = Message::default().text(2, &object["status"]).text(3, &object["message"]);
        return status.text(4, &object["reason"]).number(6, &object["code"]);
    }
    if let Some(items) = object["items"].as_array() {
        let list = Message::default().text(2, &metadata["resourceVersion"]).text(3, &metadata["continue"]);
        return items.iter().fold(Message::default().bytes(1, list.0), |list, item| list.bytes(2, message(item).0));
    }
    let meta = Message::default().text(1, &metadata["name"]).text(3, &metadata["namespace"]);
    let meta = meta.text(5, &metadata["uid"]).text(6, &metadata["resourceVersion"]);
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    let meta =
        annotations.fold(meta, |meta, (key, value)| meta.bytes(12, Message::default().bytes(1, key).text(2, value).0));
    Message::default().bytes(1, meta.0)
}

/// The body of an answer that is this object.
pub(crate) fn body(object: &Value) -> Vec<u8> {
    let kind = Message::default().bytes(1, "v1").text(2, &object["kind"]);
    let unknown = Message::default().bytes(1, kind.0).bytes(2, message(object).0).bytes(3, "").bytes(4, "");
    [b"k8s\0", &*unknown.0].concat()
}

/// One event of a watch, its length before it.
pub(crate) fn frame(kind: &str, object: &Value) -> Vec<u8> {
    let object = Message::default().bytes(1, body(object));
    let event = Message::default().bytes(1, kind).bytes(2, object.0).0;
    let length = u32::try_from(event.len()).expect("a short event");
    [&length.to_be_bytes(), &*event].concat()
}
