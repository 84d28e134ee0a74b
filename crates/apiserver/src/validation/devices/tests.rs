//! Cases of the checks: how much there may be of what, and in which forms. The answers are those of upstream's code.

mod attributes;
mod bounds;
mod claims;
mod slices;
mod status;

use muster_tree::json;

use super::*;

const NOTHING: [&str; 0] = [];
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const UNKNOWN: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
const SHARE: &str = "ac051fac-2ead-46d9-b8b4-4e0fbeb7455d";

/// What is said of an object, or of a change of one.
type Says = fn(&Value, Option<&Value>) -> Vec<String>;
/// A part of an object, which is so long.
type Part = fn(usize) -> Value;

fn texts(run: impl FnOnce(&mut Errors)) -> Vec<String> {
    let mut errors = Errors::new();
    run(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn map(value: &Value) -> &Object {
    value.as_object().expect("an object")
}

/// Takes every expression but two.
fn check(expression: &str) -> Result<(), Wrong> {
    match expression {
        "costly" => Err(Wrong::Costly),
        "wrong" => Err(Wrong::Invalid("it is wrong".to_owned())),
        _ => Ok(()),
    }
}

fn of_class(class: &Value, old: Option<&Value>) -> Vec<String> {
    texts(|errors| validate_class(map(class), old.map(map), check, errors))
}

fn of_claim(claim: &Value, old: Option<&Value>) -> Vec<String> {
    texts(|errors| validate_claim(map(claim), old.map(map), check, errors))
}

fn of_template(template: &Value, old: Option<&Value>) -> Vec<String> {
    texts(|errors| validate_template(map(template), old.map(map), check, errors))
}

fn of_slice(slice: &Value, old: Option<&Value>) -> Vec<String> {
    texts(|errors| validate_slice(map(slice), old.map(map), errors))
}

/// A claim without an old one had no status.
fn of_status(claim: &Value, old: Option<&Value>) -> Vec<String> {
    let none = with(claim.clone(), "status", json!({}));
    texts(|errors| validate_status(map(claim), map(old.unwrap_or(&none)), errors))
}

/// An object of which one field, by its path in messages, is another.
fn with(mut object: Value, field: &str, part: Value) -> Value {
    let pointer = format!("/{}", field.replace(['.', '['], "/").replace(']', ""));
    let (parent, name) = pointer.rsplit_once('/').expect("a field");
    let parent = object.pointer_mut(parent).expect("what the field is of");
    match name.parse::<usize>() {
        Ok(at) => parent[at] = part,
        Err(_) => parent[name] = part,
    }
    object
}

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

/// `Invalid value` of a text.
fn invalid(value: &str, why: &str) -> String {
    format!("Invalid value: {value:?}: {why}")
}

/// Each of these about one field.
fn at(field: &str, bodies: &[String]) -> Vec<String> {
    bodies.iter().map(|body| format!("{field}: {body}")).collect()
}

fn opaque() -> Value {
    json!({"opaque": {"driver": "a.io", "parameters": {}}})
}

fn class() -> Value {
    json!({"spec": {"selectors": [{"cel": {"expression": "a"}}], "config": [opaque()]}})
}

fn asked(mode: &str, count: i64) -> Value {
    json!({
        "deviceClassName": "gpu", "allocationMode": mode, "count": count, "selectors": [{"cel": {"expression": "a"}}],
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}],
    })
}

fn request(name: &str) -> Value {
    json!({"name": name, "exactly": asked("ExactCount", 1)})
}

fn alternative(name: &str) -> Value {
    with(asked("All", 0), "name", json!(name))
}

fn claim() -> Value {
    let requests = [request("one"), json!({"name": "any", "firstAvailable": [alternative("a")]})];
    json!({"spec": {"devices": {
        "requests": requests, "constraints": [{"matchAttribute": "a.io/b"}], "config": [opaque()]}}})
}

/// A claim with so many requests that there are more references to them than a list may have.
fn crowd() -> Value {
    let mut requests = vec![json!({"name": "any", "firstAvailable": [alternative("a"), alternative("b")]})];
    requests.extend((1..32).map(|at| request(&format!("r{at}"))));
    with(claim(), "spec.devices.requests", requests.into())
}

fn result(device: &str) -> Value {
    json!({"request": "one", "driver": "a.io", "pool": "p", "device": device,
        "bindingConditions": ["needed"], "bindingFailureConditions": ["failed"]})
}

/// A claim that has got a device.
fn given() -> Value {
    let config = with(opaque(), "source", json!("FromClaim"));
    let consumer = json!({"resource": "pods", "name": "a", "uid": "1"});
    let allocation = json!({"devices": {"results": [result("d")], "config": [config]}});
    with(claim(), "status", json!({"allocation": allocation, "reservedFor": [consumer]}))
}

/// A claim of whose device something is told.
fn reported() -> Value {
    let network = json!({"interfaceName": "i", "hardwareAddress": "h", "ips": ["10.0.0.1/8"]});
    let told =
        json!({"driver": "a.io", "pool": "p", "device": "d", "conditions": [], "data": {}, "networkData": network});
    with(given(), "status.devices", json!([told]))
}

fn slice() -> Value {
    let device = json!({
        "name": "d", "attributes": {"i": {"int": 1}, "s": {"string": "x"}, "v": {"version": "1.0.0"}},
        "capacity": {"m": {"value": "10"}}, "taints": [{"key": "k", "value": "v", "effect": "None"}],
        "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
        "bindingConditions": ["needed"], "bindingFailureConditions": ["failed"],
    });
    json!({"spec": {"driver": "a.io", "nodeName": "n", "devices": [device],
        "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1}}})
}

/// A slice of counters.
fn counting() -> Value {
    let sets = json!([{"name": "s", "counters": {"c": {"value": "1"}}}]);
    json!({"spec": {"driver": "a.io", "nodeName": "n", "sharedCounters": sets,
        "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1}}})
}

/// A slice whose devices say for themselves from which nodes they are reached.
fn apart(device: &Value) -> Value {
    json!({"spec": {"driver": "a.io", "perDeviceNodeSelection": true, "devices": [device],
        "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1}}})
}
