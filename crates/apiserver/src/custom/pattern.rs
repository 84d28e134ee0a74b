//! Regular expressions of schemas and of CEL: Go's `regexp`, compiled when they are first needed.

mod syntax;

use std::sync::OnceLock;

use regex_automata::meta;
use regex_automata::util::syntax::Config;

use self::syntax::Translated;

/// An expression that is compiled at its first match.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Result<Regex, String>>,
}

impl Pattern {
    /// The expression with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.into(), compiled: OnceLock::new() }
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The expression, ready to match.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn regex(&self) -> Result<&Regex, &String> {
        if let Some(compiled) = self.compiled.get() {
            return compiled.as_ref();
        }
        // Nobody waits for it: it is compiled twice at worst.
        let compiled = compile(&self.text);
        self.compiled.get_or_init(|| compiled).as_ref()
    }
}

/// The largest compiled expression, in bytes. Go counts its instructions, of which one takes a class of any size; here a class of
/// the letters of all scripts takes some 45 KB.
const LARGEST: usize = 96 << 20;
/// How deep one expression may lie in others, as the crate counts.
const DEEPEST: u32 = 5_000;
/// The crate compiles what lies in something by recursion: more than this depth of it is compiled on a stack of its own.
const SHALLOW: usize = 16;
/// The size of that, in bytes: a level takes some 12 KB where the compiler does not optimize.
const STACK: usize = 32 << 20;

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Regex(meta::Regex);

impl Regex {
    /// Whether it matches somewhere in a text.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// What it matches in a text, one after the other.
    pub fn find_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        self.0.find_iter(text).map(|found| text.get(found.range()).unwrap_or_default())
    }

    /// How many bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.memory_usage()
    }
}

/// Checks an expression, without compiling it.
///
/// # Errors
/// What is wrong with it, in the words of Go's `regexp`.
pub fn check(text: &str) -> Result<(), String> {
    syntax::translate(text).map(|_| ())
}

/// Compiles an expression.
///
/// # Errors
/// As [`check`]; that it is too large.
pub fn compile(text: &str) -> Result<Regex, String> {
    compile_within(text, LARGEST)
}

/// Compiles an expression into so many bytes at most.
///
/// # Errors
/// As [`compile`].
pub fn compile_within(text: &str, largest: usize) -> Result<Regex, String> {
    let Translated { text: translated, depth } = syntax::translate(text)?;
    let build = move || {
        meta::Builder::new()
            // An edge of words of ASCII may be between the bytes of a character, but no match is.
            .syntax(Config::new().utf8(false).nest_limit(DEEPEST))
            .configure(meta::Config::new().utf8_empty(true).nfa_size_limit(Some(largest)))
            .build(&translated)
            .ok()
    };
    let built = if depth <= SHALLOW {
        build()
    } else {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(build);
        thread.ok().and_then(|thread| thread.join().ok()).flatten()
    };
    built.map(Regex).ok_or_else(|| format!("error parsing regexp: expression too large: `{text}`"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(pattern: &str, text: &str) -> Result<Vec<String>, String> {
        Ok(compile(pattern)?.find_iter(text).map(str::to_owned).collect())
    }

    /// Contract: API-30
    #[test]
    fn expressions_match_what_they_match_in_go() {
        for (pattern, text, expected) in [
            // Classes and edges of words are of ASCII.
            (r"\d+", "a1\u{663}2", &["1", "2"][..]),
            (r"\w+", "caf\u{e9} au", &["caf", "au"]),
            (r"\s", "a\u{a0}b c", &[" "]),
            (r"\W", "a\u{e9}_", &["\u{e9}"]),
            (r"[^\w.]", "a.\u{e9}", &["\u{e9}"]),
            (r"[\D]", "1x", &["x"]),
            (r"\b.", "\u{e9}a", &["a"]),
            (r"\B", "a\u{e9}", &[""]),
            (r"\B", "\u{e9}\u{e9}", &["", "", ""]),
            ("[[:alpha:]]+", "a\u{e9}b", &["a", "b"]),
            ("[[:^alpha:]]", "a\u{e9}b", &["\u{e9}"]),
            // What is an operator elsewhere is itself.
            ("{a}", "{a}", &["{a}"]),
            ("a{,2}", "a{,2}", &["a{,2}"]),
            ("a{01}", "a{01}", &["a{01}"]),
            ("x{", "x{", &["x{"]),
            ("^{{.*}}$", "{{x}}", &["{{x}}"]),
            ("[[]", "[", &["["]),
            (r"[^[\]]+", "a[b]", &["a", "b"]),
            ("[a&&b]+", "a&b", &["a&b"]),
            ("[!--b]+", "a+b", &["+b"]),
            ("[a~~b]+", "a~b", &["a~b"]),
            ("[]a]+", "]a", &["]a"]),
            ("[a-]+", "a-", &["a-"]),
            ("[-a]+", "a-", &["a-"]),
            ("[:a]+", "a:", &["a:"]),
            (r"\<a\>", "<a>", &["<a>"]),
            (r"\_\-\/", "_-/", &["_-/"]),
            (" #", " #", &[" #"]),
            (r"\Qa.b\E+", "a.bb a+b", &["a.bb"]),
            (r"\Qa\", r"a\", &[r"a\"]),
            // Escapes.
            (r"\x41\x{1F600}\101\07", "A\u{1f600}A\u{7}", &["A\u{1f600}A\u{7}"]),
            (r"[\x41-C\n]+", "ABC\nD", &["ABC\n"]),
            (r"\pL\PL\p{Greek}\p{^Greek}", "a1\u{3b1}b", &["a1\u{3b1}b"]),
            (r"[\p{Lu}\pN]+", "aA1\u{c9}", &["A1\u{c9}"]),
            (r"\p{Old_Italic}|\p{letter}\p{Any}\p{ASCII}", "abc", &["abc"]),
            (r"\p{Thai}|[^\p{Cc}\p{Cn}\p{Cs}]+|\P{Cs}", "a\u{7}", &["a", "\u{7}"]),
            (r"\p{Cs}|[\p{Surrogate}]", "a", &[]),
            (r"[\x{D800}a-b]", "b", &["b"]),
            (r"\x{D800}|[\x{D800}]|b", "b", &["b"]),
            (r"[^\x{D800}]", "b", &["b"]),
            // Flags.
            ("(?i)stra\u{df}e[k-l]", "STRA\u{1e9e}EK", &["STRA\u{1e9e}EK"]),
            ("(?i:a)b", "Ab aB", &["Ab"]),
            ("a(?i)b|c", "aB C A", &["aB", "C"]),
            ("(a(?i)b)c", "aBc aBC", &["aBc"]),
            ("(?i)[^a]", "aAb", &["b"]),
            ("a.b", "a\nb", &[]),
            ("(?s)a.b", "a\nb", &["a\nb"]),
            ("(?s-s)a.b", "a\nb", &[]),
            ("^a$", "b\na", &[]),
            ("(?m)^a$", "b\na", &["a"]),
            (r"(?m)\Aa\z", "b\na", &[]),
            ("(?U)a+", "aa", &["a", "a"]),
            ("(?U)a+?", "aa", &["aa"]),
            ("a+?", "aa", &["a", "a"]),
            ("a{2}?a", "aaa", &["aaa"]),
            // The first alternative, not the longest.
            ("a|ab", "ab", &["a"]),
            ("(?P<x>a)(?<y>b)(?P<x>c)", "abc", &["abc"]),
            ("a*(?i)*", "aaA", &["aa", ""]),
            ("a*", "baac", &["", "aa", ""]),
            ("()*|^*", "a", &["", ""]),
            ("(|a)+", "a", &["", ""]),
        ] {
            assert_eq!(found(pattern, text), Ok(expected.iter().map(|text| (*text).to_owned()).collect()), "{pattern}");
        }
    }

    /// Contract: API-30
    #[test]
    fn what_is_wrong_with_an_expression_is_said_as_go_says_it() {
        let deep = format!("{}a{}", "(".repeat(1000), ")".repeat(1000));
        for (pattern, why) in [
            ("(", "missing closing ): `(`"),
            ("a(b|c", "missing closing ): `a(b|c`"),
            ("a)b", "unexpected ): `a)b`"),
            ("[a-z", "missing closing ]: `[a-z`"),
            ("x[", "missing closing ]: `[`"),
            ("[]", "missing closing ]: `[]`"),
            ("x[z-a]y", "invalid character class range: `z-a`"),
            (r"[a-\d]", r"invalid escape sequence: `\d`"),
            ("[[:word]:]]", "invalid character class range: `[:word]:]`"),
            ("[[:words:]]", "invalid character class range: `[:words:]`"),
            (r"\p{Nope}x", r"invalid character class range: `\p{Nope}`"),
            (r"\p{Greek", r"invalid character class range: `\p{Greek`"),
            (r"\p{sc=Greek}", r"invalid character class range: `\p{sc=Greek}`"),
            (r"a\", "trailing backslash at end of expression: ``"),
            (r"\q", r"invalid escape sequence: `\q`"),
            (r"(a)\1", r"invalid escape sequence: `\1`"),
            (r"\C", r"invalid escape sequence: `\C`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            (r"\x1g", r"invalid escape sequence: `\x1g`"),
            (r"\x{}", r"invalid escape sequence: `\x{}`"),
            (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
            (r"\u0041", r"invalid escape sequence: `\u`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a|+?b", "missing argument to repetition operator: `+?`"),
            ("({2})", "missing argument to repetition operator: `{2}`"),
            ("(?i)*", "missing argument to repetition operator: `*`"),
            (r"\Q\E*", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("xa+*?y", "invalid nested repetition operator: `+*?`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{1001}?", "invalid repeat count: `{1001}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            ("a{99999999999999999999}", "invalid repeat count: `{99999999999999999999}`"),
            ("(a{50}|b){21}?c", "invalid repeat count: `{21}?`"),
            ("(a{100,}){11,}", "invalid repeat count: `{11,}`"),
            ("((a{0}){1000}){1000}", "invalid repeat count: `{1000}`"),
            (r"a\p", r"invalid character class range: `\p`"),
            (r"[\p", r"invalid character class range: `\p`"),
            (r"[\x{DFFF}-\x{D801}]", r"invalid character class range: `\x{DFFF}-\x{D801}`"),
            (r"\p{Latn}", r"invalid character class range: `\p{Latn}`"),
            (r"\p{isGreek}", r"invalid character class range: `\p{isGreek}`"),
            (r"\p{Alphabetic}", r"invalid character class range: `\p{Alphabetic}`"),
            ("(?P<x", "invalid named capture: `(?P<x`"),
            ("(?P<>a)", "invalid named capture: `(?P<>`"),
            ("(?<x y>a)", "invalid named capture: `(?<x y>`"),
            ("(?<=a)", "invalid named capture: `(?<=a)`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
            ("(?i-)a", "invalid or unsupported Perl syntax: `(?i-)`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            (deep.as_str(), &format!("expression nests too deeply: `{deep}`")),
        ] {
            assert_eq!(check(pattern), Err(format!("error parsing regexp: {why}")), "{pattern}");
        }
        for fine in ["(a{20}|b{50}){20}", "(a{0}){1000}", "(((a{10}){10}){10})", "a{1000}b{1000}", "(a{1000}){1}"] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        let deep = deep.replace("(a)", "a");
        assert_eq!(found(&deep, "xay"), Ok(vec!["a".to_owned()]));
        let levels = |open: &str, close: &str| format!("{}a{}", open.repeat(330), close.repeat(330));
        for deep in [levels("(", ")+"), levels("(?:b|c[x-z]", ")?"), levels("(?:b|cd", ")")] {
            assert!(compile(&deep).is_ok(), "{}", &deep[..20]);
        }
        let most = r"\pL{300}";
        assert_eq!(found(most, &"a".repeat(300)).map(|found| found.len()), Ok(1));
        let large = r"\pL{1000}";
        assert!(compile(large).is_ok());
        let too_large = |text: &str| Err(format!("error parsing regexp: expression too large: `{text}`"));
        assert_eq!(compile_within(large, 16 << 20).map(|_| ()), too_large(large));
        for large in ["(xx?){1000}".repeat(1000), r"\pL".repeat(5000), "a".repeat(2 << 20)] {
            assert_eq!(check(&large), too_large(&large), "{}", &large[..20]);
        }
        // Where each of them looks for its end it takes a minute.
        assert!(check(&format!("[[:{}", "[:".repeat(500_000))).is_err());
    }

    proptest! {
        /// What is said to be an expression can be compiled.
        ///
        /// Contract: API-30
        #[test]
        fn what_checks_compiles(
            pattern in proptest::collection::vec(
                proptest::sample::select(vec![
                    "a", "-", "(", "(?:", "(?i)", "(?s-i:", "(?P<n>", ")", "|", "*", "+?", "?", "{2}", "{0,3}?", "{", "}",
                    "{1,}", "[", "[^", "]", "^", "$", ".", r"\b", r"\B", r"\d", r"\W", r"\pL", r"\P{^Lu}", r"\x{D900}",
                    r"\x{10FFFF}", "[:alpha:]", "&&", "~", "<", r"\<", r"\Q", r"\E", "\u{e9}", "\\", "\n", " ", "#",
                ]),
                0..12,
            ),
            text in "[aA\u{e9}1_\\n .-]{0,6}",
        ) {
            let pattern = pattern.concat();
            if check(&pattern).is_ok() {
                let regex = compile(&pattern);
                prop_assert!(regex.is_ok(), "{pattern}: {regex:?}");
                let regex = regex.expect("it is one");
                prop_assert_eq!(regex.is_match(&text), regex.find_iter(&text).next().is_some(), "{}", pattern);
            }
        }
    }
}
