//! Quantities: fixed-point numbers with a suffix, such as `500m`, `1Gi` and `12e6`.
//!
//! Parsing, rounding and the canonical form are those of apimachinery's `api/resource`, down to its
//! habit of keeping the text of a number that it takes for canonical already. (Contract: API-06.)

use std::cmp::Ordering;
use std::fmt;

/// The largest number of decimal digits that are always exact in 64 bits.
const EXACT_DIGITS: i64 = 18;
/// The finest amount that a quantity holds: anything smaller is rounded away from zero.
const NANO: i64 = -9;
/// What amounts in resource lists are rounded to.
const MILLI: i64 = -3;

/// A parsed quantity. The default is zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quantity {
    negative: bool,
    /// Decimal digits without leading zeros; empty for zero.
    digits: String,
    /// The power of ten that the digits are multiplied by.
    exponent: i64,
    format: Format,
    /// Whether Go holds it as a number without bounds instead of 64 bits and a power of ten.
    large: bool,
    /// The text that it was parsed from, where that is kept as it is.
    text: Option<String>,
}

/// An amount in the parts in which Go holds it, which is of use only to who must print them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amount {
    /// `value` times ten to the `scale`.
    Small {
        /// The number.
        value: i64,
        /// The power of ten.
        scale: i64,
    },
    /// `digits` divided by ten to the `scale`.
    Large {
        /// Whether it is less than zero.
        negative: bool,
        /// The number, in decimal, without leading zeros.
        digits: String,
        /// How many decimal places the number has.
        scale: i64,
    },
}

/// How a quantity writes its suffix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Format {
    /// `12M`
    #[default]
    DecimalSi,
    /// `12Mi`
    BinarySi,
    /// `12e6`
    DecimalExponent,
}

/// What is wrong with a text that should be a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not look like a quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// Its number is not one.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// Its suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The parts of a quantity's text.
struct Parts<'a> {
    positive: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    /// Whether there is a digit before the suffix: where there is none, only small numbers pass.
    numeric: bool,
}

impl Quantity {
    /// Parses a quantity. White space is not taken off.
    ///
    /// # Errors
    ///
    /// As apimachinery's `ParseQuantity`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        if text == "0" {
            return Ok(Self { text: Some(text.to_owned()), ..Self::default() });
        }
        let parts = split(text)?;
        let (binary, exponent, mut format) = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
        let (whole_len, fraction_len) = (len(parts.whole), len(parts.fraction));
        let all = format!("{}{}", parts.whole, parts.fraction);
        if binary {
            if parts.fraction.is_empty() {
                // What 64 bits surely hold is taken as it is.
                #[expect(clippy::cast_possible_truncation, reason = "an exponent is at most 60")]
                let room = 15 - whole_len - (exponent as f32 * 3.0 / 10.0) as i64 - 1;
                let number = if room >= 0 { parts.whole.parse::<i64>().ok() } else { None };
                if let Some((value, product)) = number.and_then(|v| Some((v, v.checked_mul(1i64 << exponent)?))) {
                    let text = (value & 7 != 0).then(|| text.to_owned());
                    let digits = if product == 0 { String::new() } else { product.to_string() };
                    return Ok(Self { negative: !parts.positive, digits, exponent: 0, format, large: false, text });
                }
            }
            if !parts.numeric {
                return Err(QuantityError::Numeric);
            }
            let (digits, exponent) = binary_product(parts.whole, parts.fraction, exponent);
            let mut out = Self { negative: !parts.positive, digits, exponent, format, large: true, text: None };
            if !out.is_zero() && out.magnitude_cmp_one() == Ordering::Less {
                out.format = Format::DecimalSi;
            }
            return Ok(out);
        }
        let scale = exponent - fraction_len;
        let digits = all.trim_start_matches('0').to_owned();
        if EXACT_DIGITS - whole_len - fraction_len >= 0 && scale >= NANO {
            let canonical = scale % 3 == 0 && !all.ends_with("000") && !all.starts_with('0');
            let text = canonical.then(|| text.to_owned());
            return Ok(Self { negative: !parts.positive, digits, exponent: scale, format, large: false, text });
        }
        if !parts.numeric {
            return Err(QuantityError::Numeric);
        }
        let (digits, exponent) = round_up(digits, scale, NANO);
        if digits.is_empty() {
            format = Format::DecimalSi;
        }
        Ok(Self { negative: !parts.positive, digits, exponent, format, large: true, text: None })
    }

    /// Reads a stored quantity; what cannot be read counts as zero.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::parse(text).unwrap_or_default()
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Whether it is less than zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.negative && !self.is_zero()
    }

    /// Whether it is more than zero.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        !self.negative && !self.is_zero()
    }

    /// Whether it has no part below one, after it was rounded away from zero to thousandths.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        let mut rounded = self.clone();
        rounded.round_up_to_milli();
        let zeros = rounded.digits.len() - rounded.digits.trim_end_matches('0').len();
        rounded.is_zero() || rounded.exponent + i64::try_from(zeros).unwrap_or(i64::MAX) >= 0
    }

    /// Rounds away from zero to thousandths, as defaulting does with resource lists.
    pub fn round_up_to_milli(&mut self) {
        if self.exponent < MILLI {
            self.text = None;
            (self.digits, self.exponent) = round_up(std::mem::take(&mut self.digits), self.exponent, MILLI);
        }
    }

    /// The sum, written as the left side is, or as the right where the left is zero. Sums that 128 bits do not hold
    /// at the finer of the two scales are the larger amount alone.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        let format = if self.is_zero() { other.format } else { self.format };
        let sum = self.units(exponent).zip(other.units(exponent)).and_then(|(one, two)| one.checked_add(two));
        let Some(sum) = sum else {
            let larger = if self.compare(other).is_lt() { other } else { self };
            return Self { format, text: None, ..larger.clone() };
        };
        let digits = if sum == 0 { String::new() } else { sum.unsigned_abs().to_string() };
        let large = self.large || other.large || len(&digits) > EXACT_DIGITS;
        Self { negative: sum < 0, digits, exponent, format, large, text: None }
    }

    /// The same amount, less than zero where this is more.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self { negative: !self.negative && !self.is_zero(), text: None, ..self.clone() }
    }

    /// The amount in units of 10^-9, where 128 bits hold it.
    #[must_use]
    pub fn nanos(&self) -> Option<i128> {
        self.units(NANO)
    }

    /// The amount in units of ten to the `exponent`, which is no coarser than its own.
    fn units(&self, exponent: i64) -> Option<i128> {
        if self.is_zero() {
            return Some(0);
        }
        let zeros = u32::try_from(self.exponent - exponent).ok()?;
        let magnitude = self.digits.parse::<i128>().ok()?.checked_mul(10i128.checked_pow(zeros)?)?;
        Some(if self.negative { -magnitude } else { magnitude })
    }

    /// The amount in whole units, rounded away from zero; `i64::MAX` and `MIN` where it is beyond them.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled(1_000_000_000)
    }

    /// The amount in thousandths, rounded away from zero; `i64::MAX` and `MIN` where it is beyond them.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled(1_000_000)
    }

    fn scaled(&self, nanos_each: i128) -> i64 {
        let beyond = if self.negative { i64::MIN } else { i64::MAX };
        let Some(nanos) = self.nanos() else { return beyond };
        let (whole, rest) = (nanos / nanos_each, nanos % nanos_each);
        i64::try_from(whole + rest.signum()).unwrap_or(beyond)
    }

    /// The amount as Go holds it. `None` for a number of thousands of digits.
    #[must_use]
    pub fn amount(&self) -> Option<Amount> {
        /// More than anything that is stored has: the largest that is written without an exponent has 21.
        const MOST_DIGITS: i64 = 2000;
        if !self.large {
            let magnitude = if self.is_zero() { 0 } else { self.digits.parse::<i64>().ok()? };
            return Some(Amount::Small {
                value: if self.negative { -magnitude } else { magnitude },
                scale: self.exponent,
            });
        }
        let capped = self.format == Format::BinarySi && self.exponent == 0 && self.digits == i64::MAX.to_string();
        if capped {
            // Go puts the limit in place of the number, after it has given that its decimal places.
            return Some(Amount::Large { negative: self.negative, digits: self.digits.clone(), scale: 0 });
        }
        let zeros = self.exponent - NANO;
        if len(&self.digits) + zeros > MOST_DIGITS {
            return None;
        }
        let mut digits = self.digits.clone();
        digits.extend((0..zeros).map(|_| '0'));
        Some(Amount::Large { negative: self.is_negative(), digits, scale: -NANO })
    }

    /// The amount as digits and a power of ten: one text for each amount, however it is written.
    #[must_use]
    pub fn amount_text(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let digits = self.digits.trim_end_matches('0');
        let exponent = self.exponent + len(&self.digits) - len(digits);
        format!("{}{digits}e{exponent}", if self.negative { "-" } else { "" })
    }

    /// The text that it was parsed from, where Go keeps that instead of writing the canonical form.
    #[must_use]
    pub fn kept_text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// What Go calls the way it is written: `DecimalSI`, `BinarySI` or `DecimalExponent`.
    #[must_use]
    pub fn format_name(&self) -> &'static str {
        match self.format {
            Format::DecimalSi => "DecimalSI",
            Format::BinarySi => "BinarySI",
            Format::DecimalExponent => "DecimalExponent",
        }
    }

    fn magnitude_cmp_one(&self) -> Ordering {
        (len(&self.digits) + self.exponent).cmp(&1).then_with(|| {
            // As many places as one has: equal only to a one and zeros.
            if self.digits.trim_end_matches('0') == "1" { Ordering::Equal } else { Ordering::Greater }
        })
    }

    /// The canonical number and suffix.
    fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let sign = if self.negative { "-" } else { "" };
        if self.format == Format::BinarySi
            && let Some(nanos) = self.nanos().map(i128::abs)
        {
            let (mut whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
            if whole >= 1024 && rest == 0 {
                let mut suffix = 0;
                while whole >= 1024 && whole % 1024 == 0 && suffix + 1 < BINARY.len() {
                    whole /= 1024;
                    suffix += 1;
                }
                return format!("{sign}{whole}{}", BINARY[suffix]);
            }
        }
        let mut digits = self.digits.trim_end_matches('0').to_owned();
        let mut exponent = self.exponent + len(&self.digits) - len(&digits);
        while exponent % 3 != 0 {
            digits.push('0');
            exponent -= 1;
        }
        let suffix = if self.format == Format::DecimalExponent {
            if exponent == 0 { String::new() } else { format!("e{exponent}") }
        } else {
            DECIMAL.iter().find(|(_, e)| *e == exponent).map(|(s, _)| (*s).to_owned()).unwrap_or_default()
        };
        format!("{sign}{digits}{suffix}")
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.compare(other))
    }
}

impl Quantity {
    /// Compares amounts, whatever they are written with.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self.is_negative(), other.is_negative()) {
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            _ => {}
        }
        let magnitude = match (self.is_zero(), other.is_zero()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => {
                let places = |q: &Self| len(&q.digits) + q.exponent;
                places(self)
                    .cmp(&places(other))
                    .then_with(|| self.digits.trim_end_matches('0').cmp(other.digits.trim_end_matches('0')))
            }
        };
        if self.is_negative() { magnitude.reverse() } else { magnitude }
    }
}

const BINARY: &[&str] = &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: &[(&str, i64)] =
    &[("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

fn len(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

/// A suffix as (binary, exponent, format).
fn interpret(suffix: &str) -> Option<(bool, i64, Format)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some((false, *exponent, Format::DecimalSi));
    }
    if let Some(at) = BINARY.iter().position(|s| *s == suffix) {
        return Some((true, i64::try_from(at).ok()? * 10, Format::BinarySi));
    }
    let digits = suffix.strip_prefix(['e', 'E'])?;
    if digits.is_empty() {
        return None;
    }
    // Go cuts the exponent to 32 bits.
    let exponent: i64 = digits.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
    let exponent = i64::from(exponent as i32);
    Some((false, exponent, Format::DecimalExponent))
}

/// Takes a quantity's text apart.
fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let (positive, rest) = match text.as_bytes().first() {
        Some(b'-') => (false, &text[1..]),
        Some(b'+') => (true, &text[1..]),
        _ => (true, text),
    };
    let rest = rest.trim_start_matches('0');
    let digits = |s: &str| s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    if rest.is_empty() {
        return Ok(Parts { positive, whole: "0", fraction: "", suffix: "", numeric: text.ends_with('0') });
    }
    let (whole, rest) = rest.split_at(digits(rest));
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let letters = suffix.find(|c: char| !"eEinumkKMGTP".contains(c)).unwrap_or(suffix.len());
    let tail = &suffix[letters..];
    let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
    if tail.chars().all(|c| c.is_ascii_digit()) {
        let numeric = text[..text.len() - suffix.len()].contains(|c: char| c.is_ascii_digit());
        Ok(Parts { positive, whole, fraction, suffix, numeric })
    } else {
        Err(QuantityError::Format)
    }
}

/// Cuts what is finer than ten to the `finest`, away from zero.
fn round_up(mut digits: String, exponent: i64, finest: i64) -> (String, i64) {
    if exponent >= finest || digits.is_empty() {
        return (digits, exponent);
    }
    let cut = usize::try_from(finest - exponent).unwrap_or(usize::MAX);
    if cut >= digits.len() {
        return ("1".to_owned(), finest);
    }
    let lost = digits.split_off(digits.len() - cut);
    if lost.bytes().any(|b| b != b'0') {
        digits = increment(&digits);
    }
    (digits, finest)
}

fn increment(digits: &str) -> String {
    let mut out: Vec<u8> = digits.bytes().rev().collect();
    for digit in &mut out {
        if *digit == b'9' {
            *digit = b'0';
        } else {
            *digit += 1;
            return out.iter().rev().map(|b| char::from(*b)).collect();
        }
    }
    out.push(b'1');
    out.iter().rev().map(|b| char::from(*b)).collect()
}

/// `whole.fraction` times two to the `power`, to the nano, and at most what 64 bits hold.
fn binary_product(whole: &str, fraction: &str, power: i64) -> (String, i64) {
    /// Digits of a fraction beyond these only say that it is not exact.
    const PLACES: usize = 80;
    let largest = i64::MAX.to_string();
    let whole = whole.trim_start_matches('0');
    if whole.len() > largest.len() {
        return (largest, 0);
    }
    let (kept, lost) = fraction.split_at(fraction.len().min(PLACES));
    let mut number: Vec<u8> = whole.bytes().chain(kept.bytes()).map(|b| b - b'0').collect();
    for _ in 0..power {
        let mut carry = 0;
        for digit in number.iter_mut().rev() {
            let doubled = *digit * 2 + carry;
            *digit = doubled % 10;
            carry = doubled / 10;
        }
        if carry > 0 {
            number.insert(0, carry);
        }
    }
    let mut digits: String = number.iter().map(|d| char::from(b'0' + d)).collect();
    digits = digits.trim_start_matches('0').to_owned();
    let mut exponent = -len(kept);
    if lost.bytes().any(|b| b != b'0') {
        // Something below the last place: enough that rounding sees it.
        digits.push('1');
        exponent -= 1;
    }
    let (digits, exponent) = round_up(digits, exponent, NANO);
    let zeros = usize::try_from(-exponent).unwrap_or(0);
    let whole = &digits[..digits.len().saturating_sub(zeros)];
    let beyond = whole.len() > largest.len() || (whole.len() == largest.len() && whole >= largest.as_str());
    if beyond { (largest, 0) } else { (digits, exponent) }
}

#[cfg(test)]
mod tests;
