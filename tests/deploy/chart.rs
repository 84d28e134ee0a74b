//! Rendering the chart as `helm template` does, with what the chart uses of Helm's functions.
//!
//! The templates are Go's own language, by a library; the functions below are the few that Helm adds and the chart
//! calls. A function that is missing here fails the test that renders it.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use gotmpl::{FuncMap, Template, TemplateError, Value as Data};
use serde_json::{Map, Value, json};

use crate::objects::{Object, documents, folder, parse};

/// Where the chart is.
const CHART: &str = "deploy/chart/muster";

/// The chart's own values.
pub(crate) fn values() -> Value {
    parse(&fs::read_to_string(folder(CHART).join("values.yaml")).expect("the chart's values"))
}

/// The objects that the chart makes in the namespace kube-system, where these values are laid over its own.
pub(crate) fn render(overlay: &Value) -> Vec<Object> {
    let mut objects = Vec::new();
    for (name, text) in rendered(overlay) {
        if name.ends_with(".yaml") {
            objects.extend(documents(&name, &text));
        }
    }
    objects
}

/// What the chart tells whoever installed it.
pub(crate) fn notes(overlay: &Value) -> String {
    rendered(overlay).remove("NOTES.txt").expect("the chart has notes")
}

/// Each template by its name, rendered.
fn rendered(overlay: &Value) -> BTreeMap<String, String> {
    let chart = parse(&fs::read_to_string(folder(CHART).join("Chart.yaml")).expect("Chart.yaml"));
    let mut values = values();
    lay_over(&mut values, overlay);
    let data = json!({
        "Values": values,
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
        "Release": {"Name": "muster", "Namespace": "kube-system", "Service": "Helm"},
    });
    let data = gotmpl::to_value(&data).expect("values are data");
    let templates = folder(CHART).join("templates");
    let helpers = read(&templates.join("_helpers.tpl"));
    let mut rendered = BTreeMap::new();
    for entry in fs::read_dir(&templates).expect("the chart's templates") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name == "_helpers.tpl" {
            continue;
        }
        // The one method that the chart calls; the library knows functions only.
        let source = read(&path).replace(".Files.Get ", "filesGet ");
        let text = Template::new(&name).funcs(functions(Some(&helpers))).parse(&source);
        let text = text.and_then(|template| template.execute_to_string(&data));
        rendered.insert(name.clone(), text.unwrap_or_else(|error| panic!("templates/{name}: {error}")));
    }
    rendered
}

fn read(path: &std::path::Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Helm's merge of values: maps by their keys, everything else by replacement.
fn lay_over(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                lay_over(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}

type Outcome = Result<Data, TemplateError>;

/// Helm's functions; `include` where there are helpers to include.
fn functions(helpers: Option<&str>) -> FuncMap {
    let mut functions = FuncMap::new();
    let mut add = |name: &str, function: fn(&[Data]) -> Outcome| {
        functions.insert(name.to_owned(), Arc::new(function));
    };
    add("quote", |args| Ok(text(Value::from(args[0].to_string()).to_string())));
    add("default", |args| Ok(if args[1].is_truthy() { args[1].clone() } else { args[0].clone() }));
    add("nindent", |args| Ok(text(format!("\n{}", indent(&args[0], &args[1])))));
    add("join", |args| match plain(&args[1]) {
        Value::Array(items) => {
            let items: Vec<&str> = items.iter().map(|item| item.as_str().expect("text")).collect();
            Ok(text(items.join(&args[0].to_string())))
        }
        other => panic!("join: {other}"),
    });
    add("int", |args| Ok(Data::Int(args[0].as_int().expect("a number"))));
    add("toYaml", |args| Ok(text(block(&plain(&args[0])))));
    add("filesGet", |args| Ok(text(read(&folder(CHART).join(args[0].to_string())))));
    if let Some(helpers) = helpers {
        let helpers = Template::new("helpers").funcs(self::functions(None)).parse(helpers);
        let helpers = helpers.unwrap_or_else(|error| panic!("templates/_helpers.tpl: {error}"));
        let include = move |args: &[Data]| helpers.execute_template_to_string(&args[0].to_string(), &args[1]).map(text);
        functions.insert("include".to_owned(), Arc::new(include));
    }
    functions
}

fn text(text: String) -> Data {
    Data::String(text.into())
}

fn indent(by: &Data, text: &Data) -> String {
    let by = " ".repeat(usize::try_from(by.as_int().expect("a width")).expect("a width is not negative"));
    let lines: Vec<String> = text.to_string().lines().map(|line| format!("{by}{line}")).collect();
    lines.join("\n")
}

/// YAML in block style at the top, so that it may stand below other entries, and in flow style, which is JSON, below.
fn block(value: &Value) -> String {
    let lines: Vec<String> = match value {
        Value::Object(entries) if !entries.is_empty() => {
            entries.iter().map(|(key, value)| format!("{}: {value}", Value::from(key.as_str()))).collect()
        }
        Value::Array(items) if !items.is_empty() => items.iter().map(|item| format!("- {item}")).collect(),
        other => vec![other.to_string()],
    };
    lines.join("\n")
}

fn plain(data: &Data) -> Value {
    match data {
        Data::Bool(value) => Value::from(*value),
        Data::Int(value) => Value::from(*value),
        Data::Uint(value) => Value::from(*value),
        Data::Float(value) => Value::from(*value),
        Data::String(value) => Value::from(&**value),
        Data::List(items) => items.iter().map(plain).collect(),
        Data::Map(entries) => {
            Value::Object(entries.iter().map(|(key, value)| ((**key).to_owned(), plain(value))).collect::<Map<_, _>>())
        }
        _ => Value::Null,
    }
}
