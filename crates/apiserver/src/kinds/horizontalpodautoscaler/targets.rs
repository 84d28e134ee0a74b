//! What an autoscaler aims at, and how far it is from that, in a cell of its table.

use muster_tree::Value;

/// So many metrics are shown, the others counted.
const SHOWN: usize = 2;

/// All metrics, each as what is measured and what is aimed at.
pub(super) fn metrics(specs: &[Value], states: &[Value]) -> String {
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let each = specs.iter().enumerate().take(SHOWN).map(|(index, spec)| metric(spec, states.get(index)));
    let mut out = each.collect::<Vec<_>>().join(", ");
    if specs.len() > SHOWN {
        out.push_str(&format!(" + {} more...", specs.len() - SHOWN));
    }
    out
}

fn metric(spec: &Value, state: Option<&Value>) -> String {
    let (source, by_resource) = match spec["type"].as_str().unwrap_or_default() {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let target = &spec[source]["target"];
    let state = state.map(|state| &state[source]).filter(|state| state.is_object());
    let average = target["averageValue"].as_str();
    let quantity = |field: &str| {
        let current = state.map(|state| &state["current"][field]);
        current.and_then(Value::as_str).unwrap_or("<unknown>").to_owned()
    };
    let percent = |value: &Value| value.as_i64().map(|percent| format!("{percent}%"));
    if by_resource {
        let name = spec[source]["name"].as_str().unwrap_or_default();
        let (current, wanted) = match average {
            Some(wanted) => (quantity("averageValue"), wanted.to_owned()),
            None => (
                state.and_then(|s| percent(&s["current"]["averageUtilization"])).unwrap_or("<unknown>".to_owned()),
                percent(&target["averageUtilization"]).unwrap_or("<auto>".to_owned()),
            ),
        };
        return format!("{name}: {current}/{wanted}");
    }
    match average {
        Some(wanted) if source == "pods" => format!("{}/{wanted}", quantity("averageValue")),
        Some(wanted) => format!("{}/{wanted} (avg)", quantity("averageValue")),
        None => format!("{}/{}", quantity("value"), target["value"].as_str().unwrap_or("<unknown>")),
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-05
    #[test]
    fn targets_by_the_table() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}});
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"averageValue": "5"}}});
        let external = json!({"type": "External", "external": {"target": {"value": "7"}}});
        let object = json!({"type": "Object", "object": {"target": {"averageValue": "7"}}});
        let container = json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "target": {}}});
        let measured = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 42, "averageValue": "1"}}});
        let cases = [
            (json!([]), json!([]), "<none>"),
            (json!([cpu]), json!([]), "cpu: <unknown>/80%"),
            (json!([cpu]), json!([measured]), "cpu: 42%/80%"),
            (json!([memory, cpu]), json!([measured]), "memory: 1/1Gi, cpu: <unknown>/80%"),
            (json!([pods, external, cpu]), json!([]), "<unknown>/5, <unknown>/7 + 1 more..."),
            (json!([object, container]), json!([]), "<unknown>/7 (avg), cpu: <unknown>/<auto>"),
            (json!([{"type": "Moon"}]), json!([]), "<unknown type>"),
        ];
        for (specs, states, want) in cases {
            let list = |value: &Value| value.as_array().cloned().expect("a list");
            assert_eq!(metrics(&list(&specs), &list(&states)), want, "{specs}");
        }
    }
}
