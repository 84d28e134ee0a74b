//! A message as the sequence of its fields. What is not asked for costs the reading of its length.

use crate::meta::ResourceVersionError;

/// The fields of one message, in the order in which they were written. Nothing is copied or allocated.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its number in the `.proto` file.
    pub number: u32,
    value: Value<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes: a float, which nothing that is read here is.
    Fixed,
}

/// Why bytes are not the message that they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes do not begin as Kubernetes' protobuf does.
    #[error("the body does not begin with the magic bytes of Kubernetes' protobuf")]
    Magic,
    /// The bytes end too early.
    #[error("the message ends in the middle of a field")]
    CutOff,
    /// A number does not fit into 64 bits.
    #[error("a number is longer than 64 bits")]
    Overlong,
    /// A tag that no `.proto` file can give.
    #[error("{0} is no tag of a field")]
    Tag(u64),
    /// A field has another type.
    #[error("field {field} is not {expected}")]
    Type {
        /// Its number.
        field: u32,
        /// What it should be.
        expected: &'static str,
    },
    /// A version that cannot be compared.
    #[error(transparent)]
    ResourceVersion(#[from] ResourceVersionError),
    /// A bookmark without a version.
    #[error("no resourceVersion")]
    NoResourceVersion,
    /// A watch event of a type that Kubernetes does not have.
    #[error("unknown event type {0:?}")]
    EventType(Box<str>),
}

impl<'a> Fields<'a> {
    /// The fields of `message`.
    #[must_use]
    pub const fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    #[inline]
    fn field(&mut self) -> Result<Field<'a>, Malformed> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(Malformed::Tag(tag))?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed::CutOff)?;
                Value::Bytes(self.take(length)?)
            }
            1 => self.take(8).map(|_| Value::Fixed)?,
            5 => self.take(4).map(|_| Value::Fixed)?,
            // Groups, which Kubernetes has none of, and what is nothing at all.
            _ => return Err(Malformed::Tag(tag)),
        };
        Ok(Field { number, value })
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        // Nearly every tag and length is one byte.
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (at, byte) in self.rest.iter().enumerate() {
            let part = u64::from(byte & 0x7f);
            // The tenth byte holds the last bit.
            if at == 9 && *byte > 1 {
                return Err(Malformed::Overlong);
            }
            value |= part << (7 * at);
            if *byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(Malformed::CutOff)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::CutOff)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The fields of an object's metadata, which every object has in its first field.
    pub fn of_metadata(object: &'a [u8]) -> impl Iterator<Item = Result<Field<'a>, Malformed>> {
        let metadata = Self::of(object).filter(|field| !field.as_ref().is_ok_and(|field| field.number != 1));
        metadata.flat_map(|field| {
            let (fields, error) = match field.and_then(|field| field.bytes()) {
                Ok(message) => (Some(Self::of(message)), None),
                Err(error) => (None, Some(Err(error))),
            };
            fields.into_iter().flatten().chain(error)
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    /// The next field. After an error there is none.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Field<'a> {
    /// Its bytes: a message, a text or plain bytes.
    ///
    /// # Errors
    ///
    /// Where it is a number.
    #[inline]
    pub fn bytes(&self) -> Result<&'a [u8], Malformed> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Number(_) | Value::Fixed => Err(self.is_not("a text or a message")),
        }
    }

    /// Its text.
    ///
    /// # Errors
    ///
    /// Where it is a number, or not UTF-8.
    #[inline]
    pub fn text(&self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.is_not("UTF-8"))
    }

    /// Its number, of an `int64`.
    ///
    /// # Errors
    ///
    /// Where it is no whole number.
    #[inline]
    pub fn int64(&self) -> Result<i64, Malformed> {
        match self.value {
            Value::Number(number) => Ok(number.cast_signed()),
            Value::Bytes(_) | Value::Fixed => Err(self.is_not("a whole number")),
        }
    }

    /// Its number, of an `int32`.
    ///
    /// # Errors
    ///
    /// Where it is no whole number of 32 bits.
    #[inline]
    pub fn int32(&self) -> Result<i32, Malformed> {
        i32::try_from(self.int64()?).map_err(|_| self.is_not("a whole number of 32 bits"))
    }

    /// Whether it is true.
    ///
    /// # Errors
    ///
    /// Where it is no whole number, as which truth is written.
    #[inline]
    pub fn truth(&self) -> Result<bool, Malformed> {
        self.int64().map(|number| number != 0)
    }

    const fn is_not(&self, expected: &'static str) -> Malformed {
        Malformed::Type { field: self.number, expected }
    }
}
