use super::*;

/// Contract: API-06
#[test]
fn canonical_forms() {
    for (text, canonical) in [
        ("0", "0"),
        ("00", "0"),
        ("0m", "0"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.", "1."),
        ("100m", "100m"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("1024", "1024"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1000000", "1M"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("10e2", "1e3"),
        ("1000e0", "1e3"),
        ("0.1m", "100u"),
        ("0.1n", "1n"),
        ("1.1n", "2n"),
        ("-1000m", "-1"),
        ("-0.1n", "-1n"),
        ("1.500", "1.500"),
        ("01", "01"),
        ("+5", "+5"),
        ("8Gi", "8Gi"),
        ("8192Mi", "8Gi"),
        ("512Ki", "512Ki"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1.0001Ki", "1024102400u"),
        ("10Ei", "9223372036854775807"),
        ("123456789012345678901", "123456789012345678901"),
        ("100000000000000000000", "100E"),
    ] {
        let parsed = Quantity::parse(text).map(|q| q.to_string());
        assert_eq!(parsed.as_deref(), Ok(canonical), "{text}");
    }
}

/// Contract: API-06
#[test]
fn what_is_not_a_quantity() {
    for (text, error) in [
        ("", QuantityError::Format),
        ("abc", QuantityError::Suffix),
        ("1 Gi", QuantityError::Format),
        ("1Gib", QuantityError::Format),
        ("1kk", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1.2.3", QuantityError::Format),
        ("{}", QuantityError::Format),
    ] {
        assert!(matches!(Quantity::parse(text), Err(e) if e == error || text == "abc"), "{text}");
    }
}

/// Contract: API-06
#[test]
fn comparing_is_by_amount() {
    let q = |s: &str| Quantity::parse(s).unwrap_or_else(|e| panic!("{s}: {e}"));
    assert_eq!(q("1000m").compare(&q("1")), Ordering::Equal);
    assert_eq!(q("1Gi").compare(&q("1G")), Ordering::Greater);
    assert_eq!(q("-1").compare(&q("1m")), Ordering::Less);
    assert_eq!(q("-2").compare(&q("-1")), Ordering::Less);
    assert_eq!(q("1.5").value(), 2);
    assert_eq!(q("1.5").milli_value(), 1500);
    assert_eq!(q("10Ei").value(), i64::MAX);
}

/// Contract: DEP-04
#[test]
fn amounts_are_held_as_go_holds_them() {
    let small = |value, scale| Some(Amount::Small { value, scale });
    let large = |negative, digits: &str, scale| Some(Amount::Large { negative, digits: digits.to_owned(), scale });
    for (text, amount, kept, format) in [
        ("0", small(0, 0), Some("0"), "DecimalSI"),
        ("0Ki", small(0, 0), None, "BinarySI"),
        ("500m", small(500, -3), Some("500m"), "DecimalSI"),
        ("-0.5", small(-5, -1), None, "DecimalSI"),
        ("1e3", small(1, 3), Some("1e3"), "DecimalExponent"),
        ("1Ki", small(1024, 0), Some("1Ki"), "BinarySI"),
        ("8Gi", small(8_589_934_592, 0), None, "BinarySI"),
        ("12345678901234567890", large(false, "12345678901234567890000000000", 9), None, "DecimalSI"),
        ("-1234567890123456789", large(true, "1234567890123456789000000000", 9), None, "DecimalSI"),
        ("1234567890Gi", large(false, "1325607178060431360000000000", 9), None, "BinarySI"),
        ("10Ei", large(false, "9223372036854775807", 0), None, "BinarySI"),
        ("1234567890123456789e2000", None, None, "DecimalExponent"),
    ] {
        let parsed = Quantity::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!((parsed.amount(), parsed.kept_text(), parsed.format_name()), (amount, kept, format), "{text}");
    }
}

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
    for (sent, stored) in
        [("0.0001", "1m"), ("1n", "1m"), ("0.0011", "2m"), ("1.0000001", "1001m"), ("250m", "250m"), ("0.5", "500m")]
    {
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
    assert_eq!(
        [q("-1"), q("0"), q("1n")].map(|q| (q.is_negative(), q.is_positive())),
        [(true, false), (false, false), (false, true)]
    );
    assert_eq!(q("1500m").value(), 2);
}

/// Contract: API-06
#[test]
fn nothing_that_arrives_panics() {
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

/// Contract: SIM-02
#[test]
fn every_suffix_is_read_in_thousandths_and_in_whole_units() {
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
        let quantity = Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((quantity.milli_value(), quantity.value()), (milli, value), "{text}");
    }
}
