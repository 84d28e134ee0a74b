//! What a kube-apiserver answered of formats, conversions and constants.

use super::*;

/// Contract: API-30
#[test]
fn texts_are_formatted_as_by_cel_go() {
    for (text, expected) in [
        (r#""%f".format([1234.5])"#, "1,234.500000"),
        (r#""%.2f".format([1234567.891])"#, "1,234,567.89"),
        (r#""%.0f".format([0.5])"#, "0"),
        (r#""%.0f".format([2.5])"#, "2"),
        (r#""%f".format([-1234567.5])"#, "-1,234,567.500000"),
        (r#""%f".format([double("NaN")])"#, "NaN"),
        (r#""%f".format([double("Infinity")])"#, "∞"),
        (r#""%f".format([-double("Infinity")])"#, "-∞"),
        (r#""%f".format(["NaN"])"#, "NaN"),
        (r#""%f".format(["-Infinity"])"#, "-∞"),
        (r#""%e".format([1234.5])"#, "1.234500×10⁰³"),
        (r#""%.2e".format([1234.5])"#, "1.234500×10⁰³"),
        (r#""%.12e".format([1234.5])"#, "1.234500×10⁰³"),
        (r#""%.30e".format([1234.5])"#, "1.234500×10⁰³"),
        (r#""%e".format([0.0])"#, "0.000000×10⁰⁰"),
        (r#""%e".format([-0.00012345])"#, "-1.234500×10⁻⁰⁴"),
        (r#""%e".format([1e-300])"#, "1.000000×10⁻³⁰⁰"),
        (r#""%e".format([1e300])"#, "1.000000×10³⁰⁰"),
        (r#""%e".format([double("NaN")])"#, "NaN"),
        (r#""%e".format([double("Infinity")])"#, "∞"),
        (r#""%e".format(["Infinity"])"#, "∞"),
        (r#""%.3f".format([0.0])"#, "0.000"),
        (r#""%.3f".format([-0.0])"#, "0.000"),
        (r#""%.20f".format([0.1])"#, "0.10000000000000000555"),
        (r#""%f".format([1e22])"#, "10,000,000,000,000,000,000,000.000000"),
        (r#""%f".format([123456789012345680.0])"#, "123,456,789,012,345,680.000000"),
        (r#""%.1f".format([999.95])"#, "1,000.0"),
        (r#""%.1f".format([0.25])"#, "0.2"),
        (r#""%.1f".format([0.35])"#, "0.3"),
        (r#""%s".format([1234.5])"#, "1234.5"),
        (r#""%s".format([1e22])"#, "1e+22"),
        (r#""%s".format([1e-7])"#, "1e-07"),
        (r#""%s".format([1.0])"#, "1"),
        (r#""%s".format([double("NaN")])"#, "NaN"),
        (
            r#""%s".format([[double("NaN"), double("Infinity"), 1.5, 1e22]])"#,
            r#"["NaN", "+Inf", 1.500000, 10000000000000000000000.000000]"#,
        ),
        (r#""%s".format([[1,2]])"#, "[1, 2]"),
        (r#""%s".format([["a","b\"c"]])"#, r#"["a", "b\"c"]"#),
        (r#""%s".format([[b"abc"]])"#, r#"[b"abc"]"#),
        (r#""%s".format([b"abc"])"#, "abc"),
        (r#""%s".format([{"a":1}])"#, r#"{"a":1}"#),
        (r#""%s".format([{"b":1,"a":2}])"#, r#"{"a":2, "b":1}"#),
        (r#""%s".format([{1:"x",2:"y"}])"#, r#"{1:"x", 2:"y"}"#),
        (r#""%s".format([{true:"x"}])"#, r#"{true:"x"}"#),
        (r#""%s".format([{"a":{"b":[1,2.5]}}])"#, r#"{"a":{"b":[1, 2.500000]}}"#),
        (r#""%s".format([type(1)])"#, "int"),
        (r#""%s".format([[type(1)]])"#, "[int]"),
        (r#""%s".format([null])"#, "null"),
        (r#""%s".format([[null]])"#, "[null]"),
        (r#""%s".format([[true,false]])"#, "[true, false]"),
        (r#""%s".format([timestamp("2020-01-01T00:00:00Z")])"#, "2020-01-01T00:00:00Z"),
        (r#""%s".format([[timestamp("2020-01-01T00:00:00Z")]])"#, r#"[timestamp("2020-01-01T00:00:00Z")]"#),
        (r#""%s".format([duration("1h1m")])"#, "3660s"),
        (r#""%s".format([[duration("1.5s")]])"#, r#"[duration("1.5s")]"#),
        (r#""%d".format([1])"#, "1"),
        (r#""%d".format([1234567])"#, "1234567"),
        (r#""%d".format([1u])"#, "1"),
        (r#""%.3d".format([5])"#, "5"),
        (r#""%.3s".format(["abcdef"])"#, "abcdef"),
        (r#""%x".format([255])"#, "ff"),
        (r#""%X".format([255])"#, "FF"),
        (r#""%x".format([-255])"#, "-ff"),
        (r#""%x".format(["hello"])"#, "68656c6c6f"),
        (r#""%X".format(["hello"])"#, "68656C6C6F"),
        (r#""%X".format([b"hello"])"#, "68656C6C6F"),
        (r#""%o".format([-8])"#, "-10"),
        (r#""%o".format([8u])"#, "10"),
        (r#""%b".format([5])"#, "101"),
        (r#""%b".format([-5])"#, "-101"),
        (r#""%b".format([true])"#, "1"),
        (r#""%%".format([])"#, "%"),
        (r#""%% %s".format(["a"])"#, "% a"),
        (r#""%.300f".format([1.5])"#, "1.50000000000000000000000000000000000000000000"),
        (r#""%s é %s".format(["ü","日本"])"#, "ü é 日本"),
        (r#""%s".format(dyn([1]))"#, "1"),
        (r#""%q".format(dyn([1]))"#, r#"could not parse formatting clause: unrecognized formatting clause "q""#),
        (r#""%s %s".format(dyn([1]))"#, "index 1 out of range"),
        (
            r#""%f".format(dyn([1]))"#,
            "error during formatting: fixed-point clause can only be used on doubles, was given int",
        ),
        (
            r#""%e".format(dyn([true]))"#,
            "error during formatting: scientific clause can only be used on doubles, was given bool",
        ),
        (
            r#""%x".format(dyn([1.5]))"#,
            "error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given double",
        ),
        (
            r#""%o".format(dyn(["a"]))"#,
            "error during formatting: octal clause can only be used on integers, was given string",
        ),
        (
            r#""%b".format(dyn(["a"]))"#,
            "error during formatting: only integers and bools can be formatted as binary, was given string",
        ),
        (
            r#""%d".format(dyn(["a"]))"#,
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            r#""%s".format(dyn([optional.none()]))"#,
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given optional_type",
        ),
        (
            r#""%s".format(dyn([quantity("1")]))"#,
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given kubernetes.Quantity",
        ),
        (
            r#""%s".format(dyn([[quantity("1")]]))"#,
            "error during formatting: no formatting function for kubernetes.Quantity",
        ),
        (
            r#""%s".format(dyn([{1.5:"a"}]))"#,
            "error during formatting: no formatting function for map key of type double",
        ),
        (
            r#""%s".format(dyn([{"a":quantity("1")}]))"#,
            "error during formatting: no formatting function for kubernetes.Quantity",
        ),
        (
            r#""%s".format(dyn([b"\xff"]))"#,
            r#"error during formatting: could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string"#,
        ),
        (
            r#""%.".format(dyn([1]))"#,
            "could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
        ),
        (r#""%".format(dyn([1]))"#, "unexpected end of string"),
        (
            r#""%f".format(dyn(["abc"]))"#,
            "error during formatting: fixed-point clause can only be used on doubles, was given string",
        ),
        (
            r#""%.99999999999999999999f".format(dyn([1.5]))"#,
            r#"could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing "99999999999999999999": value out of range"#,
        ),
        (r#""%.3f".format([double("-0")])"#, "0.000"),
        (r#""%.3f".format([-1234.5678])"#, "-1,234.568"),
        (r#""%.0f".format([999999.5])"#, "1,000,000"),
        (r#""%.300f".format([0.1])"#, "0.1000000000000000055511151231257827021181583404541015625"),
        (r#""%.256f".format([0.1])"#, "0.1000000000000000055511151231257827021181583404541015625"),
        (r#""%.256f".format([0.5])"#, "0.5"),
        (r#""%.260f".format([1.5])"#, "1.5000"),
        (
            r#""%.1000f".format([0.1])"#,
            "0.1000000000000000055511151231257827021181583404541015625000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
        ),
        (r#""%e".format([9.9999999])"#, "1.000000×10⁰¹"),
        (r#""%e".format([0.00001])"#, "1.000000×10⁻⁰⁵"),
        (r#""%e".format([123456789.123])"#, "1.234568×10⁰⁸"),
        (r#""%e".format([5e-324])"#, "4.940656×10⁻³²⁴"),
        (r#""%e".format([1.7976931348623157e308])"#, "1.797693×10³⁰⁸"),
        (r#""%e".format([-1.5])"#, "-1.500000×10⁰⁰"),
        (r#""%.0e".format([1.5])"#, "1.500000×10⁰⁰"),
        (r#""%.1e".format([2.5])"#, "2.500000×10⁰⁰"),
        (r#""%e".format([-double("Infinity")])"#, "-∞"),
        (r#""%e".format([double("-0")])"#, "0.000000×10⁰⁰"),
        (r#""%s".format([[1.0,-0.5,1e-10]])"#, "[1.000000, -0.500000, 0.000000]"),
        (r#""%s".format([{"k":1.5}])"#, r#"{"k":1.500000}"#),
        (r#""%s".format([{"k":double("NaN")}])"#, r#"{"k":"NaN"}"#),
        (r#""%s".format([[b"\x01\x02"]])"#, r#"[b"\x01\x02"]"#),
        (r#""%s".format([{2u:"x"}])"#, r#"{2:"x"}"#),
        (r#""%s".format([{10:"x",9:"y"}])"#, r#"{10:"x", 9:"y"}"#),
        (r#""%s".format([{"a":null}])"#, r#"{"a":null}"#),
        (r#""%s".format([[{"a":[1]}]])"#, r#"[{"a":[1]}]"#),
        (
            r#""%s %d %f %e %b %x %X %o %%".format(["s",1,1.5,1.5,true,"z",255,8])"#,
            "s 1 1.500000 1.500000×10⁰⁰ 1 7a FF 10 %",
        ),
    ] {
        assert_eq!(evaluated(text).unwrap_or_else(|why| why), expected, "{text}");
    }
}

/// Contract: API-30
#[test]
fn formats_are_checked_with_arguments_that_are_said() {
    for (text, expected) in [
        (
            r#""%.f".format([2.5])"#,
            r#"ERROR: <input>:1:13: could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax"#,
        ),
        (
            r#""%f".format([1])"#,
            "ERROR: <input>:1:14: error during formatting: fixed-point clause can only be used on doubles, was given int",
        ),
        (
            r#""%f".format([1u])"#,
            "ERROR: <input>:1:14: error during formatting: fixed-point clause can only be used on doubles, was given uint",
        ),
        (
            r#""%e".format([1])"#,
            "ERROR: <input>:1:14: error during formatting: scientific clause can only be used on doubles, was given int",
        ),
        (
            r#""%s".format([quantity("1")])"#,
            "ERROR: <input>:1:22: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given kubernetes.Quantity",
        ),
        (
            r#""%s".format([optional.of(1)])"#,
            "ERROR: <input>:1:25: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given optional_type",
        ),
        (
            r#""%s".format([optional.none()])"#,
            "ERROR: <input>:1:27: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given optional_type",
        ),
        (
            r#""%s".format([ip("1.2.3.4")])"#,
            "ERROR: <input>:1:16: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given net.IP",
        ),
        (
            r#""%s".format([semver("1.2.3")])"#,
            "ERROR: <input>:1:20: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given kubernetes.Semver",
        ),
        (
            r#""%d".format([1.5])"#,
            "ERROR: <input>:1:14: error during formatting: decimal clause can only be used on integers, was given double",
        ),
        (
            r#""%d".format([double("NaN")])"#,
            "ERROR: <input>:1:20: error during formatting: decimal clause can only be used on integers, was given double",
        ),
        (
            r#""%d".format(["a"])"#,
            "ERROR: <input>:1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            r#""%x".format([1.5])"#,
            "ERROR: <input>:1:14: error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given double",
        ),
        (
            r#""%x".format([true])"#,
            "ERROR: <input>:1:14: error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given bool",
        ),
        (
            r#""%o".format([true])"#,
            "ERROR: <input>:1:14: error during formatting: octal clause can only be used on integers, was given bool",
        ),
        (
            r#""%b".format(["a"])"#,
            "ERROR: <input>:1:14: error during formatting: only integers and bools can be formatted as binary, was given string",
        ),
        (
            r#""%q".format(["a"])"#,
            r#"ERROR: <input>:1:12: could not parse formatting clause: unrecognized formatting clause "q""#,
        ),
        (r#""%".format([])"#, "ERROR: <input>:1:11: unexpected end of string"),
        (r#""%".format([1])"#, "ERROR: <input>:1:11: unexpected end of string"),
        (r#""%s".format([])"#, "ERROR: <input>:1:12: index 0 out of range"),
        (r#""%s %s".format(["a"])"#, "ERROR: <input>:1:15: index 1 out of range"),
        (
            r#""%s".format(["a","b"])"#,
            "ERROR: <input>:1:12: too many arguments supplied to string.format (expected 1, got 2)",
        ),
        (
            r#""%.".format([1])"#,
            "ERROR: <input>:1:12: could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
        ),
        (
            r#""%.5".format([1])"#,
            "ERROR: <input>:1:13: could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
        ),
        (
            r#""%.99999999999999999999f".format([1.5])"#,
            r#"ERROR: <input>:1:33: could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing "99999999999999999999": value out of range"#,
        ),
        (
            r#""%5d".format([1])"#,
            r#"ERROR: <input>:1:13: could not parse formatting clause: unrecognized formatting clause "5""#,
        ),
        (
            r#""%é".format([1])"#,
            r#"ERROR: <input>:1:12: could not parse formatting clause: unrecognized formatting clause "Ã""#,
        ),
        (
            r#""%20e".format([1.5])"#,
            r#"ERROR: <input>:1:14: could not parse formatting clause: unrecognized formatting clause "2""#,
        ),
        (
            r#""%s".format([self])"#,
            "ERROR: <input>:1:14: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given object",
        ),
    ] {
        let why = compiled(text).err().unwrap_or_default();
        assert_eq!(why.lines().next(), Some(expected), "{text}");
    }
    // What is known only when it is run is not looked at.
    for text in [r#""%d".format([dyn("a")])"#, r#""%d".format(self.l.map(x, dyn(x)))"#, "(self.b + '%d').format(['a'])"]
    {
        assert_eq!(compiled(text).map(|(kind, _)| kind).as_deref(), Ok("string"), "{text}");
    }
}

/// Contract: API-30
#[test]
fn what_cannot_be_converted_is_told_as_by_cel_go() {
    for (text, expected) in [
        ("int(self.b)", "type conversion error from 'string' to 'int'"),
        ("uint(self.b)", "type conversion error from 'string' to 'uint'"),
        ("double(self.b)", "type conversion error from 'string' to 'double'"),
        ("bool(self.b)", "type conversion error from 'string' to 'bool'"),
        ("timestamp(self.b)", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("duration(self.b)", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("duration(self.a)", "type conversion error from 'int' to 'google.protobuf.Duration'"),
        ("int(dyn(self.m))", "no such overload: int(map)"),
        ("string(dyn(self.m))", "no such overload: string(map)"),
        ("bytes(dyn(self.l))", "no such overload: bytes(list)"),
        ("uint(self.a - 2)", "unsigned integer overflow"),
        ("uint(self.f * 1e300)", "unsigned integer overflow"),
        ("uint(dyn(self.b + '+5'))", "type conversion error from 'string' to 'uint'"),
        ("timestamp(self.a * 1000000000000)", "timestamp overflow"),
        ("timestamp(self.a)", "1970-01-01T00:00:01Z"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('2s')", "timestamp overflow"),
        ("timestamp('0001-01-01T00:00:00Z') - duration('1s')", "timestamp overflow"),
        ("double('1e308') > 1.0", "true"),
        ("double('inf') > 1.0", "true"),
        ("dyn(self.m) > 1", "no such overload: _>_"),
        ("dyn(null) < dyn(1)", "no such overload: _<_"),
        ("dyn(1) < dyn('a')", "no such overload"),
        ("dyn(self.m) + 1", "no such overload: _+_"),
        ("-dyn(self.m)", "no such overload: -_"),
        ("!dyn(self.m)", "no such overload"),
        ("size(dyn(self.a))", "no such overload: size"),
        ("dyn(self.a).size()", "no such overload: size"),
        ("dyn(self.b).getMonth()", "no such overload: getMonth(string)"),
        ("dyn(self.b).sum()", "no such overload: sum(string)"),
        ("[dyn([1])].sum()", "no such overload: sum(list)"),
        ("[dyn(self)].isSorted()", "no such overload: isSorted(list)"),
        ("[dyn(1), dyn('a')].min()", "1"),
        ("[1, 2].max()", "2"),
        ("[].max()", "max called on empty list"),
        ("dyn(self.a).contains('a')", "no such overload"),
        ("url('https://a/b c/').getEscapedPath()", "/b%20c/"),
        ("url('https://a/b%2Fc/').getEscapedPath()", "/b%2Fc/"),
        ("quantity('1000m').isInteger()", "false"),
        ("quantity('1.0').isInteger()", "false"),
        ("quantity('1.5k').isInteger()", "true"),
        ("quantity('5E').asInteger()", "5000000000000000000"),
        ("quantity('8Ei').isInteger()", "false"),
        ("quantity('1e19').asInteger()", "cannot convert value to integer"),
        (
            "cidr('abc').prefixLength()",
            "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix(\"abc\"): no '/'",
        ),
    ] {
        assert_eq!(evaluated(text).unwrap_or_else(|why| why), expected, "{text}");
    }
}

/// Contract: API-30
#[test]
fn constants_that_fail_are_refused_before_they_are_run() {
    let failed = |text: &str| {
        let schema = schema();
        let kind = schema::type_of(&schema, false).unwrap_or(Type::Dyn);
        let variables = [Variable { name: "self", kind, bounds: None }];
        let checked = compile(text, &variables).unwrap_or_else(|e| panic!("{text}: {e}"));
        checked.program.instantiate("program").err()
    };
    for (text, why) in [
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("int(1e30) == 1", "integer overflow"),
        ("uint(-1) == 1u", "unsigned integer overflow"),
        ("uint('+5') == 5u", "type conversion error from 'string' to 'uint'"),
        ("double('1e999') == 1.0", "type conversion error from 'string' to 'double'"),
        ("bool('yes')", "type conversion error from 'string' to 'bool'"),
        ("string(null) == 'null'", "no such overload: string(null_type)"),
        ("int(dyn([])) == 1", "no such overload: int(list)"),
        ("duration(dyn(1)) == duration('1s')", "type conversion error from 'int' to 'google.protobuf.Duration'"),
        (r"string(dyn(b'\xff')) == ''", "invalid UTF-8 in bytes, cannot convert to string"),
        ("'a'.matches(dyn('('))", "error parsing regexp: missing closing ): `(`"),
        ("matches('a', '(')", "error parsing regexp: missing closing ): `(`"),
        ("'a'.find('(') == ''", "error parsing regexp: missing closing ): `(`"),
        ("'a'.findAll(string('('), 1) == []", "error parsing regexp: missing closing ): `(`"),
        // Wherever it stands, and whether or not it would be reached.
        ("false && int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("true ? true : int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("self.l.all(k, int('x') == 1)", "type conversion error from 'string' to 'int'"),
        ("{'a': [int('x')]} == {}", "type conversion error from 'string' to 'int'"),
        ("self.b.substring(int('x')) == ''", "type conversion error from 'string' to 'int'"),
    ] {
        let expected = format!("program instantiation failed: {why}");
        assert_eq!(failed(text), Some(expected), "{text}");
    }
    for text in
        ["int('5') == 5", "int(self.b) == 1", "1 / 0 == 1", "'a'.find(self.b) == ''", "quantity('x').isInteger()"]
    {
        assert_eq!(failed(text), None, "{text}");
    }
    for text in ["timestamp(-62135596801)", "timestamp(253402300800)", "timestamp('0000-01-01T00:00:00Z')"] {
        let why = compiled(text).err().unwrap_or_default();
        assert!(why.contains(": invalid timestamp argument\n"), "{text}: {why}");
    }
    let why = compiled("duration(1) == duration('1s')").err().unwrap_or_default();
    assert!(why.starts_with("ERROR: <input>:1:10: invalid duration argument"), "{why}");
}

/// Contract: API-30
#[test]
fn lists_of_this_and_that_are_told_once() {
    for (text, expected) in [
        ("[1, 2.0, 'a'].size() == 3", vec!["1:5: expected type 'int' but found 'double'"]),
        (
            "{'a': 1, 'b': 2.0, 'c': 'x'}.size() == 3",
            vec!["1:15: expected type 'int' but found 'double'", "1:25: expected type 'int' but found 'string'"],
        ),
        (
            "sets.contains([1, 2.0, 3u], [1.0, 2u, 3])",
            vec!["1:19: expected type 'int' but found 'double'", "1:35: expected type 'double' but found 'uint'"],
        ),
        ("[[1]].isSorted()", vec!["1:15: found no matching overload for 'isSorted' applied to 'list(list(int)).()'"]),
        (
            "[quantity('1')].min() == 1",
            vec!["1:20: found no matching overload for 'min' applied to 'list(kubernetes.Quantity).()'"],
        ),
    ] {
        let why = compiled(text).err().unwrap_or_default();
        let told: Vec<&str> = why.lines().filter_map(|line| line.strip_prefix("ERROR: <input>:")).collect();
        assert_eq!(told, expected, "{text}");
    }
}
