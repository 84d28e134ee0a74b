//! Expressions that select devices: a truth value about `device` (API-43).

use super::schema::{FieldTable, ObjectType};
use super::{Beside, Bounds, Type, Variable, compile_with};
use crate::validation::expression::Wrong;

/// The most that one of them may cost.
const MOST_COST: u64 = 1_000_000;
/// A domain is this long at most, and so is the name of a driver.
const LONGEST_DOMAIN: u64 = 63;
/// What comes after a domain is this long at most.
const LONGEST_NAME: u64 = 32;
/// The value of an attribute is this long at most.
const LONGEST_VALUE: u64 = 64;
/// A device has so many attributes and capacities at most.
const MOST_ENTRIES: u64 = 32;

static DEVICE: FieldTable = FieldTable {
    name: "kubernetes.DRADevice",
    fields: &[
        ("driver", || Type::String),
        ("allowMultipleAllocations", || Type::Bool),
        ("attributes", || by_domain(Type::Any)),
        ("capacity", || by_domain(Type::Opaque("kubernetes.Quantity"))),
    ],
};

fn by_domain(value: Type<'static>) -> Type<'static> {
    Type::map(Type::String, Type::map(Type::String, value))
}

/// Checks an expression.
///
/// # Errors
/// What is wrong with it, in the reference's words.
pub fn check(text: &str) -> Result<(), Wrong> {
    if worst_cost(text)? > MOST_COST { Err(Wrong::Costly) } else { Ok(()) }
}

/// What an expression may cost at worst.
fn worst_cost(text: &str) -> Result<u64, Wrong> {
    let kind = Type::Object(ObjectType::Fields(&DEVICE));
    let device = Variable { name: "device", kind, bounds: Some(Bounds::Steps(most_at)) };
    let checked = compile_with(text, &[device], Beside::Bindings)
        .map_err(|why| Wrong::Invalid(format!("compilation failed: {why}")))?;
    match checked.output {
        Type::Bool | Type::Any => {}
        other => {
            return Err(Wrong::Invalid(format!("must evaluate to bool or the unknown type, not {}", other.name())));
        }
    }
    checked.program.instantiate("program").map_err(Wrong::Internal)?;
    Ok(checked.cost.max)
}

/// How large what is at a place in a device may be.
fn most_at(steps: &[String]) -> Option<u64> {
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    Some(match steps.as_slice() {
        [] => 0,
        ["driver"] | ["attributes" | "capacity", "@keys"] => LONGEST_DOMAIN,
        ["allowMultipleAllocations"] => 1,
        ["attributes" | "capacity"] | ["attributes" | "capacity", "@values" | "@items"] => MOST_ENTRIES,
        ["attributes" | "capacity", "@values" | "@items", "@keys"] => LONGEST_NAME,
        // An attribute may have any name.
        ["attributes", "@values" | "@items", _] => LONGEST_VALUE,
        ["capacity", "@values" | "@items", "@values" | "@items"] => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The costs are those of upstream's tests.
    ///
    /// Contract: API-43
    #[test]
    fn what_selectors_may_say_and_what_they_cost() {
        for (text, cost) in [
            ("true", 0),
            (r#"device.attributes["no-such-domain"].noSuchAttr.isGreaterThan(quantity("0"))"#, 6),
            (r#"device.attributes["no-such-domain"]["noSuchAttr"].isGreaterThan(quantity("0"))"#, 6),
            (r#""dra.example.com" in device.attributes"#, 3),
            (r#"device.driver == """#, 2),
            (r#"device.driver == "dra.example.com""#, 4),
            (r#"device.attributes["dra.example.com"].name"#, 4),
            (r#"device.attributes["dra.example.com"]["name"]"#, 4),
            (r#"cel.bind(dra, device.attributes["dra.example.com"], dra.name)"#, 15),
            (r#"device.attributes["dra.example.com"].name > 0"#, 5),
            (r#"device.attributes["dra.example.com"].name == "fish""#, 5),
            (r#"device.attributes["dra.example.com"].name.isGreaterThan(semver("0.0.1"))"#, 6),
            (
                r#"device.attributes["dra.example.com"].name.isGreaterThan(semver("v0.0.1", true)) && isSemver("v1.0.0", true)"#,
                7,
            ),
            (r#"device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))"#, 6),
            (
                r#""name" in device.capacity["dra.example.com"] && device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))"#,
                10,
            ),
            (
                r#"!("name" in device.capacity["dra.example.com"]) || device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))"#,
                11,
            ),
            (r#"device.attributes.exists_one(x, x == "dra.example.com")"#, 164),
            (r#"device.attributes["dra.example.com"].exists_one(x, x == "services")"#, 133),
            (r#"device.attributes["dra.example.com"].services.split("example").size() >= 2"#, 19),
            ("device.allowMultipleAllocations == true", 3),
        ] {
            assert_eq!(worst_cost(text), Ok(cost), "{text}");
        }
        let many = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
        let nested = |inner: String, name: &str| format!("{many}.all({name}, {inner})");
        let costly = ["z5", "z4", "z3", "z2", "z", "y", "x"]
            .into_iter()
            .fold("int('1'.find('[0-9]*')) < 100".to_owned(), nested);
        assert_eq!((worst_cost(&costly), check(&costly)), (Ok(85_555_551), Err(Wrong::Costly)));
        for fine in [
            r#"cel.bind(d, device.attributes["dra.example.com"], d).exists(k, k == "a")"#,
            r#"cel.bind(x, device.driver, x).contains("abc")"#,
            r#"cel.bind(x, device.attributes["a"].b, x).matches("y")"#,
            r#"cel.bind(x, device.driver, [x]).exists(y, y == "a")"#,
            "lists.range(10).all(x, x > 0)",
            r#"["a", "b"].distinct().size() == 3"#,
            r#"["b", "a"].sort()[0] == "a""#,
            r#"device.attributes["a"].map(k, k).sortBy(k, k)[0] == "a""#,
            r#"device.attributes["a"].?b == optional.of(1)"#,
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        let bound = format!("cel.bind(x, [1], {many}.map(a, a)).all(z0, {costly})");
        for costly in [
            bound.as_str(),
            "lists.range(100000000).size() > 0",
            r#"["a", "b"].join(",") == "a""#,
            r#"quantity("1") == dyn(quantity("2"))"#,
        ] {
            assert_eq!(check(costly), Err(Wrong::Costly), "{costly}");
        }
        for (text, why) in [
            ("1", "must evaluate to bool or the unknown type, not int"),
            (
                "device.nope",
                "compilation failed: ERROR: <input>:1:7: undefined field 'nope'\n | device.nope\n | ......^",
            ),
            (
                r#"device.attributes["a"].list.exists(x, x > 0)"#,
                "compilation failed: ERROR: <input>:1:23: expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)\n | device.attributes[\"a\"].list.exists(x, x > 0)\n | ......................^",
            ),
            (
                r#"[device.attributes["a"].b, dyn(1)].size() == 2"#,
                "compilation failed: ERROR: <input>:1:31: expected type 'any' but found 'dyn'\n | [device.attributes[\"a\"].b, dyn(1)].size() == 2\n | ..............................^",
            ),
            (
                "cel.bind(a.b, 1, true)",
                "compilation failed: ERROR: <input>:1:11: cel.bind() variable names must be simple identifiers\n | cel.bind(a.b, 1, true)\n | ..........^",
            ),
        ] {
            assert_eq!(check(text), Err(Wrong::Invalid(why.to_owned())), "{text}");
        }
    }
}
