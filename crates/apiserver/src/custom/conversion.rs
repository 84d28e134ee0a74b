//! Telling objects in another version by asking a webhook: a `ConversionReview` there and back.

use std::fmt;

use muster_tree::{Value, json};

use super::Object;
use super::definition::Webhook;
use crate::model::Fields as _;

/// Brings a body to a webhook, and its answer back.
pub trait Caller: Send + Sync + fmt::Debug {
    /// What names a review.
    fn uid(&self) -> String {
        "00000000-0000-4000-8000-000000000000".to_owned()
    }

    /// Posts JSON to the webhook of a `clientConfig`, and waits for the answer.
    ///
    /// # Errors
    /// Why there is none.
    fn post(&self, config: &Object, body: Vec<u8>) -> Result<Vec<u8>, String>;
}

/// Nobody: there is no network.
#[derive(Debug, Default)]
pub struct NoCaller;

impl Caller for NoCaller {
    fn post(&self, _config: &Object, _body: Vec<u8>) -> Result<Vec<u8>, String> {
        Err("webhooks cannot be called".to_owned())
    }
}

/// The versions of a review that are spoken here.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// Makes objects of one kind ones of an `apiVersion`. Those that are already are not sent.
///
/// # Errors
/// What went wrong, in the reference's words.
pub fn convert(webhook: &Webhook, caller: &dyn Caller, objects: &mut [Object], to: &str) -> Result<(), String> {
    let sent: Vec<Value> =
        objects.iter().filter(|object| object.text("apiVersion") != to).cloned().map(Value::Object).collect();
    let Some(first) = sent.first() else { return Ok(()) };
    let from = format!("{}, Kind={}", text(first, "apiVersion"), text(first, "kind"));
    let uid = caller.uid();
    let known = webhook.conversion_review_versions.iter().find(|version| REVIEWS.contains(&version.as_str()));
    let version = known.ok_or("no supported conversion review versions")?;
    let review = json!({
        "kind": "ConversionReview",
        "apiVersion": format!("apiextensions.k8s.io/{version}"),
        "request": {"uid": uid, "desiredAPIVersion": to, "objects": sent},
    });
    let failed = |why: String| format!("conversion webhook for {from} failed: {why}");
    let config = muster_tree::Value::of(&webhook.client_config).map_err(|error| failed(error.to_string()))?;
    let config = config.as_object().cloned().unwrap_or_default();
    let answer = caller.post(&config, review.to_string().into_bytes()).map_err(failed)?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|error| failed(error.to_string()))?;
    let converted = answered(&answer, version, &uid).map_err(failed)?;
    if converted.len() != sent.len() {
        return Err(format!(
            "conversion webhook for {from} returned {} objects, expected {}",
            converted.len(),
            sent.len()
        ));
    }
    let originals = objects.iter_mut().filter(|object| object.text("apiVersion") != to);
    for (original, converted) in originals.zip(converted) {
        let invalid = |what: &str, why: String| format!("conversion webhook for {from} returned invalid {what}: {why}");
        *original = checked(original, converted, to).map_err(|(what, why)| invalid(what, why))?;
    }
    Ok(())
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// The objects of an answer.
fn answered<'a>(answer: &'a Value, version: &str, uid: &str) -> Result<&'a [Value], String> {
    let own = format!("apiextensions.k8s.io/{version}");
    let shown = |api_version: &str, kind: &str| format!("{api_version}, Kind={kind}");
    if version == "v1" && (text(answer, "apiVersion"), text(answer, "kind")) != (own.as_str(), "ConversionReview") {
        let (wanted, got) = (shown(&own, "ConversionReview"), shown(text(answer, "apiVersion"), text(answer, "kind")));
        return Err(format!("expected webhook response of {wanted}, got {got}"));
    }
    let response = &answer["response"];
    if response.is_null() {
        return Err("no response provided".to_owned());
    }
    if version == "v1" && text(response, "uid") != uid {
        return Err(format!("expected response.uid=\"{uid}\", got \"{}\"", text(response, "uid")));
    }
    let result = &response["result"];
    match (text(result, "status"), text(result, "message")) {
        ("Success", _) => Ok(response["convertedObjects"].as_array().map_or(&[], muster_tree::List::as_slice)),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

/// A converted object, with the metadata of the original but for labels and annotations.
fn checked(original: &Object, converted: &Value, to: &str) -> Result<Object, (&'static str, String)> {
    let found = text(converted, "apiVersion");
    if found != to {
        let why = format!("invalid groupVersion (expected {to}, received {found})");
        return Err(("object at index 0", why));
    }
    let (was, is) = (original.text("kind"), text(converted, "kind"));
    if was != is {
        return Err(("object at index 0", format!("invalid kind (expected {was}, received {is})")));
    }
    let mut out = converted.as_object().cloned().unwrap_or_default();
    let empty = Object::new();
    let meta = original.object("metadata").unwrap_or(&empty);
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (was, is) = (meta.text(field), converted["metadata"][field].as_str().unwrap_or_default());
        if was != is {
            return Err(("object", format!("must have the same {name}: {was} != {is}")));
        }
    }
    let Some(Value::Object(answered)) = out.remove("metadata") else {
        return Err(("metadata", "missing metadata in converted object".to_owned()));
    };
    let mut kept = meta.clone();
    for field in ["labels", "annotations"] {
        match answered.get(field) {
            Some(value) => kept.insert(field.to_owned(), value.clone()),
            None => kept.remove(field),
        };
    }
    out.insert("metadata", Value::Object(kept));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::custom::definition::Definition;
    use crate::custom::family::Family;

    /// What a webhook makes of a review.
    type Answer = fn(Value) -> Result<Value, String>;

    /// A webhook that answers by a function.
    struct Answering(Answer);

    impl fmt::Debug for Answering {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Answering")
        }
    }

    impl Caller for Answering {
        fn post(&self, _config: &Object, body: Vec<u8>) -> Result<Vec<u8>, String> {
            let review = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            (self.0)(review).map(|answer| answer.to_string().into_bytes())
        }
    }

    /// Moves what is at `spec.old` to `spec.new`.
    fn renamed(mut review: Value) -> Result<Value, String> {
        let request = review["request"].take();
        let mut objects = request["objects"].clone();
        for object in objects.as_array_mut().into_iter().flatten() {
            object["apiVersion"] = request["desiredAPIVersion"].clone();
            let value = object["spec"]["old"].take();
            object["spec"] = json!({"new": value});
            object["metadata"]["labels"] = json!({"told": "again"});
            object["metadata"]["generation"] = json!(99);
        }
        review["response"] =
            json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects});
        Ok(review)
    }

    fn tell(answer: Answer) -> Result<Value, String> {
        let version = |name: &str, storage: bool, field: &str| {
            let spec = json!({"type": "object", "properties": {field: {"type": "string"}}});
            let schema = json!({"type": "object", "properties": {"spec": spec}});
            json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
        };
        let definition = json!({
            "metadata": {"name": "as.b.c"},
            "spec": {
                "group": "b.c",
                "names": {"plural": "as", "kind": "A"},
                "versions": [version("v1", true, "old"), version("v2", false, "new")],
                "conversion": {"strategy": "Webhook", "webhook": {
                    "clientConfig": {"url": "https://h/"}, "conversionReviewVersions": ["v3", "v1"],
                }},
            },
        });
        let definition = Definition::read(definition.as_object().ok_or("an object")?)?;
        let family = Family::new(&definition.clone(), Arc::new(Answering(answer)), || definition);
        let stored = json!({
            "apiVersion": "b.c/v1", "kind": "A", "metadata": {"name": "x", "uid": "u", "generation": 1},
            "spec": {"old": "value"},
        });
        let mut told = [stored.as_object().cloned().ok_or("an object")?];
        family.tell(&mut told, 1)?;
        let [told] = told;
        Ok(Value::Object(told))
    }

    /// Contract: API-28
    #[test]
    fn a_webhook_tells_objects_in_another_version() {
        let told = json!({
            "apiVersion": "b.c/v2", "kind": "A",
            "metadata": {"name": "x", "uid": "u", "generation": 1, "labels": {"told": "again"}},
            "spec": {"new": "value"},
        });
        assert_eq!(tell(renamed), Ok(told));
    }

    /// Contract: API-28
    #[test]
    fn an_answer_that_is_none_is_refused() {
        let wrong: [(Answer, &str); 5] = [
            (|_| Err("no".to_owned()), "conversion webhook for b.c/v1, Kind=A failed: no"),
            (Ok, "conversion webhook for b.c/v1, Kind=A failed: no response provided"),
            (
                |review| {
                    let mut answer = renamed(review)?;
                    answer["response"]["result"] = json!({"status": "Failure", "message": "never"});
                    Ok(answer)
                },
                "conversion webhook for b.c/v1, Kind=A failed: never",
            ),
            (
                |review| {
                    let mut answer = renamed(review)?;
                    answer["response"]["convertedObjects"] = json!([]);
                    Ok(answer)
                },
                "conversion webhook for b.c/v1, Kind=A returned 0 objects, expected 1",
            ),
            (
                |review| {
                    let mut answer = renamed(review)?;
                    answer["response"]["convertedObjects"][0]["metadata"]["name"] = json!("y");
                    Ok(answer)
                },
                "conversion webhook for b.c/v1, Kind=A returned invalid object: must have the same name: x != y",
            ),
        ];
        for (answer, why) in wrong {
            assert_eq!(tell(answer), Err(why.to_owned()));
        }
    }
}
