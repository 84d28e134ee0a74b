//! Network policies (API-17).

use muster_tree::Value;

use crate::field::FieldError;
use crate::model::{Fields as _, Object};

use super::{Errors, Path, complain, ip, name, selector};

const SPEC: Path<'_> = Path::new("spec");
const POLICY_TYPES: [&str; 2] = ["Ingress", "Egress"];
/// The rules of both directions, and the field with their peers.
const RULES: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// What an old policy had already, and may therefore keep.
struct Kept<'a> {
    lenient: bool,
    cidrs: Vec<&'a str>,
}

/// Checks a NetworkPolicy.
pub fn validate(policy: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = policy.object("spec").unwrap_or(&empty);
    let kept = kept(old.and_then(|old| old.object("spec")));
    let any = Object::new();
    let own = spec.object("podSelector").unwrap_or(&any);
    selector::validate(own, kept.lenient, &SPEC.child("podSelector"), errors);
    for (field, peers) in RULES {
        let list = SPEC.child(field);
        for (i, rule) in spec.items(field).enumerate() {
            let path = list.index(i);
            for (j, port) in rule.items("ports").enumerate() {
                validate_port(port, &path.child("ports").index(j), errors);
            }
            for (j, peer) in rule.items(peers).enumerate() {
                validate_peer(peer, &kept, &path.child(peers).index(j), errors);
            }
        }
    }
    let types = SPEC.child("policyTypes");
    if spec.list("policyTypes").len() > POLICY_TYPES.len() {
        let found = spec.get("policyTypes").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(types, found, "may not specify more than two policyTypes"));
        return;
    }
    for (i, kind) in spec.strings("policyTypes").enumerate() {
        if !POLICY_TYPES.contains(&kind) {
            errors.push(FieldError::not_supported(types.index(i), kind, &POLICY_TYPES));
        }
    }
}

fn kept(old: Option<&Object>) -> Kept<'_> {
    let Some(spec) = old else { return Kept { lenient: false, cidrs: Vec::new() } };
    let mut errors = Errors::new();
    if let Some(own) = spec.object("podSelector") {
        selector::validate(own, false, &SPEC, &mut errors);
    }
    let cidrs = blocks(spec).flat_map(|(_, block)| std::iter::once(block.text("cidr")).chain(block.strings("except")));
    Kept { lenient: !errors.is_empty(), cidrs: cidrs.collect() }
}

/// Every block of addresses of a policy, and where it is.
fn blocks(spec: &Object) -> impl Iterator<Item = (String, &Object)> {
    RULES.into_iter().flat_map(move |(field, peers)| {
        spec.items(field).enumerate().flat_map(move |(i, rule)| {
            rule.items(peers).enumerate().filter_map(move |(j, peer)| {
                Some((format!("spec.{field}[{i}].{peers}[{j}].ipBlock"), peer.object("ipBlock")?))
            })
        })
    })
}

fn validate_port(port: &Object, path: &Path<'_>, errors: &mut Errors) {
    const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
    if let Some(protocol) = port.maybe_text("protocol").filter(|p| !PROTOCOLS.contains(p)) {
        errors.push(FieldError::not_supported(path.child("protocol"), protocol, &PROTOCOLS));
    }
    let (port_path, end_path) = (path.child("port"), path.child("endPort"));
    let end = port.maybe_int("endPort");
    let out_of_range = |number: i64, path: &Path<'_>, errors: &mut Errors| {
        errors.extend(name::is_port_number(number).into_iter().map(|why| FieldError::invalid(path, number, why)));
    };
    match port.get("port").filter(|p| !p.is_null()) {
        Some(Value::String(text)) => {
            if let Some(end) = end {
                errors.push(FieldError::invalid(end_path, end, "may not be specified when `port` is non-numeric"));
            }
            complain(text, name::is_port_name(text), &port_path, errors);
        }
        Some(number) => {
            let number = number.as_i64().unwrap_or_default();
            out_of_range(number, &port_path, errors);
            if let Some(end) = end {
                if end < number {
                    // Upstream shows the port here, not its end.
                    errors.push(FieldError::invalid(end_path, number, "must be greater than or equal to `port`"));
                }
                out_of_range(end, &end_path, errors);
            }
        }
        None => {
            if let Some(end) = end {
                errors.push(FieldError::invalid(end_path, end, "may not be specified when `port` is not specified"));
            }
        }
    }
}

fn validate_peer(peer: &Object, kept: &Kept<'_>, path: &Path<'_>, errors: &mut Errors) {
    let mut peers = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(own) = peer.object(field) {
            peers += 1;
            selector::validate(own, kept.lenient, &path.child(field), errors);
        }
    }
    let block = peer.object("ipBlock");
    if let Some(block) = block {
        peers += 1;
        validate_block(block, kept, &path.child("ipBlock"), errors);
    }
    if peers == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    } else if peers > 1 && block.is_some() {
        errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
    }
}

fn validate_block(block: &Object, kept: &Kept<'_>, path: &Path<'_>, errors: &mut Errors) {
    let cidr = block.text("cidr");
    let cidr_path = path.child("cidr");
    if cidr.is_empty() {
        errors.push(FieldError::required(cidr_path, ""));
        return;
    }
    let legacy = |value: &str, path: &Path<'_>, errors: &mut Errors| {
        if !kept.cidrs.contains(&value) {
            ip::validate_legacy_cidr(value, path, errors);
        }
    };
    legacy(cidr, &cidr_path, errors);
    if ip::cidr_is_ipv6(cidr).is_none() {
        return;
    }
    let list = path.child("except");
    for (i, except) in block.strings("except").enumerate() {
        legacy(except, &list.index(i), errors);
        if ip::is_strictly_within(except, cidr) == Some(false) {
            errors.push(FieldError::invalid(list.index(i), except, "must be a strict subset of `cidr`"));
        }
    }
}

/// Warnings for networks that are not written in the usual form.
#[must_use]
pub fn warnings(policy: &Object) -> Vec<String> {
    let Some(spec) = policy.object("spec") else { return Vec::new() };
    let mut out = Vec::new();
    for (at, block) in blocks(spec) {
        let path = Path::new(&at);
        out.extend(ip::cidr_warnings(&path.child("cidr"), block.text("cidr")));
        for (i, except) in block.strings("except").enumerate() {
            out.extend(ip::cidr_warnings(&path.child("except").index(i), except));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    fn policy(spec: Value) -> Object {
        Object::from_iter([("spec".to_owned(), spec)])
    }

    /// Contract: API-25
    #[test]
    fn policies_by_the_table() {
        let from = |peer: Value| json!({"podSelector": {}, "ingress": [{"from": [peer]}]});
        let cases = [
            (from(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}})), vec![]),
            (
                from(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8", "11.0.0.0/9", "x"]}})),
                vec![
                    "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
                    "spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: \"11.0.0.0/9\": must be a strict subset of `cidr`",
                    "spec.ingress[0].from[0].ipBlock.except[2]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ],
            ),
            (from(json!({"ipBlock": {}})), vec!["spec.ingress[0].from[0].ipBlock.cidr: Required value"]),
            (
                json!({"egress": [{"ports": [{"port": "http", "endPort": 3}, {"port": 9, "endPort": 70000}]}]}),
                vec![
                    "spec.egress[0].ports[0].endPort: Invalid value: 3: may not be specified when `port` is non-numeric",
                    "spec.egress[0].ports[1].endPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                ],
            ),
            (
                json!({"policyTypes": ["Ingress", "Egress", "Ingress"]}),
                vec![
                    "spec.policyTypes: Invalid value: [\"Ingress\",\"Egress\",\"Ingress\"]: may not specify more than two policyTypes",
                ],
            ),
        ];
        for (spec, want) in cases {
            let mut errors = Errors::new();
            validate(&policy(spec.clone()), None, &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{spec}");
        }
    }

    /// Contract: API-25
    #[test]
    fn a_network_that_was_there_may_stay_and_is_warned_of() {
        let old = policy(json!({"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}]}));
        let mut errors = Errors::new();
        validate(&old, None, &mut errors);
        assert_eq!(errors.len(), 1);
        errors.clear();
        validate(&old, Some(&old), &mut errors);
        assert_eq!(errors, []);
        assert_eq!(
            warnings(&old),
            [
                "spec.ingress[0].from[0].ipBlock.cidr: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"
            ]
        );
    }
}
