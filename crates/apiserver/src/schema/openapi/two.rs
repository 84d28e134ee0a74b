//! The requests in the notation of version 2: bodies are parameters, and answers have a schema and no media types of their own.

use muster_tree::{Map, Text, Value, json};

/// Paths in the notation of version 3, rewritten.
pub(super) fn paths(three: &Map) -> Map {
    three.iter().map(|(path, item)| (path.clone(), path_item(item))).collect()
}

fn path_item(item: &Value) -> Value {
    let rewritten = |value: &Value| match value.as_array() {
        Some(parameters) => parameters.iter().map(parameter).collect::<Vec<_>>().into(),
        None => operation(value),
    };
    Value::Object(members(item).map(|(name, value)| (name.clone(), rewritten(value))).collect())
}

/// What is said of a parameter's type beside the rest.
fn parameter(three: &Value) -> Value {
    let of_type = members(&three["schema"]);
    let beside = members(three).filter(|(name, _)| *name != "schema");
    Value::Object(beside.chain(of_type).map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn operation(three: &Value) -> Value {
    const REWRITTEN: [&str; 3] = ["parameters", "requestBody", "responses"];
    let same = members(three).filter(|(name, _)| !REWRITTEN.contains(&name.as_str()));
    let mut two: Map = same.map(|(name, value)| (name.clone(), value.clone())).collect();

    let mut parameters: Vec<Value> = three["parameters"].as_array().into_iter().flatten().map(parameter).collect();
    let mut consumes = vec!["*/*".to_owned()];
    if let Some((media, schema)) = content(&three["requestBody"]) {
        consumes = media;
        let mut body = json!({"in": "body", "name": "body", "schema": schema});
        if three["requestBody"]["required"] == true {
            body["required"] = json!(true);
        }
        parameters.push(body);
    }
    if !parameters.is_empty() {
        two.insert("parameters", Value::from(parameters));
    }
    let mut produces = Vec::new();
    let responses = members(&three["responses"]).map(|(code, response)| {
        let mut out = json!({"description": response["description"]});
        if let Some((media, schema)) = content(response) {
            produces = media;
            out["schema"] = schema.clone();
        }
        (code.clone(), out)
    });
    let responses: Map = responses.collect();
    two.insert("responses", Value::Object(responses));
    two.insert("consumes", json!(consumes));
    two.insert("produces", json!(produces));
    two.insert("schemes", json!(["https"]));
    Value::Object(two)
}

/// The media types of a body, and its schema, which is the same for all.
fn content(body: &Value) -> Option<(Vec<String>, &Value)> {
    let content = body["content"].as_object()?;
    let (_, first) = content.iter().next()?;
    Some((content.iter().map(|(media, _)| media.to_string()).collect(), &first["schema"]))
}

fn members(value: &Value) -> impl Iterator<Item = (&Text, &Value)> {
    value.as_object().into_iter().flatten()
}
