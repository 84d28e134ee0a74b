//! Every operator and function that expressions may call, by its signatures.
//!
//! A signature is `name(argument, ...) result`, or `target.name(argument, ...) result`. `A` and `B` stand for any type.
//! The word behind it is the rule for what a call costs at worst, see [`Cost`].

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::Type;

/// What a call costs at worst, beside its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// One.
    Unit,
    /// Nothing; the second argument may not be reached.
    Logic,
    /// Nothing; one of two arguments is reached.
    Choice,
    /// One for each element of the second argument.
    In,
    /// The shorter of two texts is read.
    Compare,
    /// Both texts are read, and a new one is made.
    AddText,
    /// A list of both.
    AddList,
    /// An element of a list.
    IndexList,
    /// A value of a map.
    IndexMap,
    /// The first argument is read.
    Argument,
    /// The argument is read, and is as long afterwards.
    ArgumentSized,
    /// The argument is read twice.
    ArgumentTwice,
    /// As bytes: up to four times as long.
    ToBytes,
    /// As a text: down to a quarter.
    ToText,
    /// The target is read, and is as long afterwards.
    Target,
    /// The target is read.
    TargetOnly,
    /// The target is compared with each place of the argument.
    Contains,
    /// An expression is tried at each place of the target.
    Match,
    /// The same, for a result with elements.
    Find,
    /// Each element of the target is compared.
    Elements,
    /// A new list of as many elements as the target has.
    Copied,
    /// A new list of a part of the target.
    Sliced,
    /// A new list of so many numbers.
    Counted,
    /// A new list of what is in the lists of the target, so deep.
    Flattened,
    /// A new list, for which each element of the target is compared with each.
    Distinct,
    /// The same for sorting, where texts are read.
    Sorted,
    /// The same for sorting by other values, those of the argument.
    SortedBy,
    /// Replacing in a text.
    Replace,
    /// Splitting a text.
    Split,
    /// Joining texts.
    Join,
    /// An address in a network.
    ContainsIp,
    /// A network in a network.
    ContainsCidr,
    /// A named format.
    Validate,
    /// Each element of one list is compared with each of another.
    Sets,
    /// The same, in both directions.
    SetsTwice,
    /// A question to an authorizer.
    Authorization,
    /// What it is given.
    Same,
}

/// One of the signatures of a function.
#[derive(Debug)]
pub struct Overload {
    /// Whether the first of the parameters is a target.
    pub member: bool,
    /// What it takes, the target first.
    pub parameters: Vec<Type<'static>>,
    /// What it gives.
    pub result: Type<'static>,
    /// How many types stand open in it.
    pub open: usize,
    /// What a call costs.
    pub cost: Cost,
}

/// The signatures of a function; `None` where there is none.
#[must_use]
pub fn overloads(name: &str) -> Option<&'static [Overload]> {
    static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
        let mut table: HashMap<&'static str, Vec<Overload>> = HashMap::new();
        for (signature, cost) in SIGNATURES {
            let (name, overload) = read(signature, *cost);
            table.entry(name).or_default().push(overload);
        }
        for types in ORDERED {
            for operator in ["_<_", "_<=_", "_>_", "_>=_"] {
                let (one, other) = types.split_once(' ').unwrap_or((types, types));
                let cost = if matches!(one, "string" | "bytes") { Cost::Compare } else { Cost::Unit };
                let parameters = vec![read_type(one).0, read_type(other).0];
                let overload = Overload { member: false, parameters, result: Type::Bool, open: 0, cost };
                table.entry(operator).or_default().push(overload);
            }
        }
        for kind in SORTED {
            let list = || vec![Type::list(read_type(kind).0)];
            for (name, result) in [("isSorted", "bool"), ("min", *kind), ("max", *kind)] {
                let result = read_type(result).0;
                let overload = Overload { member: true, parameters: list(), result, open: 0, cost: Cost::Elements };
                table.entry(name).or_default().push(overload);
            }
        }
        table
    });
    TABLE.get(name).map(Vec::as_slice)
}

/// The types that have an order.
const ORDERED: &[&str] = &[
    "bool",
    "int",
    "int double",
    "int uint",
    "uint",
    "uint double",
    "uint int",
    "double",
    "double int",
    "double uint",
    "string",
    "bytes",
    "timestamp",
    "duration",
];

/// The types whose lists may be sorted.
const SORTED: &[&str] = &["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];

const SIGNATURES: &[(&str, Cost)] = &[
    // Operators.
    ("_?_:_(bool, A, A) A", Cost::Choice),
    ("_&&_(bool, bool) bool", Cost::Logic),
    ("_||_(bool, bool) bool", Cost::Logic),
    ("!_(bool) bool", Cost::Unit),
    ("@not_strictly_false(bool) bool", Cost::Unit),
    ("_==_(A, A) bool", Cost::Compare),
    ("_!=_(A, A) bool", Cost::Compare),
    ("_+_(bytes, bytes) bytes", Cost::AddText),
    ("_+_(double, double) double", Cost::Unit),
    ("_+_(duration, duration) duration", Cost::Unit),
    ("_+_(duration, timestamp) timestamp", Cost::Unit),
    ("_+_(timestamp, duration) timestamp", Cost::Unit),
    ("_+_(int, int) int", Cost::Unit),
    ("_+_(list(A), list(A)) list(A)", Cost::AddList),
    ("_+_(string, string) string", Cost::AddText),
    ("_+_(uint, uint) uint", Cost::Unit),
    ("_-_(double, double) double", Cost::Unit),
    ("_-_(duration, duration) duration", Cost::Unit),
    ("_-_(int, int) int", Cost::Unit),
    ("_-_(timestamp, duration) timestamp", Cost::Unit),
    ("_-_(timestamp, timestamp) duration", Cost::Unit),
    ("_-_(uint, uint) uint", Cost::Unit),
    ("_*_(double, double) double", Cost::Unit),
    ("_*_(int, int) int", Cost::Unit),
    ("_*_(uint, uint) uint", Cost::Unit),
    ("_/_(double, double) double", Cost::Unit),
    ("_/_(int, int) int", Cost::Unit),
    ("_/_(uint, uint) uint", Cost::Unit),
    ("_%_(int, int) int", Cost::Unit),
    ("_%_(uint, uint) uint", Cost::Unit),
    ("-_(double) double", Cost::Unit),
    ("-_(int) int", Cost::Unit),
    ("_[_](list(A), int) A", Cost::IndexList),
    ("_[_](map(A, B), A) B", Cost::IndexMap),
    ("_[_](optional(list(A)), int) optional(A)", Cost::Unit),
    ("_[_](optional(map(A, B)), A) optional(B)", Cost::Unit),
    ("_[?_](list(A), int) optional(A)", Cost::Unit),
    ("_[?_](optional(list(A)), int) optional(A)", Cost::Unit),
    ("_[?_](map(A, B), A) optional(B)", Cost::Unit),
    ("_[?_](optional(map(A, B)), A) optional(B)", Cost::Unit),
    ("@in(A, list(A)) bool", Cost::In),
    ("@in(A, map(A, B)) bool", Cost::Unit),
    // Types and conversions.
    ("type(A) type", Cost::Unit),
    ("dyn(A) dyn", Cost::Same),
    ("bool(bool) bool", Cost::Unit),
    ("bool(string) bool", Cost::Unit),
    ("bytes(bytes) bytes", Cost::Unit),
    ("bytes(string) bytes", Cost::ToBytes),
    ("double(double) double", Cost::Unit),
    ("double(int) double", Cost::Unit),
    ("double(string) double", Cost::Unit),
    ("double(uint) double", Cost::Unit),
    ("duration(duration) duration", Cost::Unit),
    ("duration(int) duration", Cost::Unit),
    ("duration(string) duration", Cost::Unit),
    ("int(int) int", Cost::Unit),
    ("int(double) int", Cost::Unit),
    ("int(duration) int", Cost::Unit),
    ("int(string) int", Cost::Unit),
    ("int(timestamp) int", Cost::Unit),
    ("int(uint) int", Cost::Unit),
    ("string(string) string", Cost::Unit),
    ("string(bool) string", Cost::Unit),
    ("string(bytes) string", Cost::ToText),
    ("string(double) string", Cost::Unit),
    ("string(duration) string", Cost::Unit),
    ("string(int) string", Cost::Unit),
    ("string(timestamp) string", Cost::Unit),
    ("string(uint) string", Cost::Unit),
    ("string(IP) string", Cost::Unit),
    ("string(CIDR) string", Cost::Unit),
    ("timestamp(timestamp) timestamp", Cost::Unit),
    ("timestamp(int) timestamp", Cost::Unit),
    ("timestamp(string) timestamp", Cost::Unit),
    ("uint(uint) uint", Cost::Unit),
    ("uint(double) uint", Cost::Unit),
    ("uint(int) uint", Cost::Unit),
    ("uint(string) uint", Cost::Unit),
    // Texts and sizes.
    ("size(bytes) int", Cost::Unit),
    ("bytes.size() int", Cost::Unit),
    ("size(list(A)) int", Cost::Unit),
    ("list(A).size() int", Cost::Unit),
    ("size(map(A, B)) int", Cost::Unit),
    ("map(A, B).size() int", Cost::Unit),
    ("size(string) int", Cost::Unit),
    ("string.size() int", Cost::Unit),
    ("string.contains(string) bool", Cost::Contains),
    ("string.endsWith(string) bool", Cost::Argument),
    ("string.startsWith(string) bool", Cost::Argument),
    ("matches(string, string) bool", Cost::Unit),
    ("string.matches(string) bool", Cost::Match),
    ("string.charAt(int) string", Cost::Unit),
    ("string.indexOf(string) int", Cost::TargetOnly),
    ("string.indexOf(string, int) int", Cost::TargetOnly),
    ("string.lastIndexOf(string) int", Cost::TargetOnly),
    ("string.lastIndexOf(string, int) int", Cost::TargetOnly),
    ("string.lowerAscii() string", Cost::Target),
    ("string.upperAscii() string", Cost::Target),
    ("string.replace(string, string) string", Cost::Replace),
    ("string.replace(string, string, int) string", Cost::Replace),
    ("string.split(string) list(string)", Cost::Split),
    ("string.split(string, int) list(string)", Cost::Split),
    ("string.substring(int) string", Cost::Target),
    ("string.substring(int, int) string", Cost::Target),
    ("string.trim() string", Cost::Target),
    ("string.format(list(dyn)) string", Cost::TargetOnly),
    ("strings.quote(string) string", Cost::Argument),
    ("list(string).join() string", Cost::Join),
    ("list(string).join(string) string", Cost::Join),
    ("string.find(string) string", Cost::Find),
    ("string.findAll(string) list(string)", Cost::Find),
    ("string.findAll(string, int) list(string)", Cost::Find),
    // Times.
    ("timestamp.getFullYear() int", Cost::Unit),
    ("timestamp.getFullYear(string) int", Cost::Unit),
    ("timestamp.getMonth() int", Cost::Unit),
    ("timestamp.getMonth(string) int", Cost::Unit),
    ("timestamp.getDayOfYear() int", Cost::Unit),
    ("timestamp.getDayOfYear(string) int", Cost::Unit),
    ("timestamp.getDayOfMonth() int", Cost::Unit),
    ("timestamp.getDayOfMonth(string) int", Cost::Unit),
    ("timestamp.getDate() int", Cost::Unit),
    ("timestamp.getDate(string) int", Cost::Unit),
    ("timestamp.getDayOfWeek() int", Cost::Unit),
    ("timestamp.getDayOfWeek(string) int", Cost::Unit),
    ("timestamp.getHours() int", Cost::Unit),
    ("timestamp.getHours(string) int", Cost::Unit),
    ("duration.getHours() int", Cost::Unit),
    ("timestamp.getMinutes() int", Cost::Unit),
    ("timestamp.getMinutes(string) int", Cost::Unit),
    ("duration.getMinutes() int", Cost::Unit),
    ("timestamp.getSeconds() int", Cost::Unit),
    ("timestamp.getSeconds(string) int", Cost::Unit),
    ("duration.getSeconds() int", Cost::Unit),
    ("timestamp.getMilliseconds() int", Cost::Unit),
    ("timestamp.getMilliseconds(string) int", Cost::Unit),
    ("duration.getMilliseconds() int", Cost::Unit),
    // Lists, sets, maps.
    ("list(int).sum() int", Cost::Elements),
    ("list(uint).sum() uint", Cost::Elements),
    ("list(double).sum() double", Cost::Elements),
    ("list(duration).sum() duration", Cost::Elements),
    ("list(A).indexOf(A) int", Cost::Elements),
    ("list(A).lastIndexOf(A) int", Cost::Elements),
    ("list(A).slice(int, int) list(A)", Cost::Sliced),
    ("list(list(A)).flatten() list(A)", Cost::Flattened),
    ("list(dyn).flatten(int) list(dyn)", Cost::Flattened),
    ("list(A).sort() list(A)", Cost::Sorted),
    ("list(A).@sortByAssociatedKeys(list(B)) list(A)", Cost::SortedBy),
    ("list(A).distinct() list(A)", Cost::Distinct),
    ("list(A).reverse() list(A)", Cost::Copied),
    ("lists.range(int) list(int)", Cost::Counted),
    ("list(A).first() optional(A)", Cost::Unit),
    ("list(A).last() optional(A)", Cost::Unit),
    ("sets.contains(list(A), list(A)) bool", Cost::Sets),
    ("sets.equivalent(list(A), list(A)) bool", Cost::SetsTwice),
    ("sets.intersects(list(A), list(A)) bool", Cost::Sets),
    ("cel.@mapInsert(map(A, B), A, B) map(A, B)", Cost::Unit),
    ("cel.@mapInsert(map(A, B), map(A, B)) map(A, B)", Cost::Unit),
    // Values that may be absent.
    ("optional.of(A) optional(A)", Cost::Unit),
    ("optional.ofNonZeroValue(A) optional(A)", Cost::Unit),
    ("optional.none() optional(A)", Cost::Unit),
    ("optional.unwrap(list(optional(A))) list(A)", Cost::Unit),
    ("list(optional(A)).unwrapOpt() list(A)", Cost::Unit),
    ("optional(A).value() A", Cost::Unit),
    ("optional(A).hasValue() bool", Cost::Unit),
    ("optional(A).or(optional(A)) optional(A)", Cost::Unit),
    ("optional(A).orValue(A) A", Cost::Unit),
    // Kubernetes' own.
    ("url(string) URL", Cost::ArgumentSized),
    ("isURL(string) bool", Cost::Unit),
    ("jsonpatch.escapeKey(string) string", Cost::ArgumentSized),
    ("URL.getScheme() string", Cost::Unit),
    ("URL.getHost() string", Cost::Unit),
    ("URL.getHostname() string", Cost::Unit),
    ("URL.getPort() string", Cost::Unit),
    ("URL.getEscapedPath() string", Cost::Unit),
    ("URL.getQuery() map(string, list(string))", Cost::Unit),
    ("ip(string) IP", Cost::Argument),
    ("isIP(string) bool", Cost::Argument),
    ("ip.isCanonical(string) bool", Cost::ArgumentTwice),
    ("IP.family() int", Cost::Unit),
    ("IP.isUnspecified() bool", Cost::Unit),
    ("IP.isLoopback() bool", Cost::Unit),
    ("IP.isLinkLocalMulticast() bool", Cost::Unit),
    ("IP.isLinkLocalUnicast() bool", Cost::Unit),
    ("IP.isGlobalUnicast() bool", Cost::Unit),
    ("cidr(string) CIDR", Cost::Argument),
    ("isCIDR(string) bool", Cost::Argument),
    ("CIDR.containsIP(string) bool", Cost::ContainsIp),
    ("CIDR.containsIP(IP) bool", Cost::ContainsIp),
    ("CIDR.containsCIDR(string) bool", Cost::ContainsCidr),
    ("CIDR.containsCIDR(CIDR) bool", Cost::ContainsCidr),
    ("CIDR.ip() IP", Cost::Unit),
    ("CIDR.prefixLength() int", Cost::Unit),
    ("CIDR.masked() CIDR", Cost::Unit),
    ("quantity(string) Quantity", Cost::Argument),
    ("isQuantity(string) bool", Cost::Argument),
    ("Quantity.sign() int", Cost::Unit),
    ("Quantity.isGreaterThan(Quantity) bool", Cost::Unit),
    ("Quantity.isLessThan(Quantity) bool", Cost::Unit),
    ("Quantity.compareTo(Quantity) int", Cost::Unit),
    ("Quantity.asApproximateFloat() double", Cost::Unit),
    ("Quantity.asInteger() int", Cost::Unit),
    ("Quantity.isInteger() bool", Cost::Unit),
    ("Quantity.add(Quantity) Quantity", Cost::Unit),
    ("Quantity.add(int) Quantity", Cost::Unit),
    ("Quantity.sub(Quantity) Quantity", Cost::Unit),
    ("Quantity.sub(int) Quantity", Cost::Unit),
    ("semver(string) Semver", Cost::Argument),
    ("semver(string, bool) Semver", Cost::Argument),
    ("isSemver(string) bool", Cost::Argument),
    ("isSemver(string, bool) bool", Cost::Argument),
    ("Semver.isGreaterThan(Semver) bool", Cost::Unit),
    ("Semver.isLessThan(Semver) bool", Cost::Unit),
    ("Semver.compareTo(Semver) int", Cost::Unit),
    ("Semver.major() int", Cost::Unit),
    ("Semver.minor() int", Cost::Unit),
    ("Semver.patch() int", Cost::Unit),
    ("Format.validate(string) optional(list(string))", Cost::Validate),
    ("format.named(string) optional(Format)", Cost::Unit),
    ("format.dns1123Label() Format", Cost::Unit),
    ("format.dns1123Subdomain() Format", Cost::Unit),
    ("format.dns1035Label() Format", Cost::Unit),
    ("format.qualifiedName() Format", Cost::Unit),
    ("format.dns1123LabelPrefix() Format", Cost::Unit),
    ("format.dns1123SubdomainPrefix() Format", Cost::Unit),
    ("format.dns1035LabelPrefix() Format", Cost::Unit),
    ("format.labelValue() Format", Cost::Unit),
    ("format.uri() Format", Cost::Unit),
    ("format.uuid() Format", Cost::Unit),
    ("format.byte() Format", Cost::Unit),
    ("format.date() Format", Cost::Unit),
    ("format.datetime() Format", Cost::Unit),
    // What an authorizer is asked.
    ("Authorizer.path(string) PathCheck", Cost::Unit),
    ("Authorizer.group(string) GroupCheck", Cost::Unit),
    ("Authorizer.serviceAccount(string, string) Authorizer", Cost::Unit),
    ("GroupCheck.resource(string) ResourceCheck", Cost::Unit),
    ("ResourceCheck.subresource(string) ResourceCheck", Cost::Unit),
    ("ResourceCheck.namespace(string) ResourceCheck", Cost::Unit),
    ("ResourceCheck.name(string) ResourceCheck", Cost::Unit),
    ("ResourceCheck.fieldSelector(string) ResourceCheck", Cost::Argument),
    ("ResourceCheck.labelSelector(string) ResourceCheck", Cost::Argument),
    ("PathCheck.check(string) Decision", Cost::Authorization),
    ("ResourceCheck.check(string) Decision", Cost::Authorization),
    ("Decision.errored() bool", Cost::Unit),
    ("Decision.error() string", Cost::Unit),
    ("Decision.allowed() bool", Cost::Unit),
    ("Decision.reason() string", Cost::Unit),
];

/// Reads a signature.
fn read(text: &'static str, cost: Cost) -> (&'static str, Overload) {
    // The parameters are in the last pair of parentheses before the result.
    let (open, close) = parentheses(text);
    let (head, result) = (&text[..open], text[close + 1..].trim());
    let mut parameters = Vec::new();
    let (target, name) = split_target(head);
    if let Some(target) = target {
        parameters.push(read_type(target).0);
    }
    let mut rest = &text[open + 1..close];
    while !rest.is_empty() {
        let (kind, more) = read_type(rest);
        parameters.push(kind);
        rest = more.trim_start_matches([',', ' ']);
    }
    let result = read_type(result).0;
    let open = if text.contains('B') { 2 } else { usize::from(text.contains('A')) };
    (name, Overload { member: target.is_some(), parameters, result, open, cost })
}

/// Where the parentheses of a signature's parameters are: the ones behind the name.
fn parentheses(text: &str) -> (usize, usize) {
    let mut depth = 0_usize;
    let mut found = (0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => {
                if depth == 0 {
                    found.0 = at;
                }
                depth += 1;
            }
            ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    found.1 = at;
                    // A target in parentheses is followed by a dot.
                    if !text[at + 1..].starts_with('.') {
                        return found;
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// The target's type and the function's name; libraries have names with a dot, but no types in small letters.
fn split_target(head: &'static str) -> (Option<&'static str>, &'static str) {
    const LIBRARIES: &[&str] = &["strings", "lists", "sets", "optional", "cel", "format", "ip", "jsonpatch"];
    match head.rsplit_once('.') {
        Some((library, _)) if LIBRARIES.contains(&library) => (None, head),
        Some((target, name)) if !target.is_empty() => (Some(target), name),
        _ => (None, head),
    }
}

/// Reads a type, and gives what follows it.
fn read_type(text: &'static str) -> (Type<'static>, &'static str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let inside = |rest: &'static str| {
        let (kind, rest) = read_type(rest.trim_start_matches(['(', ',', ' ']));
        (kind, rest)
    };
    match name {
        "list" | "optional" => {
            let (inner, rest) = inside(rest);
            let kind = if name == "list" { Type::list(inner) } else { Type::optional(inner) };
            (kind, rest.strip_prefix(')').unwrap_or(rest))
        }
        "map" => {
            let (key, rest) = inside(rest);
            let (value, rest) = inside(rest);
            (Type::map(key, value), rest.strip_prefix(')').unwrap_or(rest))
        }
        name => (scalar(name), rest),
    }
}

fn scalar(name: &str) -> Type<'static> {
    match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "type" => Type::Type,
        "A" => Type::Param(0),
        "B" => Type::Param(1),
        "URL" => Type::Opaque("kubernetes.URL"),
        "IP" => Type::Opaque("net.IP"),
        "CIDR" => Type::Opaque("net.CIDR"),
        "Quantity" => Type::Opaque("kubernetes.Quantity"),
        "Semver" => Type::Opaque("kubernetes.Semver"),
        "Format" => Type::Opaque("kubernetes.NamedFormat"),
        "Authorizer" => Type::Opaque("kubernetes.authorization.Authorizer"),
        "PathCheck" => Type::Opaque("kubernetes.authorization.PathCheck"),
        "GroupCheck" => Type::Opaque("kubernetes.authorization.GroupCheck"),
        "ResourceCheck" => Type::Opaque("kubernetes.authorization.ResourceCheck"),
        "Decision" => Type::Opaque("kubernetes.authorization.Decision"),
        _ => Type::Dyn,
    }
}
