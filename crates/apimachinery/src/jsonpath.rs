//! JSONPath as in Kubernetes, for the templates of `kubectl -o jsonpath` and for the paths of printer columns.
//!
//! Paths are translated to the standard RFC 9535. The action `range` of templates is not supported.

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

/// An error in a path or a template, or a document without a usable value at the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// A brace has no matching brace.
    #[error("{0:?} has an unmatched brace")]
    Braces(String),
    /// The text in the braces is not a path.
    #[error("{path:?} is not a JSONPath: {reason}")]
    Path {
        /// The path.
        path: String,
        /// The syntax error.
        reason: String,
    },
    /// The document has no value at the path.
    #[error("{0} is not found")]
    Missing(String),
    /// The value at the path is null, a list or an object.
    #[error("{0} is not a string, number or boolean")]
    Compound(String),
}

/// A parsed path, such as `.status.conditions[?(@.type=="Ready")].status`.
///
/// ```
/// use berth_apimachinery::jsonpath::Path;
/// use serde_json::json;
///
/// let path = Path::parse(".spec.ports[*].port")?;
/// let service = json!({ "spec": { "ports": [{ "port": 80 }, { "port": 443 }] } });
/// assert_eq!(path.find(&service), [&json!(80), &json!(443)]);
/// # Ok::<(), berth_apimachinery::jsonpath::JsonPathError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Path(JpQuery);

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    /// When the text is not a JSONPath.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let malformed = |reason: String| JsonPathError::Path {
            path: text.to_owned(),
            reason,
        };
        let query = to_rfc_9535(text).ok_or_else(|| {
            malformed("each step must be a dot and a name, or brackets".to_owned())
        })?;
        let query = parse_json_path(&query).map_err(|error| malformed(error.to_string()))?;
        Ok(Self(query))
    }

    /// Returns all values at the path, in document order.
    pub fn find<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        let found = js_path_process(&self.0, document).unwrap_or_default();
        found.into_iter().map(|value| value.val).collect()
    }
}

/// Renders a template for a document. Each path in braces is replaced by the values at this path, separated by spaces.
///
/// # Errors
/// When the template is malformed, when a path without wildcard, filter, slice or `..` finds no value, or when a value
/// is null, a list or an object.
pub fn render(template: &str, document: &Value) -> Result<String, JsonPathError> {
    let unmatched = || JsonPathError::Braces(template.to_owned());
    let mut text = String::new();
    let mut rest = template;
    while let Some(start) = rest.find(['{', '}']) {
        text.push_str(&rest[..start]);
        let inside = rest[start..].strip_prefix('{').ok_or_else(unmatched)?;
        let end = closing(inside, '}').ok_or_else(unmatched)?;
        text.push_str(&text_at(inside[..end].trim(), document)?);
        rest = &inside[end + 1..];
    }
    text.push_str(rest);
    Ok(text)
}

/// Returns the position of the closing bracket. Skips quoted and nested brackets.
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

/// Returns the text that replaces a pair of braces. The content of the braces is a path or a quoted literal.
fn text_at(path: &str, document: &Value) -> Result<String, JsonPathError> {
    if let Some(literal) = path.strip_prefix('"').and_then(|p| p.strip_suffix('"')) {
        return Ok(literal.to_owned());
    }
    let found = Path::parse(path)?.find(document);
    // Only a path with a wildcard, filter, slice or `..` may find no value.
    if found.is_empty() && !path.contains(['*', '?', ':']) && !path.contains("..") {
        return Err(JsonPathError::Missing(path.to_owned()));
    }
    let texts: Option<Vec<String>> = found.into_iter().map(scalar_text).collect();
    match texts {
        Some(texts) => Ok(texts.join(" ")),
        None => Err(JsonPathError::Compound(path.to_owned())),
    }
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Translates a Kubernetes path to RFC 9535.
///
/// A name after a dot becomes a quoted name in brackets, because Kubernetes allows more characters in names than RFC
/// 9535. A backslash escapes a dot within a name.
fn to_rfc_9535(path: &str) -> Option<String> {
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
        let (name, after) = split_name(rest);
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

/// Splits the first name off a path.
fn split_name(path: &str) -> (String, &str) {
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
    fn paths_in_braces_are_replaced_by_their_values() {
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
    fn missing_values_null_lists_objects_and_malformed_paths_are_errors() {
        for (template, expected) in [
            ("{.nothing}", ".nothing is not found"),
            ("{.nested}", ".nested is not a string, number or boolean"),
            ("{.none}", ".none is not a string, number or boolean"),
            ("{.replicas", r#""{.replicas" has an unmatched brace"#),
            ("x}", r#""x}" has an unmatched brace"#),
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

    #[test]
    fn printer_columns_find_their_values() {
        let object = json!({
            "status": { "conditions": [
                { "type": "Ready", "status": "True" }, { "type": "X", "status": "F" }] },
            "metadata": { "labels": { "a.b/c": "l" } },
            "spec": { "list": [1, 2] },
        });
        for (path, expected) in [
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                json!(["True"]),
            ),
            (
                ".status.conditions[?(@.type=='Ready')].status",
                json!(["True"]),
            ),
            (
                r#".status.conditions[?(@.type!="Ready")].status"#,
                json!(["F"]),
            ),
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([2])),
            (".spec.list[*]", json!([1, 2])),
            (r".metadata.labels.a\.b/c", json!(["l"])),
            (".metadata.labels['a.b/c']", json!(["l"])),
            (".nothing.here", json!([])),
        ] {
            let found = Path::parse(path).unwrap();
            assert_eq!(json!(found.find(&object)), expected, "{path}");
        }
    }
}
