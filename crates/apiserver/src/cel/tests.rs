//! The language as tables: what is refused and in which words, what evaluates to what, what costs how much.

use muster_tree::json;

use super::*;
use crate::custom::props::Props;
use crate::custom::structural::Structural;

mod answers;

fn schema() -> Structural {
    let props: Props = muster_tree::from_value(&json!({"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": "string", "maxLength": 10}, "f": {"type": "number"},
        "flag": {"type": "boolean"}, "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "l": {"type": "array", "items": {"type": "integer"}},
        "o": {"type": "array", "maxItems": 5, "items": {"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 10}, "weight": {"type": "integer"}}}},
        "q": {"x-kubernetes-int-or-string": true}, "when": {"type": "string", "format": "date-time"},
        "dash-ed": {"type": "string"}, "namespace": {"type": "string"},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    }}))
    .unwrap_or_else(|e| panic!("{e}"));
    Structural::new(&props)
}

fn compiled(text: &str) -> Result<(String, Estimate), String> {
    let schema = schema();
    let kind = schema::type_of(&schema, false).unwrap_or(Type::Dyn);
    let variables = [Variable { name: "self", kind, bounds: Some(Bounds::Schema { schema: &schema, root: false }) }];
    compile(text, &variables).map(|checked| (checked.output.to_string(), checked.cost))
}

fn evaluated(text: &str) -> Result<String, String> {
    let schema = schema();
    let object = json!({"a": 1, "b": "hello", "f": 1.5, "flag": true, "m": {"x": "y"}, "l": [1, 2, 3],
        "o": [{"name": "main", "weight": 1}, {"name": "b"}], "q": "5%", "when": "2026-02-01T00:00:00Z",
        "dash-ed": "d", "namespace": "n", "set": ["x", "y"]});
    compiled(text)?;
    let program = recompile(text)?;
    let value = Value::of(&object, Some(&schema), false)?;
    let result = program.run(&[("self", value)], &mut Budget::default()).map_err(|failure| failure.to_string())?;
    Ok(library::shown(&result))
}

/// Contract: API-30
#[test]
fn errors_are_worded_as_by_cel_go() {
    for (text, error) in [
        ("self.nope > 1", "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^"),
        (
            "self.a > 1 || self.c",
            "ERROR: <input>:1:19: undefined field 'c'\n | self.a > 1 || self.c\n | ..................^",
        ),
        (
            "self.a >",
            "ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self.a >\n | ........^",
        ),
        (
            "self.a + 'x' == 1",
            "ERROR: <input>:1:8: found no matching overload for '_+_' applied to '(int, string)'\n | self.a + 'x' == 1\n | .......^",
        ),
        ("nobody == 1", "ERROR: <input>:1:1: undeclared reference to 'nobody' (in container '')\n | nobody == 1\n | ^"),
        (
            "self.a.all(x, x > 0)",
            "ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n | self.a.all(x, x > 0)\n | ....^",
        ),
        (
            "self.b.nosuch()",
            "ERROR: <input>:1:14: undeclared reference to 'nosuch' (in container '')\n | self.b.nosuch()\n | .............^",
        ),
        (
            "self.b.startsWith(1)",
            "ERROR: <input>:1:18: found no matching overload for 'startsWith' applied to 'string.(int)'\n | self.b.startsWith(1)\n | .................^",
        ),
        ("self.a && true", "ERROR: <input>:1:5: expected type 'bool' but found 'int'\n | self.a && true\n | ....^"),
        (
            "[dyn(self.a), 'a'] == []",
            "ERROR: <input>:1:15: expected type 'dyn' but found 'string'\n | [dyn(self.a), 'a'] == []\n | ..............^",
        ),
        (
            "{'x': dyn(self.a), 'y': 'a'} == {}",
            "ERROR: <input>:1:25: expected type 'dyn' but found 'string'\n | {'x': dyn(self.a), 'y': 'a'} == {}\n | ........................^",
        ),
        ("[1, 'a'] == []", "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a'] == []\n | ....^"),
        (
            "self.b.matches('[')",
            "ERROR: <input>:1:16: invalid matches argument\n | self.b.matches('[')\n | ...............^",
        ),
    ] {
        assert_eq!(compiled(text).err().as_deref(), Some(error), "{text}");
    }
}

/// Contract: API-30
#[test]
fn expressions_have_the_types_that_the_schema_gives_them() {
    for (text, kind) in [
        ("self.a + 1", "int"),
        ("self.b", "string"),
        ("self.l.map(x, x * 2)", "list(int)"),
        ("self.m.exists(k, k == 'x')", "bool"),
        ("self.q", "dyn"),
        ("self.when", "timestamp"),
        ("self.?b", "optional_type(string)"),
        ("self.?b.orValue('x')", "string"),
        ("self.__namespace__ + self.dash__dash__ed", "string"),
        ("{'a': 1}", "map(string, int)"),
        ("type(self.q) == int", "bool"),
        ("quantity('1Gi').isLessThan(quantity('2Gi'))", "bool"),
        ("self.l.transformList(i, v, v + i)", "list(int)"),
    ] {
        assert_eq!(compiled(text).map(|(kind, _)| kind).as_deref(), Ok(kind), "{text}");
    }
}

/// Contract: API-30
#[test]
fn expressions_evaluate_as_by_cel_go() {
    for (text, result) in [
        ("self.a == 1", "true"),
        ("self.a > 0.5", "true"),
        ("self.l.all(i, i > 0)", "true"),
        ("self.l.exists_one(i, i == 2)", "true"),
        ("self.l.map(i, i * 2)", "[2, 4, 6]"),
        ("self.l.filter(i, i > 1)", "[2, 3]"),
        ("self.m.all(k, k.matches('^[a-z]+$'))", "true"),
        ("self.m.all(k, v, k != v)", "true"),
        ("self.o.all(o, o.weight > 0)", "no such key: weight"),
        ("self.o.exists(o, o.weight > 0)", "true"),
        ("self.o[5].name", "index out of bounds: 5"),
        ("self.o.all(o, !has(o.weight) || o.weight < 100)", "true"),
        ("has(self.a) && !has(self.b)", "false"),
        ("type(self.q) == string", "true"),
        ("self.q.endsWith('%')", "true"),
        ("1 / 0", "division by zero"),
        ("true || 1 / 0 == 0", "true"),
        ("1 / 0 == 0 || true", "true"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("self.when > timestamp('2026-01-01T00:00:00Z')", "true"),
        ("self.when.getFullYear()", "2026"),
        ("self.when.getDayOfWeek()", "0"),
        ("duration('1h30m').getMinutes()", "90"),
        (
            "quantity('junk').isInteger()",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("quantity('1Gi').isGreaterThan(quantity('500Mi'))", "true"),
        ("isIP('1.2.3.4') && ip('1.2.3.4').family() == 4", "true"),
        ("string(1234567.5) + string(1.0 / 0.0) == '1.2345675e+06+Inf'", "true"),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", "true"),
        ("cidr('::/0').containsIP('1.2.3.4')", "false"),
        ("url('https://a.b:80/c?x=1').getHostname()", "a.b"),
        ("'a,b,c'.split(',', 2)", "[a, b,c]"),
        ("'hello'.substring(1, 3)", "el"),
        ("'abcabc'.lastIndexOf('abc', 3)", "3"),
        ("'%s is %d, %.2f'.format([dyn('a'), dyn(1), dyn(1.5)])", "a is 1, 1.50"),
        ("[1, [2]].flatten()", "ERROR"),
        ("[3, 1, 2].sort()", "[1, 2, 3]"),
        ("self.o.sortBy(o, o.name).map(o, o.name)", "[b, main]"),
        ("[1, 2, 3].slice(1, 3)", "[2, 3]"),
        ("lists.range(3)", "[0, 1, 2]"),
        ("self.set + ['y', 'z']", "[x, y, z]"),
        ("self.set == ['y', 'x']", "true"),
        ("self.l == [3, 2, 1]", "false"),
        ("optional.of(1).hasValue()", "true"),
        ("self.?m.?z.orValue('none')", "none"),
        ("self.m[?'x'].optMap(v, v + '!').value()", "y!"),
        ("self.m.transformMap(k, v, v + k)['x']", "yx"),
        ("'\u{e9}'.size()", "1"),
        ("semver('1.2.3').isLessThan(semver('1.10.0'))", "true"),
        ("format.dns1123Label().validate('a').hasValue()", "false"),
        ("sets.contains([1, 2], [1])", "true"),
        ("int('5') + int(2.9)", "7"),
        ("string(timestamp('2026-01-01T00:00:00.5Z'))", "2026-01-01T00:00:00.5Z"),
        ("timestamp('0001-01-01T00:00:00Z').getFullYear()", "1"),
    ] {
        let found = evaluated(text).unwrap_or_else(|e| if e.starts_with("ERROR") { "ERROR".to_owned() } else { e });
        assert_eq!(found, result, "{text}");
    }
}

/// Contract: API-30
#[test]
fn costs_follow_from_the_bounds_of_the_schema() {
    let most = |text: &str| compiled(text).map(|(_, cost)| cost.max);
    // By the reference: an element of a list without a bound is an integer and a comma.
    assert_eq!(most("self.a > 0"), Ok(3));
    assert!(most("self.l.all(x, x > 0)").is_ok_and(|cost| cost > 1_000_000));
    assert!(most("self.o.all(x, x.weight > 0)").is_ok_and(|cost| cost < 100));
    assert!(most("self.l.all(x, self.l.all(y, x == y))").is_ok_and(|cost| cost > 1_000_000_000));
}

/// Contract: API-30
#[test]
fn an_expression_stops_at_its_limit() {
    let program = recompile("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, [0, 1, 2, 3].all(b, a >= 0 && b >= 0))");
    let program = program.unwrap_or_else(|e| panic!("{e}"));
    let mut budget = Budget::of(100);
    assert_eq!(program.run(&[], &mut budget).err(), Some(Failure::Limit));
    let mut budget = Budget::default();
    assert!(program.run(&[], &mut budget).is_ok());
    assert!(budget.spent > 100);
}

/// As deep as expressions may be, all that follows the tree has room on a thread's stack; deeper ones are refused.
///
/// Contract: API-30
#[test]
fn the_deepest_expressions_are_evaluated_and_deeper_ones_refused() {
    for (text, expected) in [
        (format!("1{} > 0", "+1".repeat(249)), Ok("true")),
        (format!("{}true{}", "(".repeat(248), ")".repeat(248)), Ok("true")),
        (format!("size({}1{}) > 0", "[".repeat(120), "]".repeat(120)), Ok("true")),
        (format!("{}true", "true ? true : ".repeat(248)), Ok("true")),
        (format!("true{}", " && true".repeat(3000)), Ok("true")),
        (format!("1{} > 0", "+1".repeat(30_000)), Err("ERROR: <input>:-1:0: max recursion depth exceeded")),
        (format!("self{} == 1", ".a".repeat(30_000)), Err("ERROR: <input>:-1:0: max recursion depth exceeded")),
    ] {
        let found = evaluated(&text);
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{}", &text[..40]);
    }
}

/// Contract: API-30, B-26
#[test]
fn a_small_expression_makes_nothing_large() {
    let limit = "operation cancelled: actual cost limit exceeded";
    let doubled = (0..30).fold("[1, 2]".to_owned(), |list, _| format!("[{list}].map(x, x + x)[0]"));
    let text = "'aaaaaaaaaa'.replace('', 'aaaaaaaaaa')";
    let replaced = (0..9).fold(text.to_owned(), |text, _| format!("[{text}].map(x, x.replace('', x))[0]"));
    for (text, expected) in [
        (format!("size({doubled}) > 0"), Err(limit)),
        (format!("size({replaced}) > 0"), Err(limit)),
        ("size([lists.range(900000), lists.range(900000)]) == 2".to_owned(), Err(limit)),
        (
            "'%.999999999f'.format(dyn([1.0])) == ''".to_owned(),
            Err("could not parse formatting clause: error while parsing precision: precision too large: 999999999"),
        ),
        ("size('%.100f'.format([1.0])) == 102".to_owned(), Ok("true")),
        // Each takes some 10 MB: compiled once where it is a constant, again where it is not.
        (r"lists.range(50).all(x, 'a'.matches('^\\pL{0,200}$'))".to_owned(), Ok("true")),
        (r"lists.range(50).all(x, 'a'.matches('^\\pL{0,200}' + '$'))".to_owned(), Ok("true")),
        (r"lists.range(50).all(x, 'a'.matches('^\\pL{0,200}$|' + string(x)))".to_owned(), Err(limit)),
    ] {
        let found = evaluated(&text);
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
    }
}

/// Each of these took a time that grows with the square of the lists.
///
/// Contract: API-30
#[test]
fn what_costs_little_takes_little() {
    let props: Props = muster_tree::from_value(&json!({"type": "object", "properties": {
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "l": {"type": "array", "items": {"type": "integer"}},
    }}))
    .unwrap_or_else(|e| panic!("{e}"));
    let schema = Structural::new(&props);
    let named = |n: usize| json!({"name": format!("n{n}"), "n": n});
    let object = |order: &dyn Fn(usize) -> usize| {
        json!({
            "keyed": (0..10_000).map(|n| named(order(n))).collect::<Vec<_>>(),
            "set": (0..10_000).map(|n| format!("s{}", order(n))).collect::<Vec<_>>(),
            "l": (0..10_000).collect::<Vec<_>>(),
        })
    };
    let (one, other) = (object(&|n| n), object(&|n| 9_999 - n));
    for text in [
        "self.keyed == other.keyed",
        "self.set == other.set",
        "size(self.keyed + other.keyed) == 10000",
        "size(self.set + other.set) == 10000",
        "self.l.map(x, x + 1).size() == 10000",
        "self.l.filter(x, x % 2 == 0).size() == 5000",
        "self.l.all(x, self.l.exists(y, true))",
        "self.l.all(x, self.l.first().hasValue())",
    ] {
        let program = recompile(text).unwrap_or_else(|e| panic!("{e}"));
        let value = |json| Value::of(json, Some(&schema), false).unwrap_or_else(|e| panic!("{e}"));
        let mut budget = Budget::default();
        let result = program.run(&[("self", value(&one)), ("other", value(&other))], &mut budget);
        assert_eq!(result.map(|result| library::shown(&result)), Ok("true".to_owned()), "{text}");
    }
}

/// Types that would be parts of themselves, and types that double with each name.
///
/// Contract: API-30
#[test]
fn types_end() {
    for text in [
        "[].transformMap(y, y, y) == {}",
        "[].all(x, [].all(y, x == [y] && y == [x]))",
        "[].map(x, x) == []",
        "[].map(x, x).size() == 0",
        "[].filter(x, true) == []",
        "[].transformList(a, y, y) == []",
        "{}.transformMap(k, v, v) == {}",
    ] {
        let _ = compiled(text);
    }
    let nested = (0..30).fold("true".to_owned(), |inner, at| {
        let (own, outer) = (29 - at, 30 - at);
        format!("[{{x{own}: x{own}}}].all(x{outer}, {inner})")
    });
    let why = compiled(&format!("[1].all(x0, {nested})")).unwrap_err();
    assert!(why.contains("the type has more than 1000 parts"), "{why}");
    let many = compiled(&["1 + '' == 0"; 150].join(" ||\n")).unwrap_err();
    assert!(many.ends_with("50 more errors were truncated"), "{}", &many[many.len() - 100..]);
    let long = compiled(&["1 + '' == 0"; 600].join(" || ")).unwrap_err();
    assert!(long.len() < 100_000 && long.ends_with(" more errors were truncated"), "{}", &long[long.len() - 60..]);
}

/// An expression over what has no elements, whose types stand open.
fn open_expression() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let leaf = proptest::sample::select(vec!["[]", "{}", "x", "y", "1", "[x]", "{x: y}", "[[]]"]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 40, 3, |inner| {
        (0..12_usize, inner.clone(), inner.clone(), inner).prop_map(|(form, a, b, c)| match form {
            0 => format!("[{a}, {b}]"),
            1 => format!("{{{a}: {b}}}"),
            2 => format!("{a}.map(x, {b})"),
            3 => format!("{a}.filter(x, {b} == {c})"),
            4 => format!("{a}.all(x, {b} == {c})"),
            5 => format!("{a}.transformMap(x, y, {b})"),
            6 => format!("{a}.transformList(x, y, {b})"),
            7 => format!("({a} == {b} && {b} == {c})"),
            8 => format!("({a} + {b})"),
            9 => format!("cel.bind(x, {a}, {b} == {c})"),
            10 => format!("{a}[{b}]"),
            _ => format!("optional.of({a}).or({b})"),
        })
    })
}

proptest::proptest! {
    /// Contract: API-30
    #[test]
    fn whatever_is_open_is_checked(text in open_expression()) {
        let of = |name| Variable { name, kind: Type::Dyn, bounds: None };
        for variables in [vec![], vec![of("x"), of("y")]] {
            let _ = compile_with(&format!("[].all(x, [].all(y, {text} == {text}))"), &variables, Beside::Bindings);
            let _ = compile_with(&text, &variables, Beside::Bindings);
        }
    }
}
