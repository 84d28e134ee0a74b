//! Regular expressions of schemas and of CEL: RE2's syntax, compiled when they are first needed.

use std::sync::OnceLock;

use regex::Regex;

/// An expression that is compiled at its first match.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Option<Regex>>,
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

    /// Whether it matches somewhere in a text; `None` where it is no expression.
    #[must_use]
    pub fn is_match(&self, text: &str) -> Option<bool> {
        self.compiled.get_or_init(|| compile(&self.text).ok()).as_ref().map(|regex| regex.is_match(text))
    }
}

/// The largest compiled expression, in bytes.
const LARGEST: usize = 4 << 20;

/// Compiles an expression.
///
/// # Errors
/// What is wrong with it, in the words of Go's `regexp` for the errors that both have.
pub fn compile(text: &str) -> Result<Regex, String> {
    regex::RegexBuilder::new(text).size_limit(LARGEST).build().map_err(|error| words(text, &error))
}

/// What Go says of an expression.
fn words(text: &str, error: &regex::Error) -> String {
    let regex::Error::Syntax(_) = error else { return "error parsing regexp: expression too large".to_owned() };
    let parsed = regex_syntax::ast::parse::Parser::new().parse(text);
    let Err(error) = parsed else { return format!("error parsing regexp: invalid regular expression: `{text}`") };
    use regex_syntax::ast::ErrorKind as K;
    let span = error.span();
    let found = text.get(span.start.offset..span.end.offset).unwrap_or_default();
    let (what, shown) = match error.kind() {
        K::ClassUnclosed => ("missing closing ]", text.get(span.start.offset..).unwrap_or_default()),
        K::GroupUnclosed => ("missing closing )", text),
        K::GroupUnopened => ("unexpected )", text),
        K::RepetitionMissing => ("missing argument to repetition operator", found),
        K::RepetitionCountInvalid => ("invalid repeat count", found),
        K::ClassRangeInvalid => ("invalid character class range", found),
        K::EscapeUnexpectedEof => {
            return "error parsing regexp: trailing backslash at end of expression: ``".to_owned();
        }
        K::EscapeUnrecognized => ("invalid escape sequence", found),
        K::UnsupportedLookAround => ("invalid or unsupported Perl syntax", found),
        K::UnsupportedBackreference => ("invalid escape sequence", found),
        _ => ("invalid regular expression", text),
    };
    format!("error parsing regexp: {what}: `{shown}`")
}
