//! A file of bearer tokens: `token,user,uid,"group1,group2"` a line.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::access::{AUTHENTICATED, User};

/// Why a file of tokens cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// A line has too few columns.
    #[error("line {line}: a token file must have at least 3 columns (token, user name, user uid), found {found}")]
    Columns {
        /// The line, from 1.
        line: usize,
        /// How many columns it has.
        found: usize,
    },
    /// A quote is not closed, or stands where none may.
    #[error("line {line}: a quote is not closed, or stands within a column")]
    Quote {
        /// The line, from 1.
        line: usize,
    },
}

/// The users of a file, by their tokens.
///
/// # Errors
/// [`TokenFileError`].
pub fn read(text: &str) -> Result<HashMap<String, Arc<User>>, TokenFileError> {
    let mut users = HashMap::new();
    for (line, record) in (1..).zip(text.lines()) {
        if record.trim_end_matches('\r').is_empty() {
            continue;
        }
        let columns = columns(record.trim_end_matches('\r')).ok_or(TokenFileError::Quote { line })?;
        let [token, name, uid, rest @ ..] = columns.as_slice() else {
            return Err(TokenFileError::Columns { line, found: columns.len() });
        };
        if token.is_empty() {
            tracing::warn!(line, "an empty token in the token file");
            continue;
        }
        let mut groups: Vec<String> = match rest.first() {
            Some(groups) => groups.split(',').map(str::to_owned).collect(),
            None => Vec::new(),
        };
        groups.push(AUTHENTICATED.to_owned());
        let user = User { name: name.clone(), uid: uid.clone(), groups, extra: BTreeMap::new() };
        if users.insert(token.clone(), Arc::new(user)).is_some() {
            tracing::warn!(line, "a token is in the token file twice");
        }
    }
    Ok(users)
}

/// The columns of a line; one in quotes may have commas, and quotes that are doubled. `None` for a quote that is wrong.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = Vec::new();
    let mut rest = line;
    loop {
        let mut column = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let (before, after) = quoted.split_once('"')?;
                column.push_str(before);
                match after.strip_prefix('"') {
                    Some(more) => {
                        column.push('"');
                        quoted = more;
                    }
                    None => {
                        rest = after;
                        break;
                    }
                }
            }
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            column.push_str(&rest[..end]);
            rest = &rest[end..];
            if column.contains('"') {
                return None;
            }
        }
        columns.push(column);
        if rest.is_empty() {
            return Some(columns);
        }
        rest = rest.strip_prefix(',')?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-32
    #[test]
    fn a_token_file_is_read_as_by_the_reference() {
        let users = read("a,alice,u1,\"devs,ops\"\r\n\nb,bob,,x,more\nc,\"ca\"\"rol\",3\n,nobody,0\n").expect("users");
        assert_eq!(users.len(), 3);
        let of = |token: &str| {
            let user = &users[token];
            (user.name.as_str(), user.uid.as_str(), user.groups.join("+"))
        };
        assert_eq!(of("a"), ("alice", "u1", "devs+ops+system:authenticated".to_owned()));
        assert_eq!(of("b"), ("bob", "", "x+system:authenticated".to_owned()));
        assert_eq!(of("c"), ("ca\"rol", "3", "system:authenticated".to_owned()));
        assert_eq!(read("a,b,c\na,b\n"), Err(TokenFileError::Columns { line: 2, found: 2 }));
        for wrong in ["a,\"b,c", "a,b\"c,d", "a,\"b\"c,d"] {
            assert_eq!(read(wrong), Err(TokenFileError::Quote { line: 1 }), "{wrong}");
        }
    }
}
