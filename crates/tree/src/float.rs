//! Floats as Go writes them: the fewest digits that say which number it is, and an exponent where it is large or small.

use std::ops::Range;

/// As `%v` and YAML have it.
#[must_use]
pub fn shown(number: f64) -> String {
    written(number, 1e-4..1e6, 2)
}

/// As `encoding/json` has it.
#[must_use]
pub fn json(number: f64) -> String {
    written(number, 1e-6..1e21, 1)
}

/// Sizes within `plain` have no exponent; one has at least so many digits.
fn written(number: f64, plain: Range<f64>, digits: usize) -> String {
    if !number.is_finite() {
        let text = if number > 0.0 { "+Inf" } else { "-Inf" };
        return if number.is_nan() { "NaN" } else { text }.to_owned();
    }
    if number == 0.0 || plain.contains(&number.abs()) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-29
    #[test]
    fn floats_are_written_as_go_writes_them() {
        for (number, as_shown, as_json) in [
            (1.0, "1", "1"),
            (1.5, "1.5", "1.5"),
            (123_456.5, "123456.5", "123456.5"),
            (1_234_567.5, "1.2345675e+06", "1234567.5"),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (-1.25e23, "-1.25e+23", "-1.25e+23"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "0.00001"),
            (1e-7, "1e-07", "1e-7"),
            (1.5e-10, "1.5e-10", "1.5e-10"),
        ] {
            assert_eq!((shown(number).as_str(), json(number).as_str()), (as_shown, as_json));
        }
        assert_eq!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(shown), ["NaN", "+Inf", "-Inf"]);
    }
}
