//! Files that people write in YAML, or in JSON, which is a part of it.

use serde::de::DeserializeOwned;

/// What a document says.
///
/// # Errors
/// What was expected, in which line and column, and what this line has; all of it on one line.
pub fn read<T: DeserializeOwned>(yaml: &str) -> Result<T, String> {
    // The part of the text that an error can show by itself has several lines, and repeats the rest.
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        let line = error.location().and_then(|at| yaml.lines().nth(usize::try_from(at.line()).ok()?.checked_sub(1)?));
        match line.map(str::trim).filter(|line| !line.is_empty()) {
            Some(line) => format!("{error}: found {:?}", line.chars().take(120).collect::<String>()),
            None => error.to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::read;

    #[test]
    fn an_error_is_one_line_with_what_was_found() {
        let read = read::<BTreeMap<String, u64>>;
        assert_eq!(read("a: 1\nb: 2\n").unwrap().len(), 2);
        for (yaml, said) in [
            ("a: 1\n  \nb: two\n", "invalid u64 at line 3, column 4: found \"b: two\""),
            ("a: [\n", "expected string scalar at line 1, column 4: found \"a: [\""),
        ] {
            assert_eq!(read(yaml).unwrap_err(), said);
        }
    }
}
