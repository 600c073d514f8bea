//! The parser of label selectors in requests, such as `app in (web, db),!legacy`.

use berth_apimachinery::label_selector::{CompiledSelector, LabelRequirement, Relation};

use crate::error::ApiError;
use crate::names;

/// Parses the label selector of a request.
pub(crate) fn parse(text: &str) -> Result<CompiledSelector, ApiError> {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
    };
    let requirements = parser.selector().map_err(ApiError::bad_request)?;
    Ok(requirements.into_iter().collect())
}

/// A word or a sign such as `!=`. The empty sign marks the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Sign(&'a str),
}

impl<'a> Token<'a> {
    const END: Self = Self::Sign("");

    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Sign(text) => text,
        }
    }
}

const SIGNS: [&str; 9] = ["!=", "==", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
        let special = |c: char| "=!(),><".contains(c) || c.is_whitespace();
        let length = sign.map_or_else(|| rest.find(special).unwrap_or(rest.len()), |s| s.len());
        let (token, after) = rest.split_at(length);
        all.push(if sign.is_some() {
            Token::Sign(token)
        } else {
            Token::Word(token)
        });
        rest = after.trim_start();
    }
    all
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::END)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                Token::END => return Ok(all),
                Token::Word(_) | Token::Sign("!") => {}
                Token::Sign(found) => {
                    return Err(format!(
                        "found '{found}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let requirement = self.requirement();
            all.push(
                requirement.map_err(|message| format!("unable to parse requirement: {message}"))?,
            );
            match self.take() {
                Token::END => return Ok(all),
                Token::Sign(",") => {}
                other => {
                    let found = other.text();
                    return Err(format!("found '{found}', expected: ',' or 'end of string'"));
                }
            }
            if !matches!(self.peek(), Token::Word(_) | Token::Sign("!")) {
                let found = self.peek().text();
                return Err(format!("found '{found}', expected: identifier after ','"));
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let absent = self.peek() == Token::Sign("!");
        if absent {
            self.take();
        }
        let Token::Word(key) = self.peek() else {
            return Err(format!(
                "found '{}', expected: identifier",
                self.peek().text()
            ));
        };
        self.take();
        check("<nil>", key, names::qualified_name(key))?;
        let key = key.to_owned();
        if absent {
            return Ok(LabelRequirement::unvalidated(key, Relation::DoesNotExist));
        }
        if matches!(self.peek(), Token::END | Token::Sign(",")) {
            return Ok(LabelRequirement::unvalidated(key, Relation::Exists));
        }
        let operator = self.take().text();
        let values = match operator {
            "in" | "notin" => self.values()?,
            "=" | "==" | "!=" | ">" | "<" => vec![self.value()?],
            found => {
                return Err(format!(
                    "found '{found}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        };
        requirement(operator, key, values)
    }

    /// Parses the value after a sign, which may be empty.
    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::END | Token::Sign(",") => Ok(String::new()),
            Token::Word(value) => {
                self.take();
                Ok(value.to_owned())
            }
            Token::Sign(found) => Err(format!("found '{found}', expected: identifier")),
        }
    }

    /// Parses the values in parentheses.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.take();
        if open != Token::Sign("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        match self.peek() {
            Token::Sign(")") => {
                self.take();
                return Ok(values);
            }
            Token::Word(_) | Token::Sign(",") => {}
            Token::Sign(found) => {
                return Err(format!("found '{found}', expected: ',', ')' or identifier"));
            }
        }
        loop {
            match self.take() {
                Token::Word(value) => {
                    values.push(value.to_owned());
                    if !matches!(self.peek(), Token::Sign("," | ")")) {
                        let found = self.peek().text();
                        return Err(format!("found '{found}', expected: ',' or ')'"));
                    }
                }
                // An empty value may precede or follow a comma.
                Token::Sign(",") => {
                    if values.is_empty() || !matches!(self.peek(), Token::Word(_)) {
                        values.push(String::new());
                    }
                }
                Token::Sign(")") => break,
                Token::Sign(found) => {
                    return Err(format!("found '{found}', expected: ',', or identifier"));
                }
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}

fn requirement(
    operator: &str,
    key: String,
    values: Vec<String>,
) -> Result<LabelRequirement, String> {
    let first = values.first().map(String::as_str).unwrap_or_default();
    let number = first.parse();
    if matches!(operator, ">" | "<") && number.is_err() {
        return Err(format!(
            "values[0]: Invalid value: \"{first}\": for 'Gt', 'Lt' operators, the value must be an integer"
        ));
    }
    for (i, value) in values.iter().enumerate() {
        check(
            &format!("values[{i}][{key}]"),
            value,
            names::label_value(value),
        )?;
    }
    let relation = match (operator, number) {
        ("in" | "=" | "==", _) => Relation::In(values),
        (">", Ok(number)) => Relation::GreaterThan(number),
        ("<", Ok(number)) => Relation::LessThan(number),
        _ => Relation::NotIn(values),
    };
    Ok(LabelRequirement::unvalidated(key, relation))
}

/// Returns an error if a rule has found a problem with a part of the text.
fn check(field: &str, text: &str, problem: Option<String>) -> Result<(), String> {
    problem.map_or(Ok(()), |problem| {
        Err(format!("{field}: Invalid value: \"{text}\": {problem}"))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn parsed_selectors_match_labels() {
        let labels: BTreeMap<_, _> = [("app", "web"), ("tier", "2"), ("bare", "")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        for (text, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier", true),
            ("app!=web", false),
            ("app in (web, db),tier notin (3)", true),
            ("app in ()", false),
            ("bare in (x,)", true),
            ("bare in (x)", false),
            ("bare=", true),
            ("in notin (x)", true),
            ("!missing", true),
            ("missing!=x", true),
            ("tier>1", true),
            ("tier<2", false),
        ] {
            assert_eq!(parse(text).unwrap().matches(&labels), expected, "{text}");
        }
        assert!(parse("a b").is_err());
    }
}
