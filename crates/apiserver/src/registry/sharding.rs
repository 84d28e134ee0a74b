//! Shard selectors: which objects a list or a watch is about, by the hash of a field (API-38, KEP-5866).

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use muster_objects::shard;

use crate::cel::parse;
use crate::field::go_quote;
use crate::status::ApiError;
use crate::storage::Entry;

/// What ends the range that has the highest hash: 2^64.
const END: &str = "0x10000000000000000";

/// Ranges of the hash of one field, of which an object has to be in one.
#[derive(Debug)]
pub(super) struct ShardSelector {
    field: Field,
    /// Never empty.
    ranges: Vec<Range>,
}

/// What is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Uid,
    Namespace,
}

/// The hashes from `start` on and before `end`.
#[derive(Debug)]
struct Range {
    start: u128,
    end: u128,
}

impl ShardSelector {
    /// Parses the parameter `shardSelector`; `None` where it is empty.
    ///
    /// # Errors
    /// 500 without a reason, as on the real server, for what is none.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, ApiError> {
        if text.is_empty() {
            return Ok(None);
        }
        parse_selector(text).map(Some).map_err(|why| ApiError::plain(format!("invalid shard selector: {why}")))
    }

    /// Whether an object is within.
    #[must_use]
    pub(super) fn matches(&self, entry: &Entry) -> bool {
        let hash = u128::from(shard::hash(match self.field {
            Field::Uid => &entry.uid,
            Field::Namespace => &entry.namespace,
        }));
        self.ranges.iter().any(|range| (range.start..range.end).contains(&hash))
    }
}

/// As the answer's `shardInfo` tells it.
impl std::fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, Range { start, end }) in self.ranges.iter().enumerate() {
            let or = if at == 0 { "" } else { " || " };
            write!(f, "{or}shardRange({}, '0x{start:016x}', '0x{end:016x}')", self.field.path())?;
        }
        Ok(())
    }
}

impl Field {
    fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

fn parse_selector(text: &str) -> Result<ShardSelector, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned());
    }
    let tree = parse::without_macros(text).map_err(|why| format!("CEL parse error: {why}"))?;
    let mut found = Vec::new();
    // From left to right, since the first error is the one that is told.
    let mut waiting = vec![&tree];
    while let Some(tree) = waiting.pop() {
        match &tree.expr {
            Expr::Call(call) if call.func_name == operators::LOGICAL_OR => waiting.extend(call.args.iter().rev()),
            Expr::Call(call) if call.func_name == "shardRange" => found.push(shard_range(call)?),
            Expr::Call(call) => {
                let name = go_quote(&call.func_name);
                return Err(format!("unsupported function {name}; only shardRange() and || are allowed"));
            }
            other => {
                let kind = go_kind(other);
                return Err(format!("unexpected expression kind {kind}; expected shardRange() call or || operator"));
            }
        }
    }
    let field = found.first().map_or(Field::Uid, |(field, _)| *field);
    if let Some((other, _)) = found.iter().find(|(other, _)| *other != field) {
        let (field, other) = (field.path(), other.path());
        return Err(format!("all shard ranges must use the same field, got \"{field}\" and \"{other}\""));
    }
    Ok(ShardSelector { field, ranges: found.into_iter().map(|(_, range)| range).collect() })
}

fn shard_range(call: &CallExpr) -> Result<(Field, Range), String> {
    let [path, start, end] = &call.args[..] else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", call.args.len()));
    };
    let path = field_path(path).map_err(|why| format!("shardRange() first argument: {why}"))?;
    let field = [Field::Uid, Field::Namespace].into_iter().find(|field| field.path() == path).ok_or_else(|| {
        let path = go_quote(&path);
        format!("unsupported field path {path}; supported: object.metadata.uid, object.metadata.namespace")
    })?;
    let range = Range { start: bound(start, "hexStart")?, end: bound(end, "hexEnd")? };
    if range.start >= range.end {
        let Range { start, end } = range;
        return Err(format!("shard range start 0x{start:016x} must be less than end 0x{end:016x}"));
    }
    Ok((field, range))
}

/// The names of a chain such as `object.metadata.uid`, joined by dots.
fn field_path(tree: &IdedExpr) -> Result<String, String> {
    let mut names = Vec::new();
    let mut tree = tree;
    while let Expr::Select(select) = &tree.expr {
        names.push(select.field.as_str());
        tree = &select.operand;
    }
    let Expr::Ident(name) = &tree.expr else {
        let kind = go_kind(&tree.expr);
        return Err(format!("expected field path (e.g. object.metadata.uid), got expression kind {kind}"));
    };
    names.push(name);
    names.reverse();
    Ok(names.join("."))
}

/// A bound from its literal: `0x` and 16 digits, or 2^64.
fn bound(tree: &IdedExpr, name: &str) -> Result<u128, String> {
    let Expr::Literal(literal) = &tree.expr else {
        let kind = go_kind(&tree.expr);
        return Err(format!("{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"));
    };
    let LiteralValue::String(text) = literal else {
        return Err(format!("{name} must be a string literal, got {}", go_type(literal)));
    };
    let text = text.inner();
    let quoted = go_quote(text);
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {quoted}"));
    };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > 17 {
        let (length, digits) = (digits.len(), go_quote(digits));
        return Err(format!("{name}: hex value too long ({length} chars, max 17): {digits}"));
    }
    if let Some(strange) = digits.chars().find(|digit| !matches!(digit, '0'..='9' | 'a'..='f')) {
        let strange = go_quote(&strange.to_string());
        return Err(format!("{name}: invalid hex character {strange} in {quoted}"));
    }
    if digits.len() == 17 && text != END {
        return Err(format!("{name}: 17-digit hex value must be '{END}' (2^64), got {quoted}"));
    }
    if digits.len() < 16 {
        return Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {quoted} (did you mean \"0x{digits:0>16}\"?)"
        ));
    }
    u128::from_str_radix(digits, 16).map_err(|error| format!("{name}: {error}"))
}

/// The number by which cel-go knows the kind of an expression, as the reference's messages show it.
fn go_kind(expr: &Expr) -> u8 {
    match expr {
        Expr::Unspecified => 0,
        Expr::Call(_) => 1,
        Expr::Comprehension(_) => 2,
        Expr::Ident(_) => 3,
        Expr::List(_) => 4,
        Expr::Literal(_) => 5,
        Expr::Map(_) => 6,
        Expr::Select(_) => 7,
        Expr::Struct(_) => 8,
    }
}

/// Go's name of a literal's type.
fn go_type(literal: &LiteralValue) -> &'static str {
    match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "[]uint8",
        LiteralValue::Double(_) => "float64",
        LiteralValue::Int(_) => "int64",
        LiteralValue::Null => "structpb.NullValue",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint64",
    }
}
