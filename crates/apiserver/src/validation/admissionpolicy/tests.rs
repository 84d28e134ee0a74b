//! Cases of the checks.

use muster_tree::json;

use super::*;

/// Refuses what does not end in an exclamation mark.
struct Loud;

impl Expressions for Loud {
    fn check(&self, expression: &str, sort: Sort, variables: &[(&str, &str)]) -> Result<(), Wrong> {
        let known: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
        let wrong = || Wrong::Invalid(format!("{:?} {} [{}]", sort.gives, sort.params, known.join(",")));
        expression.ends_with('!').then_some(()).ok_or_else(wrong)
    }
}

fn texts(check: impl Fn(&Object, &mut Errors), spec: &Value) -> Vec<String> {
    let object = json!({"metadata": {"name": "p"}, "spec": spec});
    let mut errors = Errors::new();
    check(object.as_object().expect("an object"), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn rules(operations: &Value) -> Value {
    json!({
        "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
        "resourceRules": [{"operations": operations, "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    })
}

/// Contract: API-25, API-30
#[test]
fn policies_by_the_table() {
    let spec = json!({
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "a/b/c", "kind": "K"},
        "matchConstraints": rules(&json!(["CREATE"])),
        "matchConditions": [{"name": "c", "expression": "x"}, {"name": "c", "expression": "y!"}],
        "variables": [{"name": "for", "expression": "1"}, {"name": "b", "expression": "2!"}],
        "validations": [{"expression": "v", "message": "a\nb", "reason": "Odd"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "t"}],
    });
    assert_eq!(
        texts(|o, e| validate_validating(o, None, &Loud, e), &spec),
        [
            "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            "spec.matchConditions[0].expression: Invalid value: \"x\": Bool true []",
            "spec.matchConditions[1].name: Duplicate value: \"c\"",
            "spec.variables[0].name: Invalid value: \"for\": must be a valid CEL identifier",
            "spec.variables[0].expression: Invalid value: \"1\": Anything true []",
            "spec.validations[0].expression: Invalid value: \"v\": Bool true [for,b]",
            "spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks",
            "spec.validations[0].reason: Unsupported value: \"Odd\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
            "spec.auditAnnotations[0].valueExpression: Invalid value: \"t\": TextOrNull true [for,b]",
        ]
    );
    assert_eq!(
        texts(|o, e| validate_validating(o, None, &Unchecked, e), &json!({"failurePolicy": "Fail"})),
        [
            "spec.matchConstraints: Required value",
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ]
    );
}

/// Contract: API-25
#[test]
fn mutations_by_the_table() {
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": rules(&json!(["DELETE"])),
        "mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "a"}}, {"patchType": "Odd"}],
        "reinvocationPolicy": "Never",
    });
    assert_eq!(
        texts(|o, e| validate_mutating(o, None, &Unchecked, e), &spec),
        [
            "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
            "spec.mutations[1].patchType: Unsupported value: \"Odd\": supported values: \"ApplyConfiguration\", \"JSONPatch\"",
        ]
    );
}

/// Contract: API-25
#[test]
fn bindings_by_the_table() {
    let spec = json!({"policyName": "p", "paramRef": {"name": "a"}, "validationActions": ["Deny", "Warn", "Deny"]});
    assert_eq!(
        texts(validate_validating_binding, &spec),
        [
            "spec.paramRef.parameterNotFoundAction: Required value",
            "spec.validationActions[2]: Duplicate value: \"Deny\"",
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Deny\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        ]
    );
    assert_eq!(
        texts(validate_mutating_binding, &json!({"policyName": "", "paramRef": {}})),
        [
            "spec.policyName: Required value",
            "spec.paramRef: Required value: one of name or selector must be specified",
            "spec.paramRef.parameterNotFoundAction: Required value",
        ]
    );
}
