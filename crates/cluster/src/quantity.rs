//! Resource quantities as Kubernetes spells them (`250m`, `1.5Gi`, `2e3`), read into whole units.

/// An amount of a resource, in billionths of its unit, which holds every quantity the API accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// Reads a quantity. `None` for what the API server would have refused.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits_end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits_end);
        let (negative, number) = match number.as_bytes().first()? {
            b'-' => (true, &number[1..]),
            b'+' => (false, &number[1..]),
            _ => (false, number),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let scale = Scale::of(suffix)?;
        let mut mantissa: i128 = 0;
        let mut decimals: u32 = 0;
        let mut lost = false;
        for (at, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
            let digit = i128::from(char::from(digit).to_digit(10)?);
            // Beyond 24 digits nothing that a machine could have is left.
            if mantissa > 10_i128.pow(24) {
                if at < whole.len() {
                    return Some(Self(if negative { i128::MIN } else { i128::MAX }));
                }
                lost |= digit != 0;
                continue;
            }
            mantissa = mantissa * 10 + digit;
            decimals += u32::from(at >= whole.len());
        }
        let nanos = scale.apply(mantissa, decimals, lost);
        Some(Self(if negative { -nanos } else { nanos }))
    }

    /// In thousandths of the unit, rounded up: how cpu is counted.
    #[must_use]
    pub fn milli(self) -> i64 {
        saturate(ceil_div(self.0, NANO / 1000))
    }

    /// In whole units, rounded up: how bytes and counts are counted.
    #[must_use]
    pub fn value(self) -> i64 {
        saturate(ceil_div(self.0, NANO))
    }
}

/// What a suffix multiplies by: a power of ten (in nanos) or of two.
enum Scale {
    Ten(i32),
    Two(u32),
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "n" => Self::Ten(0),
            "u" => Self::Ten(3),
            "m" => Self::Ten(6),
            "" => Self::Ten(9),
            "k" => Self::Ten(12),
            "M" => Self::Ten(15),
            "G" => Self::Ten(18),
            "T" => Self::Ten(21),
            "P" => Self::Ten(24),
            "E" => Self::Ten(27),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            _ => {
                let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
                Self::Ten(exponent.clamp(-100, 100) + 9)
            }
        })
    }

    /// The nanos of `mantissa * 10^-decimals`, rounded up, saturating.
    fn apply(&self, mantissa: i128, decimals: u32, lost: bool) -> i128 {
        let (factor, tens) = match self {
            Self::Ten(power) => (1, *power),
            Self::Two(power) => (1_i128 << power, 9),
        };
        let Some(scaled) = mantissa.checked_mul(factor) else { return i128::MAX };
        let tens = tens - decimals.cast_signed();
        let exact = if tens >= 0 {
            10_i128.checked_pow(tens.unsigned_abs()).and_then(|power| scaled.checked_mul(power)).unwrap_or(i128::MAX)
        } else {
            match 10_i128.checked_pow(tens.unsigned_abs()) {
                Some(power) => ceil_div(scaled, power),
                None => i128::from(scaled > 0),
            }
        };
        exact.saturating_add(i128::from(lost))
    }
}

fn ceil_div(value: i128, by: i128) -> i128 {
    value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0)
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: SIM-02
    #[test]
    fn quantities_of_every_suffix_are_read() {
        for (text, milli, value) in [
            ("0", 0, 0),
            ("1", 1000, 1),
            ("250m", 250, 1),
            ("0.1", 100, 1),
            (".5", 500, 1),
            ("1.", 1000, 1),
            ("1n", 1, 1),
            ("100u", 1, 1),
            ("2k", 2_000_000, 2000),
            ("1Ki", 1_024_000, 1024),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("1e3", 1_000_000, 1000),
            ("1E3", 1_000_000, 1000),
            ("12e-1", 1200, 2),
            ("-1", -1000, -1),
            ("+2", 2000, 2),
            ("8E", i64::MAX, 8_000_000_000_000_000_000),
            ("9999999999999999999999999999999999999999", i64::MAX, i64::MAX),
            ("0.0000000000000000000000000001", 1, 1),
        ] {
            let quantity = Quantity::parse(text).unwrap_or_else(|| panic!("{text} is a quantity"));
            assert_eq!((quantity.milli(), quantity.value()), (milli, value), "{text}");
        }
    }

    /// Contract: SIM-02
    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "m", "1x", "1 Gi", "1..2", "--1", "e3", "1ee3", "1e", "Gi", "ten"] {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
        }
    }
}
