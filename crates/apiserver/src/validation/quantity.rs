//! Resource quantities: parsing, comparing, and the canonical text in which they are stored.
//!
//! As apimachinery's `api/resource`: three notations (`500m`, `1Gi`, `1e3`), exact decimal arithmetic,
//! rounding up to nano on the way in, and the text as it was sent where that is (nearly) canonical.

use std::cmp::Ordering;
use std::fmt;

/// A quantity: `mantissa` times ten to the `scale`, and the notation in which it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity {
    mantissa: i128,
    scale: i32,
    notation: Notation,
    /// The text as it was sent, where the reference server keeps it.
    text: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not have the form of a number and a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// Its number is not one.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// Its suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// Digits that fit the reference's fast representation; beyond, a text is never kept.
const FAST_DIGITS: i32 = 18;

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { mantissa: 0, scale: 0, notation: Notation::DecimalSi, text: None };

    /// Reads a quantity.
    ///
    /// # Errors
    /// As [`QuantityError`] says.
    pub fn parse(source: &str) -> Result<Self, QuantityError> {
        let source = source.trim();
        if source.is_empty() {
            return Err(QuantityError::Format);
        }
        let (negative, unsigned) = match source.as_bytes()[0] {
            b'-' => (true, &source[1..]),
            b'+' => (false, &source[1..]),
            _ => (false, source),
        };
        let significant = unsigned.trim_start_matches('0');
        if significant.is_empty() {
            return Ok(Self::ZERO);
        }
        let whole_end = significant.find(|c: char| !c.is_ascii_digit()).unwrap_or(significant.len());
        let (whole, rest) = significant.split_at(whole_end);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
            None => ("", rest),
        };
        let (base, exponent, notation) = read_suffix(suffix)?;
        let whole = if whole.is_empty() { "0" } else { whole };
        if unsigned == "." {
            return Err(QuantityError::Numeric);
        }
        let digits = i32::try_from(whole.len() + fraction.len()).unwrap_or(i32::MAX);
        let fraction_len = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let mut mantissa: i128 = if digits <= 36 {
            let mut n: i128 = 0;
            for c in whole.bytes().chain(fraction.bytes()) {
                n = n * 10 + i128::from(c - b'0');
            }
            n
        } else {
            i128::from(i64::MAX)
        };
        let mut scale = if digits <= 36 { -fraction_len } else { 0 };
        let fast = match notation {
            Notation::BinarySi => fraction.is_empty() && exponent >= 0 && 15 - digits - (exponent * 3 / 10) > 0,
            _ => digits <= FAST_DIGITS && exponent.saturating_sub(fraction_len) >= -9,
        };
        if base == 2 {
            mantissa = mantissa.checked_mul(1_i128 << exponent).unwrap_or(i128::MAX);
        } else {
            scale = scale.saturating_add(exponent);
        }
        let keep = fast
            && match notation {
                Notation::BinarySi => exponent % 10 == 0 && (mantissa >> exponent) & 7 != 0,
                _ => {
                    let all_zero_end = match fraction.len() {
                        0 => whole.ends_with("000"),
                        1 => fraction == "0" && whole.ends_with("00"),
                        2 => fraction == "00" && whole.ends_with('0'),
                        _ => fraction.ends_with("000"),
                    };
                    scale % 3 == 0 && !all_zero_end && !whole.starts_with('0')
                }
            };
        let mut out = Self {
            mantissa: if negative { -mantissa } else { mantissa },
            scale,
            notation,
            text: keep.then(|| source.into()),
        };
        if !fast {
            out.round_up(-9);
            if notation == Notation::BinarySi {
                let max = Self { mantissa: i128::from(i64::MAX), ..Self::ZERO };
                if out.compare(&max) == Ordering::Greater {
                    out.mantissa = max.mantissa;
                    out.scale = 0;
                }
                if out.mantissa > 0 && out.compare(&Self { mantissa: 1, ..Self::ZERO }) == Ordering::Less {
                    out.notation = Notation::DecimalSi;
                }
            }
        }
        Ok(out)
    }

    /// Reads a stored quantity; what cannot be read counts as zero.
    #[must_use]
    pub fn of(source: &str) -> Self {
        Self::parse(source).unwrap_or(Self::ZERO)
    }

    /// Rounds up (away from zero) to thousandths, as defaulting does with resource lists.
    pub fn round_up_to_milli(&mut self) {
        self.round_up(-3);
    }

    /// Rounds away from zero to ten to the `scale`.
    fn round_up(&mut self, scale: i32) {
        if self.scale >= scale {
            return;
        }
        self.text = None;
        while self.scale < scale {
            let rest = self.mantissa % 10;
            self.mantissa /= 10;
            self.scale += 1;
            if rest != 0 {
                // Any digit that is lost, however far down, makes one more of the last that stays.
                self.mantissa = self.mantissa * 10 + rest.signum();
                let factor = 10_i128;
                while self.scale < scale {
                    self.mantissa = ceil_div(self.mantissa, factor);
                    self.scale += 1;
                }
                self.mantissa = ceil_div(self.mantissa, factor);
                return;
            }
        }
    }

    /// Orders by value.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        let scale = self.scale.min(other.scale);
        self.at_scale(scale).cmp(&other.at_scale(scale))
    }

    /// The sum, in the notation of the left side (of the right where the left is zero).
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let scale = self.scale.min(other.scale);
        Self {
            mantissa: self.at_scale(scale).saturating_add(other.at_scale(scale)),
            scale,
            notation: if self.mantissa == 0 { other.notation } else { self.notation },
            text: None,
        }
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(&self) -> i128 {
        self.mantissa.signum()
    }

    /// Whether it has no part below one.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        // Beyond the milli scale the reference rounds up before it looks.
        let mut rounded = self.clone();
        rounded.round_up(-3);
        rounded.scale >= 0 || rounded.mantissa % 10_i128.pow(rounded.scale.unsigned_abs().min(36)) == 0
    }

    /// The value as a whole number, rounded up, at most `i64::MAX`.
    #[must_use]
    pub fn value(&self) -> i64 {
        let mut rounded = self.clone();
        rounded.round_up(0);
        i64::try_from(rounded.at_scale(0)).unwrap_or(if self.mantissa < 0 { i64::MIN } else { i64::MAX })
    }

    fn at_scale(&self, scale: i32) -> i128 {
        let steps = self.scale.saturating_sub(scale).clamp(0, 38).unsigned_abs();
        10_i128.checked_pow(steps).and_then(|f| self.mantissa.checked_mul(f)).unwrap_or(if self.mantissa < 0 {
            i128::MIN
        } else {
            i128::MAX
        })
    }

    /// The whole value where there is no fraction.
    fn exact_integer(&self) -> Option<i128> {
        let mut rounded = self.clone();
        rounded.round_up(0);
        (rounded.compare(self) == Ordering::Equal).then(|| rounded.at_scale(0))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.mantissa == 0 {
            return f.write_str("0");
        }
        if self.notation == Notation::BinarySi
            && let Some(mut whole) = self.exact_integer().filter(|n| n.unsigned_abs() >= 1024)
        {
            let mut step = 0;
            while whole % 1024 == 0 && step < 6 {
                whole /= 1024;
                step += 1;
            }
            return write!(f, "{whole}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step]);
        }
        let (mut mantissa, mut exponent) = (self.mantissa, self.scale);
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        let over = exponent.rem_euclid(3);
        mantissa = mantissa.saturating_mul(10_i128.pow(over.unsigned_abs()));
        exponent -= over;
        write!(f, "{mantissa}")?;
        if self.notation == Notation::DecimalExponent {
            return if exponent == 0 { Ok(()) } else { write!(f, "e{exponent}") };
        }
        f.write_str(match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        })
    }
}

fn read_suffix(suffix: &str) -> Result<(u8, i32, Notation), QuantityError> {
    let si = |exponent| Ok((10, exponent, Notation::DecimalSi));
    let bi = |exponent| Ok((2, exponent, Notation::BinarySi));
    match suffix {
        "" => si(0),
        "n" => si(-9),
        "u" => si(-6),
        "m" => si(-3),
        "k" => si(3),
        "M" => si(6),
        "G" => si(9),
        "T" => si(12),
        "P" => si(15),
        "E" => si(18),
        "Ki" => bi(10),
        "Mi" => bi(20),
        "Gi" => bi(30),
        "Ti" => bi(40),
        "Pi" => bi(50),
        "Ei" => bi(60),
        other => {
            let letters = other.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
            let digits = letters.strip_prefix(['-', '+']).unwrap_or(letters);
            if !digits.bytes().all(|c| c.is_ascii_digit()) {
                return Err(QuantityError::Format);
            }
            let exponent = other.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
            let exponent: i64 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
            let exponent = i32::try_from(exponent.clamp(-100, 100)).unwrap_or_default();
            Ok((10, exponent, Notation::DecimalExponent))
        }
    }
}

/// Division away from zero.
fn ceil_div(n: i128, by: i128) -> i128 {
    let q = n / by;
    if n % by == 0 { q } else { q + n.signum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-16
    #[test]
    fn texts_as_the_reference_stores_them() {
        let cases = [
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("2", "2"),
            ("0", "0"),
            ("00", "0"),
            ("0.5Gi", "512Mi"),
            ("1024Mi", "1Gi"),
            ("1500Mi", "1500Mi"),
            ("524288k", "524288k"),
            ("1G", "1G"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("0.0001", "100u"),
            ("1Ki", "1Ki"),
            ("8Ki", "8Ki"),
            ("1024", "1024"),
            ("100000", "100k"),
            ("1.5", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("-5", "-5"),
            ("+5", "+5"),
            ("0.1Ki", "102400m"),
            ("1E", "1E"),
            ("64Mi", "64Mi"),
        ];
        for (sent, stored) in cases {
            assert_eq!(Quantity::parse(sent).expect(sent).to_string(), stored, "{sent}");
        }
    }

    /// Contract: API-16
    #[test]
    fn resource_lists_are_rounded_up_to_milli() {
        for (sent, stored) in [
            ("0.0001", "1m"),
            ("1n", "1m"),
            ("0.0011", "2m"),
            ("1.0000001", "1001m"),
            ("250m", "250m"),
            ("0.5", "500m"),
        ] {
            let mut quantity = Quantity::parse(sent).expect(sent);
            quantity.round_up_to_milli();
            assert_eq!(quantity.to_string(), stored, "{sent}");
        }
    }

    /// Contract: API-17
    #[test]
    fn comparing_and_adding() {
        let q = Quantity::of;
        assert_eq!(q("1").compare(&q("1000m")), Ordering::Equal);
        assert_eq!(q("1Gi").compare(&q("1G")), Ordering::Greater);
        assert_eq!(q("500m").plus(&q("0.5")).to_string(), "1");
        assert!(q("2").is_integer() && !q("2500m").is_integer() && q("1Ki").is_integer());
        assert_eq!((q("-1").sign(), q("0").sign(), q("1n").sign()), (-1, 0, 1));
        assert_eq!(q("1500m").value(), 2);
    }

    /// Contract: API-06
    #[test]
    fn what_is_no_quantity_is_refused() {
        for (bad, error) in [
            ("", QuantityError::Format),
            ("x", QuantityError::Format),
            ("1x", QuantityError::Format),
            ("1.2.3", QuantityError::Format),
            ("1KK", QuantityError::Suffix),
            ("1ki", QuantityError::Suffix),
        ] {
            assert_eq!(Quantity::parse(bad), Err(error), "{bad}");
        }
        // Nothing that arrives may panic.
        for odd in [
            "9".repeat(60),
            "1e99999999999".into(),
            "1e100".into(),
            "-9e99".into(),
            format!("0.{}1", "0".repeat(50)),
            "99999999999Ei".into(),
        ] {
            if let Ok(q) = Quantity::parse(&odd) {
                let _ = (q.to_string(), q.compare(&Quantity::of("1")), q.value(), q.is_integer());
            }
        }
    }
}
