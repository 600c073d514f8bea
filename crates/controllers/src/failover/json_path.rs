//! The JSONPath templates of Kubernetes, as `kubectl -o jsonpath` knows them: text with paths in braces, `{.replicas}`.
//!
//! The paths are translated to those of RFC 9535. There is no `range`: a label has one value.

use jsonpath_rust::JsonPath as _;
use serde_json::Value;

/// A template that gives no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// A brace has no partner.
    #[error("{0:?} has a brace that is not closed, or not opened")]
    Braces(String),
    /// What is in the braces is no path.
    #[error("{path:?} is no JSONPath: {reason}")]
    Path {
        /// The path.
        path: String,
        /// Why not.
        reason: String,
    },
    /// There is nothing at a path.
    #[error("{0} is not found")]
    Missing(String),
    /// What is there is no single value.
    #[error("{0} is no text, number or truth value")]
    Compound(String),
}

/// The text that a template gives for a document. Several values of one path stand side by side, with blanks between.
///
/// # Errors
/// When it is no template, or there is nothing where it looks.
pub fn render(template: &str, document: &Value) -> Result<String, JsonPathError> {
    let odd = || JsonPathError::Braces(template.to_owned());
    let mut text = String::new();
    let mut rest = template;
    while let Some(start) = rest.find(['{', '}']) {
        text.push_str(&rest[..start]);
        let inside = rest[start..].strip_prefix('{').ok_or_else(odd)?;
        let end = closing(inside, '}').ok_or_else(odd)?;
        text.push_str(&find(inside[..end].trim(), document)?);
        rest = &inside[end + 1..];
    }
    text.push_str(rest);
    Ok(text)
}

/// Where a bracket is closed; what is in quotes or in brackets of its own does not count.
fn closing(text: &str, bracket: char) -> Option<usize> {
    let (mut quote, mut depth, mut escaped) = (None, 0_u32, false);
    for (at, c) in text.char_indices() {
        match quote {
            _ if escaped => escaped = false,
            _ if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == bracket && depth == 0 => return Some(at),
            None => match c {
                '\'' | '"' => quote = Some(c),
                '[' | '(' => depth += 1,
                ']' | ')' => depth = depth.saturating_sub(1),
                _ => {}
            },
        }
    }
    None
}

fn find(path: &str, document: &Value) -> Result<String, JsonPathError> {
    if let Some(literal) = path.strip_prefix('"').and_then(|p| p.strip_suffix('"')) {
        return Ok(literal.to_owned());
    }
    let not_a_path = |reason: String| JsonPathError::Path {
        path: path.to_owned(),
        reason,
    };
    let query = standard(path)
        .ok_or_else(|| not_a_path("it begins with a dot, a bracket, `$` or `@`".to_owned()))?;
    let found = document.query(&query);
    let found = found.map_err(|error| not_a_path(error.to_string()))?;
    // Only a search may find nothing.
    if found.is_empty() && !path.contains(['*', '?', ':']) && !path.contains("..") {
        return Err(JsonPathError::Missing(path.to_owned()));
    }
    let texts: Option<Vec<String>> = found.into_iter().map(text_of).collect();
    match texts {
        Some(texts) => Ok(texts.join(" ")),
        None => Err(JsonPathError::Compound(path.to_owned())),
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A path of Kubernetes as one of RFC 9535. Names after a dot may hold there what they may not here: they go into
/// brackets. A backslash takes a dot into a name.
fn standard(path: &str) -> Option<String> {
    let mut rest = path.strip_prefix(['$', '@']).unwrap_or(path);
    let mut query = "$".to_owned();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = closing(inside, ']')?;
            query.push_str(&rest[..end + 2]);
            rest = &inside[end + 1..];
            continue;
        }
        rest = rest.strip_prefix('.')?;
        if let Some(deeper) = rest.strip_prefix('.') {
            query.push_str("..");
            rest = deeper;
        }
        let (name, after) = name(rest);
        match name.as_str() {
            "" if after.starts_with('[') => {}
            "" => return None,
            "*" => query.push_str("[*]"),
            name => {
                let quoted = Value::from(name).to_string();
                query.extend(["[", &quoted, "]"]);
            }
        }
        rest = after;
    }
    Some(query)
}

/// The name at the beginning of a path, and what comes after it.
fn name(path: &str) -> (String, &str) {
    let (mut name, mut escaped) = (String::new(), false);
    for (at, c) in path.char_indices() {
        match c {
            _ if escaped => {
                name.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' | '[' => return (name, &path[at..]),
            _ => name.push(c),
        }
    }
    (name, "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        json!({
            "replicas": 2, "big": 12_345_678, "ready": true, "phase": "Running", "none": null,
            "my-key": "dash", "a.b": "dot", "nested": { "id": "x1" },
            "conditions": [
                { "type": "Ready", "status": "True" }, { "type": "Done", "status": "False" }],
        })
    }

    #[test]
    fn paths_in_braces_are_replaced_by_what_is_there() {
        for (template, expected) in [
            ("{.replicas}", "2"),
            ("{ .replicas }", "2"),
            ("{$.replicas}", "2"),
            ("{@.big}", "12345678"),
            ("{.ready}", "true"),
            ("{.phase}-{.nested.id}", "Running-x1"),
            ("{.my-key}", "dash"),
            (r"{.a\.b}", "dot"),
            ("{['a.b']}", "dot"),
            ("{.nested['id']}", "x1"),
            ("{.conditions[0].type}", "Ready"),
            ("{.conditions[-1].type}", "Done"),
            (r#"{.conditions[?(@.type=="Done")].status}"#, "False"),
            (r#"{.conditions[?(@.type=="}")].status}"#, ""),
            ("{.conditions[*].type}", "Ready Done"),
            ("{..id}", "x1"),
            (r#"{"v"}{.replicas}"#, "v2"),
            (".replicas", ".replicas"),
            ("", ""),
        ] {
            assert_eq!(
                render(template, &document()).as_deref(),
                Ok(expected),
                "{template}"
            );
        }
    }

    #[test]
    fn what_gives_no_text_says_why() {
        for (template, expected) in [
            ("{.nothing}", ".nothing is not found"),
            ("{.nested}", ".nested is no text, number or truth value"),
            ("{.none}", ".none is no text, number or truth value"),
            (
                "{.replicas",
                r#""{.replicas" has a brace that is not closed, or not opened"#,
            ),
            (
                "x}",
                r#""x}" has a brace that is not closed, or not opened"#,
            ),
        ] {
            let error = render(template, &document()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        for template in [
            "{replicas}",
            "{.}",
            "{.a[}",
            "{range .conditions}",
            "{.a[?(]}",
        ] {
            let error = render(template, &document()).unwrap_err();
            assert!(
                matches!(error, JsonPathError::Path { .. } | JsonPathError::Braces(_)),
                "{template}: {error}"
            );
        }
    }
}
