//! The text by which Kubernetes hashes a value: every field of its Go type, with type names.
//!
//! It is what `k8s.io/utils/dump.ForHash` prints: `(v1.Toleration){Key:(string)a ... TolerationSeconds:(*int64)<nil>}`.
//! Maps are sorted, strings are not quoted, and unexported fields show, so a quantity prints as the
//! parts in which Go holds it. The value is as the controller manager has it after protobuf, which does
//! not tell an empty list or map from none.

use std::fmt::{self, Write};

use serde_json::Value;

use crate::quantity::{Amount, Quantity};
use crate::table::{Field, Kind, Shape, Table, Type};

/// Why there is no dump: the value is not wholly of its type, or Go prints more than JSON says.
#[derive(Debug)]
pub(super) struct NoDump;

impl From<fmt::Error> for NoDump {
    fn from(_: fmt::Error) -> Self {
        Self
    }
}

type Result = std::result::Result<(), NoDump>;

/// Dumps a value of a type. What was written before an error is of no use.
pub(super) fn dump(value: &Value, shape: &Shape, out: &mut impl Write) -> Result {
    Dumper { out, table: Table::get() }.typed(value, shape, false)
}

struct Dumper<'a, W> {
    out: &'a mut W,
    table: &'static Table,
}

impl<W: Write> Dumper<'_, W> {
    /// A value after its type in parentheses; `Null` is what is not there.
    fn typed(&mut self, value: &Value, shape: &Shape, pointer: bool) -> Result {
        write!(self.out, "({}{shape})", if pointer { "*" } else { "" })?;
        if pointer && value.is_null() {
            return Ok(self.out.write_str("<nil>")?);
        }
        self.bare(value, shape)
    }

    /// A value without its type, as elements of lists and maps are shown.
    fn bare(&mut self, value: &Value, shape: &Shape) -> Result {
        match (&shape.kind, value) {
            (Kind::String, Value::String(s)) => self.out.write_str(s)?,
            (Kind::String, Value::Null) => {}
            (Kind::Int32, value) => {
                let number = i32::try_from(integer(value)?).map_err(|_| NoDump)?;
                write!(self.out, "{number}")?;
            }
            (Kind::Int64, value) => write!(self.out, "{}", integer(value)?)?,
            (Kind::Bool, Value::Bool(b)) => write!(self.out, "{b}")?,
            (Kind::Bool, Value::Null) => self.out.write_str("false")?,
            (Kind::IntOrString, value) => self.int_or_string(value)?,
            (Kind::Quantity, Value::String(text)) => self.quantity(text)?,
            (Kind::Quantity, Value::Null) => self.quantity("0")?,
            (Kind::Time, Value::Null) => {
                self.out.write_str("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}")?;
            }
            (Kind::List(_) | Kind::Map(_), Value::Null) => self.out.write_str("<nil>")?,
            (Kind::List(_), Value::Array(items)) if items.is_empty() => self.out.write_str("<nil>")?,
            (Kind::Map(_), Value::Object(entries)) if entries.is_empty() => self.out.write_str("<nil>")?,
            (Kind::List(inner), Value::Array(items)) => {
                self.out.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    self.separate(at)?;
                    self.bare(item, inner)?;
                }
                self.out.write_char(']')?;
            }
            (Kind::Map(inner), Value::Object(entries)) => {
                // By key, whatever order the tree keeps.
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                self.out.write_str("map[")?;
                for (at, (key, value)) in entries.into_iter().enumerate() {
                    self.separate(at)?;
                    write!(self.out, "{key}:")?;
                    self.bare(value, inner)?;
                }
                self.out.write_char(']')?;
            }
            (Kind::Struct(id), value) => self.structure(value, self.table.ty(*id))?,
            _ => return Err(NoDump),
        }
        Ok(())
    }

    /// A struct: its fields in Go's order, those of an embedded struct in braces of their own.
    fn structure(&mut self, value: &Value, ty: &Type) -> Result {
        let empty = serde_json::Map::new();
        let entries = match value {
            Value::Object(entries) => entries,
            Value::Null => &empty,
            _ => return Err(NoDump),
        };
        if entries.iter().any(|(key, value)| !value.is_null() && ty.index(key).is_none()) {
            return Err(NoDump);
        }
        self.out.write_char('{')?;
        let mut embedded = None;
        for (at, field) in ty.fields.iter().enumerate() {
            if embedded.is_some() && embedded != field.inline {
                self.out.write_char('}')?;
            }
            self.separate(at)?;
            if embedded != field.inline
                && let Some(inline) = field.inline
            {
                let go = ty.inlines[inline].go;
                write!(self.out, "{go}:({}.{go}){{", ty.package)?;
            }
            embedded = field.inline;
            self.field(entries.get(field.json).unwrap_or(&Value::Null), field)?;
        }
        if embedded.is_some() {
            self.out.write_char('}')?;
        }
        self.out.write_char('}')?;
        Ok(())
    }

    fn field(&mut self, value: &Value, field: &Field) -> Result {
        write!(self.out, "{}:", field.go)?;
        self.typed(value, &field.shape, field.pointer)
    }

    fn int_or_string(&mut self, value: &Value) -> Result {
        let (kind, number, text) = match value {
            Value::String(text) => (1, 0, text.as_str()),
            value => (0, i32::try_from(integer(value)?).map_err(|_| NoDump)?, ""),
        };
        Ok(write!(self.out, "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}")?)
    }

    fn quantity(&mut self, text: &str) -> Result {
        let quantity = Quantity::parse(text).map_err(|_| NoDump)?;
        let amount = quantity.amount().ok_or(NoDump)?;
        let (value, scale) = match amount {
            Amount::Small { value, scale } => (value, scale),
            Amount::Large { .. } => (0, 0),
        };
        write!(
            self.out,
            "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} d:(resource.infDecAmount){{Dec:(*inf.Dec)"
        )?;
        match amount {
            Amount::Small { .. } => self.out.write_str("<nil>")?,
            Amount::Large { negative, digits, scale } => {
                let words = words(&digits).ok_or(NoDump)?;
                write!(self.out, "{{unscaled:(big.Int){{neg:(bool){negative} abs:(big.nat)[")?;
                for (at, word) in words.iter().enumerate() {
                    self.separate(at)?;
                    write!(self.out, "{word}")?;
                }
                write!(self.out, "]}} scale:(inf.Scale){scale}}}")?;
            }
        }
        let kept = quantity.kept_text().unwrap_or_default();
        Ok(write!(self.out, "}} s:(string){kept} Format:(resource.Format){}}}", quantity.format_name())?)
    }

    fn separate(&mut self, at: usize) -> fmt::Result {
        if at > 0 { self.out.write_char(' ') } else { Ok(()) }
    }
}

fn integer(value: &Value) -> std::result::Result<i64, NoDump> {
    match value {
        Value::Null => Ok(0),
        value => value.as_i64().ok_or(NoDump),
    }
}

/// A decimal number in 64-bit words, lowest first, as Go's `big.Int` holds it. `None` for zero, which
/// Go holds in more than one way.
fn words(digits: &str) -> Option<Vec<u64>> {
    let mut words: Vec<u64> = Vec::new();
    for digit in digits.bytes() {
        let mut carry = u128::from(digit.checked_sub(b'0')?);
        for word in &mut words {
            let product = u128::from(*word) * 10 + carry;
            #[expect(clippy::cast_possible_truncation, reason = "the low word is what stays")]
            {
                *word = product as u64;
            }
            carry = product >> 64;
        }
        if carry > 0 {
            words.push(u64::try_from(carry).ok()?);
        }
    }
    if words.is_empty() { None } else { Some(words) }
}
