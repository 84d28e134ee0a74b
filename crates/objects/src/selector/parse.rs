//! The string form of selectors: apimachinery's lexer and recursive descent, with its messages.
//!
//! ```text
//! <selector>    ::= <requirement> | <requirement> "," <selector>
//! <requirement> ::= [!] KEY [ ("in" | "notin") "(" <values> ")" | ("=" | "==" | "!=" | ">" | "<") VALUE ]
//! <values>      ::= VALUE | VALUE "," <values>
//! ```

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::requirement::{Operator, Requirement, invalid};
use super::{Selector, SelectorError};
use crate::names::label_key_errors;

/// Parses a selector's string form.
pub(super) fn parse(text: &str) -> Result<Selector, SelectorError> {
    let mut parser = Parser { items: scan(text), position: 0 };
    parser.selector().map(Selector::new)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    EndOfString,
    ClosedParenthesis,
    Comma,
    DoesNotExist,
    DoubleEquals,
    Equals,
    GreaterThan,
    Identifier,
    In,
    LessThan,
    NotEquals,
    NotIn,
    OpenParenthesis,
}

type Item<'a> = (Token, Cow<'a, str>);

/// Cuts the text into tokens; the last one is always [`Token::EndOfString`].
fn scan(text: &str) -> Vec<Item<'_>> {
    let bytes = text.as_bytes();
    let mut items = Vec::new();
    let mut at = 0;
    loop {
        while bytes.get(at).is_some_and(|byte| is_whitespace(*byte)) {
            at += 1;
        }
        let rest = &bytes[at..];
        let (token, length) = match rest {
            // Upstream's reader takes a NUL between tokens for the end.
            [] | [0, ..] => {
                items.push((Token::EndOfString, Cow::Borrowed("")));
                return items;
            }
            [b'=', b'=', ..] => (Token::DoubleEquals, 2),
            [b'!', b'=', ..] => (Token::NotEquals, 2),
            [b'=', ..] => (Token::Equals, 1),
            [b'!', ..] => (Token::DoesNotExist, 1),
            [b'(', ..] => (Token::OpenParenthesis, 1),
            [b')', ..] => (Token::ClosedParenthesis, 1),
            [b',', ..] => (Token::Comma, 1),
            [b'>', ..] => (Token::GreaterThan, 1),
            [b'<', ..] => (Token::LessThan, 1),
            _ => {
                let ends = |byte: &u8| *byte == 0 || is_special(*byte) || is_whitespace(*byte);
                let length = rest.iter().position(ends).unwrap_or(rest.len());
                let token = match &rest[..length] {
                    b"in" => Token::In,
                    b"notin" => Token::NotIn,
                    _ => Token::Identifier,
                };
                (token, length)
            }
        };
        // Every cut is made at an ASCII byte, so the text is never cut inside a character.
        items.push((token, String::from_utf8_lossy(&rest[..length])));
        at += length;
        // And one that ends a token for nothing at all.
        at += usize::from(bytes.get(at) == Some(&0));
    }
}

fn is_whitespace(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

/// Whether `in` and `notin` are operators or, where a value is expected, plain words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    KeyAndOperator,
    Values,
}

struct Parser<'a> {
    items: Vec<Item<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            let (token, literal) = self.lookahead(Context::Values);
            match token {
                Token::Identifier | Token::DoesNotExist => {
                    let requirement = self.requirement().map_err(|error| {
                        SelectorError::new(format!("unable to parse requirement: {}", error.message()))
                    })?;
                    requirements.push(requirement);
                    let (token, literal) = self.consume(Context::Values);
                    match token {
                        Token::EndOfString => return Ok(requirements),
                        Token::Comma => {
                            let (token, literal) = self.lookahead(Context::Values);
                            if token != Token::Identifier && token != Token::DoesNotExist {
                                return Err(found(&literal, ", expected: identifier after ','"));
                            }
                        }
                        _ => return Err(found(&literal, ", expected: ',' or 'end of string'")),
                    }
                }
                Token::EndOfString => return Ok(requirements),
                _ => return Err(found(&literal, ", expected: !, identifier, or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (key, inferred) = self.key_and_inferred_operator()?;
        if let Some(operator) = inferred {
            return Requirement::new(&key, operator, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.exact_value()?]),
        };
        Requirement::new(&key, operator, values.into_iter().map(|value| value.as_ref().into()).collect())
    }

    /// The key, and the operator where none follows it.
    fn key_and_inferred_operator(&mut self) -> Result<(Cow<'a, str>, Option<Operator>), SelectorError> {
        let (mut token, mut literal) = self.consume(Context::Values);
        let mut operator = None;
        if token == Token::DoesNotExist {
            operator = Some(Operator::DoesNotExist);
            (token, literal) = self.consume(Context::Values);
        }
        if token != Token::Identifier {
            return Err(found(&literal, ", expected: identifier"));
        }
        let errors = label_key_errors(&literal);
        if !errors.is_empty() {
            return Err(SelectorError::new(invalid("<nil>", &literal, &errors.join("; "))));
        }
        let (next, _) = self.lookahead(Context::Values);
        if operator.is_none() && (next == Token::EndOfString || next == Token::Comma) {
            operator = Some(Operator::Exists);
        }
        Ok((literal, operator))
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        let (token, literal) = self.consume(Context::KeyAndOperator);
        match token {
            Token::In => Ok(Operator::In),
            Token::NotIn => Ok(Operator::NotIn),
            Token::Equals => Ok(Operator::Equals),
            Token::DoubleEquals => Ok(Operator::DoubleEquals),
            Token::NotEquals => Ok(Operator::NotEquals),
            Token::GreaterThan => Ok(Operator::GreaterThan),
            Token::LessThan => Ok(Operator::LessThan),
            _ => Err(found(&literal, ", expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<Cow<'a, str>>, SelectorError> {
        let (token, literal) = self.consume(Context::Values);
        if token != Token::OpenParenthesis {
            return Err(found(&literal, " expected: '('"));
        }
        let (token, literal) = self.lookahead(Context::Values);
        match token {
            Token::Identifier | Token::Comma => {
                let values = self.identifiers()?;
                if self.consume(Context::Values).0 != Token::ClosedParenthesis {
                    return Err(found(&literal, ", expected: ')'"));
                }
                Ok(values)
            }
            Token::ClosedParenthesis => {
                self.consume(Context::Values);
                Ok(BTreeSet::from([Cow::Borrowed("")]))
            }
            _ => Err(found(&literal, ", expected: ',', ')' or identifier")),
        }
    }

    /// A list of words between commas, any of which may be empty.
    fn identifiers(&mut self) -> Result<BTreeSet<Cow<'a, str>>, SelectorError> {
        let mut values = BTreeSet::new();
        loop {
            let (token, literal) = self.consume(Context::Values);
            match token {
                Token::Identifier => {
                    values.insert(literal);
                    let (next, literal) = self.lookahead(Context::Values);
                    match next {
                        Token::Comma => {}
                        Token::ClosedParenthesis => return Ok(values),
                        _ => return Err(found(&literal, ", expected: ',' or ')'")),
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.insert(Cow::Borrowed(""));
                    }
                    match self.lookahead(Context::Values).0 {
                        Token::ClosedParenthesis => {
                            values.insert(Cow::Borrowed(""));
                            return Ok(values);
                        }
                        Token::Comma => {
                            values.insert(Cow::Borrowed(""));
                        }
                        _ => {}
                    }
                }
                _ => return Err(found(&literal, ", expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<Cow<'a, str>, SelectorError> {
        let (token, _) = self.lookahead(Context::Values);
        if token == Token::EndOfString || token == Token::Comma {
            return Ok(Cow::Borrowed(""));
        }
        let (token, literal) = self.consume(Context::Values);
        if token == Token::Identifier { Ok(literal) } else { Err(found(&literal, ", expected: identifier")) }
    }

    fn lookahead(&self, context: Context) -> Item<'a> {
        // Nothing consumes past the end of the string; were it so, the end would be met again.
        let (token, literal) =
            self.items.get(self.position).cloned().unwrap_or((Token::EndOfString, Cow::Borrowed("")));
        let word = context == Context::Values && matches!(token, Token::In | Token::NotIn);
        (if word { Token::Identifier } else { token }, literal)
    }

    fn consume(&mut self, context: Context) -> Item<'a> {
        let item = self.lookahead(context);
        self.position += 1;
        item
    }
}

fn found(literal: &str, expected: &str) -> SelectorError {
    SelectorError::new(format!("found '{literal}'{expected}"))
}
