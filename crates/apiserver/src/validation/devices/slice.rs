//! The devices that a driver offers.

use muster_schema::quantity::Quantity;

use super::super::csi::validate_driver_name;
use super::super::pod::affinity::validate_node_selector;
use super::super::{IMMUTABLE, internal};
use super::{
    EFFECTS, Errors, FieldError, ID_MAX, Object, Path, SPEC, Shown, Value, complain, each, name, once,
    validate_binding, validate_label, validate_pool_name, validate_qualified_name,
};
use crate::model::Fields as _;

/// How many devices there may be.
const MOST_DEVICES: usize = 128;
/// The same where one of them has taints, or takes from counters.
const MOST_ADVANCED_DEVICES: usize = 64;
/// How many attributes and capacities a device may have, and how many values of attributes.
const MOST_ENTRIES: usize = 32;
const MOST_VALUES: usize = 48;
/// The value of an attribute may be this long, in bytes.
const VALUE_MAX: usize = 64;
/// How many taints a device may have.
const MOST_TAINTS: usize = 16;
/// How many sets of counters there may be, from how many of them a device may take, and how many counters each may have.
const MOST_SETS: usize = 8;
const MOST_SETS_OF_DEVICE: usize = 2;
const MOST_COUNTERS: usize = 32;
/// How many values a request may choose from.
const MOST_CHOICES: usize = 10;
/// The longest name of an attribute or a capacity: a domain, a slash, and what comes after it.
const NAME_MAX: usize = 63 + 1 + ID_MAX;
/// The longest name of a counter.
const LABEL_MAX: usize = 63;

/// Checks a ResourceSlice, whose driver, pool and node stay.
pub fn validate_slice(slice: &Object, old: Option<&Object>, errors: &mut Errors) {
    let spec = slice.part("spec");
    let was = old.map(|old| old.part("spec"));
    validate_driver_name(spec.text("driver"), &SPEC.child("driver"), errors);
    validate_pool(spec.part("pool"), &SPEC.child("pool"), errors);
    if let Some(was) = was {
        let mut keep = |path: Path<'_>, now: Option<&Value>, before: Option<&Value>| {
            if now != before {
                errors.push(FieldError::invalid(path, now.unwrap_or(&Value::Null), IMMUTABLE));
            }
        };
        keep(SPEC.child("pool").child("name"), spec.part("pool").get("name"), was.part("pool").get("name"));
        for field in ["driver", "nodeName"] {
            keep(SPEC.child(field), spec.get(field), was.get(field));
        }
    }
    let empty = "must be either unset or set to a non-empty string";
    let mut set = validate_nodes(spec, empty, true, &SPEC, errors);
    validate_true(spec, "perDeviceNodeSelection", &mut set, &SPEC, errors);
    let why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    one_of(&set, why, &format!("{why}, but multiple fields are set"), &SPEC, errors);

    let has = |field: &str| spec.get(field).is_some_and(Value::is_array);
    if has("sharedCounters") && has("devices") {
        errors.push(FieldError::invalid(SPEC, "", "only one of `sharedCounters` or `devices` is allowed"));
    }
    let advanced = spec.items("devices").any(|device| {
        let lists = |attribute: &Object| LISTS.iter().any(|(list, _)| attribute.contains_key(list));
        !device.list("taints").is_empty()
            || !device.list("consumesCounters").is_empty()
            || device.part("attributes").values().filter_map(Value::as_object).any(lists)
    });
    let most = if advanced { MOST_ADVANCED_DEVICES } else { MOST_DEVICES };
    let per_device = spec.flag("perDeviceNodeSelection");
    let looked = each(spec, "devices", most, &SPEC, errors, |device, path, errors| {
        let before = was.and_then(|was| was.items("devices").find(|one| one.text("name") == device.text("name")));
        validate_device(device, before, per_device, path, errors);
    });
    if looked {
        once(spec.items("devices").map(|device| device.text("name")), &SPEC.child("devices"), errors);
    }
    if each(spec, "sharedCounters", MOST_SETS, &SPEC, errors, |set, path, errors| {
        validate_counters(set, "name", path, errors);
    }) {
        once(spec.items("sharedCounters").map(|set| set.text("name")), &SPEC.child("sharedCounters"), errors);
    }
}

fn validate_pool(pool: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_pool_name(pool.text("name"), &path.child("name"), errors);
    let (count, generation) = (pool.int("resourceSliceCount"), pool.int("generation"));
    if count <= 0 {
        errors.push(FieldError::invalid(path.child("resourceSliceCount"), count, "must be greater than zero"));
    }
    if generation < 0 {
        errors.push(FieldError::invalid(path.child("generation"), generation, "must be greater than or equal to zero"));
    }
}

/// From which nodes devices are reached, by `one_term` of a selector or any; answers which fields say so.
fn validate_nodes(
    parent: &Object,
    empty: &str,
    one_term: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) -> Vec<&'static str> {
    let mut set = Vec::new();
    match parent.maybe_text("nodeName") {
        None => {}
        Some("") => errors.push(FieldError::invalid(path.child("nodeName"), "", empty)),
        Some(node) => {
            set.push("`nodeName`");
            complain(node, name::is_dns1123_subdomain(node), &path.child("nodeName"), errors);
        }
    }
    if let Some(selector) = parent.object("nodeSelector") {
        set.push("`nodeSelector`");
        let path = path.child("nodeSelector");
        validate_node_selector(selector, false, &path, errors);
        if one_term {
            validate_one_term(selector, &path, errors);
        }
    }
    validate_true(parent, "allNodes", &mut set, path, errors);
    set
}

/// Selectors of one term are simple to merge.
fn validate_one_term(selector: &Object, path: &Path<'_>, errors: &mut Errors) {
    if selector.list("nodeSelectorTerms").len() == 1 {
        return;
    }
    let terms = selector.items("nodeSelectorTerms");
    let terms: Vec<String> = terms.map(|term| internal::shown("NodeSelectorTerm", term).to_string()).collect();
    let shown = match selector.get("nodeSelectorTerms") {
        Some(Value::Array(_)) => format!("[{}]", terms.join(",")),
        _ => "null".to_owned(),
    };
    let why = "must have exactly one node selector term";
    errors.push(FieldError::invalid(path.child("nodeSelectorTerms"), Shown::Bare(shown), why));
}

fn validate_true(
    parent: &Object,
    field: &'static str,
    set: &mut Vec<&'static str>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    match parent.maybe_flag(field) {
        None => {}
        Some(true) => set.push(if field == "allNodes" { "`allNodes`" } else { "`perDeviceNodeSelection`" }),
        Some(false) => {
            errors.push(FieldError::invalid(path.child(field), false, "must be either unset or set to true"));
        }
    }
}

fn one_of(set: &[&str], none: &str, several: &str, path: &Path<'_>, errors: &mut Errors) {
    match set {
        [] => errors.push(FieldError::required(path, none)),
        [_] => {}
        set => errors.push(FieldError::invalid(path, format!("{{{}}}", set.join(", ")), several)),
    }
}

fn validate_device(device: &Object, old: Option<&Object>, per_device: bool, path: &Path<'_>, errors: &mut Errors) {
    validate_label(device.text("name"), &path.child("name"), errors);
    let (attributes, capacity) = (device.part("attributes"), device.part("capacity"));
    let entries = attributes.len() + capacity.len();
    let values = attributes.values().filter_map(Value::as_object).map(|attribute| {
        let listed: usize = LISTS.iter().map(|(list, _)| attribute.list(list).len()).sum();
        listed.max(1)
    });
    for (found, most, what) in
        [(entries, MOST_ENTRIES, "attributes and capacities"), (values.sum(), MOST_VALUES, "attribute values")]
    {
        if found > most {
            let why = format!("the total number of {what} must not exceed {most}");
            errors.push(FieldError::invalid(path, i64::try_from(found).unwrap_or(i64::MAX), why));
        }
    }
    each_entry(device, "attributes", NAME_MAX, validate_qualified_name, path, errors, validate_attribute);
    let shared = device.flag("allowMultipleAllocations");
    each_entry(device, "capacity", NAME_MAX, validate_qualified_name, path, errors, |capacity, path, errors| {
        let Some(policy) = capacity.object("requestPolicy") else { return };
        let path = path.child("requestPolicy");
        if shared {
            validate_policy(policy, &Quantity::of(capacity.text("value")), &path, errors);
        } else {
            errors.push(FieldError::forbidden(path, "allowMultipleAllocations must be true"));
        }
    });
    if old.is_none_or(|old| old.get("taints") != device.get("taints")) {
        each(device, "taints", MOST_TAINTS, path, errors, validate_taint);
    }
    if each(device, "consumesCounters", MOST_SETS_OF_DEVICE, path, errors, |taken, path, errors| {
        validate_counters(taken, "counterSet", path, errors);
    }) {
        let sets = device.items("consumesCounters").map(|taken| taken.text("counterSet"));
        once(sets, &path.child("consumesCounters"), errors);
    }
    if per_device {
        let set = validate_nodes(device, "must not be empty", false, path, errors);
        let why = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        one_of(&set, why, why, path, errors);
    } else if ["nodeName", "nodeSelector", "allNodes"].iter().any(|field| device.contains_key(field)) {
        let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.push(FieldError::invalid(path, &Value::Null, why));
    }
    validate_binding(device, path, errors);
}

/// Checks the entries of a map, whose keys are complained of as a whole.
fn each_entry(
    parent: &Object,
    field: &str,
    shown: usize,
    key: impl Fn(&str, &Path<'_>, &mut Errors),
    path: &Path<'_>,
    errors: &mut Errors,
    mut check: impl FnMut(&Object, &Path<'_>, &mut Errors),
) {
    let path = path.child(field);
    for (name, value) in parent.part(field) {
        key(name, &path, errors);
        if let Value::Object(value) = value {
            check(value, &path.key(&cut(name, shown)), errors);
        }
    }
}

/// A name without its middle, where it is too long to be shown.
fn cut(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    let rest = most - 3;
    let part = |range: &[u8]| String::from_utf8_lossy(range).into_owned();
    let bytes = name.as_bytes();
    format!("{}...{}", part(&bytes[..rest.div_ceil(2)]), part(&bytes[bytes.len() - rest / 2..]))
}

/// The values that an attribute may have instead of one.
const LISTS: [(&str, bool); 4] = [("bools", false), ("ints", false), ("strings", false), ("versions", true)];

fn validate_attribute(attribute: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut found = ["bool", "int"].iter().filter(|field| attribute.contains_key(field)).count();
    for (field, is_version) in [("string", false), ("version", true)] {
        if let Some(value) = attribute.maybe_text(field) {
            found += 1;
            validate_value(value, is_version, &path.child(field), errors);
        }
    }
    for (field, is_version) in LISTS.into_iter().filter(|(field, _)| attribute.contains_key(field)) {
        found += 1;
        let list = path.child(field);
        if attribute.list(field).is_empty() {
            errors.push(FieldError::invalid(list, Shown::Bare("[]".to_owned()), "must not be empty if specified"));
        }
        for (at, value) in attribute.strings(field).enumerate() {
            validate_value(value, is_version, &list.index(at), errors);
        }
    }
    let why = "exactly one value must be specified";
    match found {
        0 => errors.push(FieldError::invalid(path, "", why)),
        1 => {}
        _ => errors.push(FieldError::invalid(path, internal::shown("DeviceAttribute", attribute), why)),
    }
}

fn validate_value(value: &str, is_version: bool, path: &Path<'_>, errors: &mut Errors) {
    // As in the reference, a number of a version may be of any size.
    if is_version && !is_version_text(value) {
        let why = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(FieldError::invalid(path, value, why));
    }
    if value.len() > VALUE_MAX {
        errors.push(FieldError::too_long(path, VALUE_MAX));
    }
}

/// A version by semver.org: `1.2.3-alpha.1+build.5`.
fn is_version_text(value: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit()) && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    let (value, build) = value.split_once('+').map_or((value, None), |(value, build)| (value, Some(build)));
    let (core, early) = value.split_once('-').map_or((value, None), |(core, early)| (core, Some(early)));
    let numeric = |part: &str| part.bytes().all(|c| c.is_ascii_digit());
    core.split('.').count() == 3
        && core.split('.').all(number)
        && early.is_none_or(|early| early.split('.').all(|part| word(part) && (!numeric(part) || number(part))))
        && build.is_none_or(|build| build.split('.').all(word))
}

fn validate_taint(taint: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (key, value, effect) = (taint.text("key"), taint.text("value"), path.child("effect"));
    complain(key, name::is_qualified_name(key), &path.child("key"), errors);
    complain(value, name::is_label_value(value), &path.child("value"), errors);
    match taint.text("effect") {
        "" => errors.push(FieldError::required(effect, "")),
        known if EFFECTS.contains(&known) => {}
        other => errors.push(FieldError::not_supported(effect, other, &EFFECTS)),
    }
}

/// A set of counters, or what is taken of it; `name` is the field that names the set.
fn validate_counters(set: &Object, name: &str, path: &Path<'_>, errors: &mut Errors) {
    match set.text(name) {
        "" => errors.push(FieldError::required(path.child(name), "")),
        own => validate_label(own, &path.child(name), errors),
    }
    let counters = path.child("counters");
    match set.part("counters").len() {
        0 => errors.push(FieldError::required(counters, "")),
        count if count > MOST_COUNTERS => errors.push(FieldError::too_many(counters, count, MOST_COUNTERS)),
        _ => each_entry(set, "counters", LABEL_MAX, validate_label, path, errors, |_, _, _| {}),
    }
}

/// How much of a capacity may be asked for.
fn validate_policy(policy: &Object, most: &Quantity, path: &Path<'_>, errors: &mut Errors) {
    let (values, range) = (!policy.list("validValues").is_empty(), policy.object("validRange"));
    let default = policy.maybe_text("default").map(|text| (text, Quantity::of(text)));
    match (values, range, default) {
        (true, Some(_), _) => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            errors.push(FieldError::forbidden(path, why));
        }
        (true, None, None) => {
            errors.push(FieldError::required(path.child("default"), "required when validValues is defined"));
        }
        (false, Some(_), None) => {
            errors.push(FieldError::required(path.child("default"), "required when validRange is defined"));
        }
        (true, None, Some((shown, default))) => {
            validate_choices(policy, (shown, &default), most, &path.child("validValues"), errors);
        }
        (false, Some(range), Some((shown, default))) => {
            validate_range(range, (shown, &default), most, &path.child("validRange"), errors);
        }
        (false, None, _) => {}
    }
}

fn validate_choices(
    policy: &Object,
    (shown, default): (&str, &Quantity),
    most: &Quantity,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let choices: Vec<(&str, Quantity)> = policy.strings("validValues").map(|text| (text, Quantity::of(text))).collect();
    for (at, pair) in choices.windows(2).enumerate() {
        if pair[0].1.compare(&pair[1].1).is_gt() {
            errors.push(FieldError::invalid(path.index(at + 1), pair[1].0, "values must be sorted in ascending order"));
        }
    }
    let mut found = false;
    if choices.len() > MOST_CHOICES {
        errors.push(FieldError::too_many(path, choices.len(), MOST_CHOICES));
    } else {
        for (at, (text, choice)) in choices.iter().enumerate() {
            if choice.compare(most).is_gt() {
                let why = format!("option is larger than capacity value: {most}");
                errors.push(FieldError::invalid(path.index(at), *text, why));
            }
            found |= choice.compare(default).is_eq();
        }
        once(choices.iter().map(|(_, choice)| choice.value().to_string()), path, errors);
    }
    if !found {
        errors.push(FieldError::invalid(path, shown, "default value is not valid according to the requestPolicy"));
    }
}

fn validate_range(
    range: &Object,
    (shown, default): (&str, &Quantity),
    most: &Quantity,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let read = |field: &str| range.maybe_text(field).map(|text| (text, Quantity::of(text)));
    let Some((least_shown, least)) = read("min") else {
        return errors.push(FieldError::required(path.child("min"), "required when validRange is defined"));
    };
    let (max, step) = (read("max"), read("step"));
    let mut wrong = |field: &str, value: &str, why: String| {
        errors.push(FieldError::invalid(path.child(field), value, why));
    };
    if least.compare(most).is_gt() {
        wrong("min", least_shown, format!("min is larger than capacity value: {most}"));
    }
    if default.compare(&least).is_lt() {
        wrong("min", shown, format!("default is less than min: {least_shown}"));
    }
    if let Some((max_shown, max)) = &max {
        if least.compare(max).is_gt() {
            wrong("max", least_shown, format!("min is larger than max: {max_shown}"));
        }
        if max.compare(most).is_gt() {
            wrong("max", max_shown, format!("max is larger than capacity value: {most}"));
        }
        if default.compare(max).is_gt() {
            wrong("max", shown, format!("default is more than max: {max_shown}"));
        }
    }
    let Some((step_shown, step)) = step else { return };
    let next = least.plus(&step);
    if next.compare(most).is_gt() {
        wrong("step", step_shown, format!("one step {next} is larger than capacity value: {most}"));
    }
    let stepped = [Some((shown, default)), max.as_ref().map(|(shown, max)| (*shown, max))];
    for (shown, value) in stepped.into_iter().flatten() {
        let far = value.value().wrapping_sub(least.value());
        if far.checked_rem(step.value()).is_none_or(|rest| rest != 0) {
            wrong(
                "step",
                shown,
                format!("value is not a multiple of a given step ({step_shown}) from ({least_shown})"),
            );
        }
    }
}
