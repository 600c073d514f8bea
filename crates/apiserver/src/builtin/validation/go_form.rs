//! Specs of pods and of claims as a kube-apiserver prints them when it says what differs: all fields of the structs that it
//! keeps them in, whose names and order are those of Go.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::differences;

/// Lines beyond which nobody would read what differs, and finding it takes long.
const MOST_LINES: usize = 20_000;

/// Settings of a pod that belong to its security context there.
const OF_CONTEXT: [&str; 5] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
];

/// What a field holds, and so what is printed where nothing is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Bool,
    Int,
    Amount,
    Any,
    Struct(&'static str),
    Pointer(&'static str),
    List(&'static str),
    /// The fields of this struct are among those of the one around it, in JSON perhaps not.
    Embedded(&'static str),
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    json: String,
    kind: Kind,
    optional: bool,
}

static STRUCTS: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let lines = include_str!("go_form.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, fields)| (name, fields.split(", ").filter_map(Field::parse).collect()))
        .collect()
});

impl Field {
    fn parse(text: &'static str) -> Option<Self> {
        let (name, kind) = text.split_once(' ')?;
        let (kind, optional) = match kind.strip_suffix('?') {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let (name, json) = match name.split_once('=') {
            Some((name, json)) => (name, json.to_owned()),
            None if name == "-" => (name, String::new()),
            None => (name, in_json(name)),
        };
        let kind = match kind {
            _ if name == "-" => Kind::Embedded(kind),
            "text" => Kind::Text,
            "bool" => Kind::Bool,
            "int" => Kind::Int,
            "amount" => Kind::Amount,
            "any" => Kind::Any,
            other => match (other.strip_prefix('*'), other.strip_prefix("[]")) {
                (Some(inner), _) => Kind::Pointer(inner),
                (_, Some(inner)) => Kind::List(inner),
                _ => Kind::Struct(other),
            },
        };
        Some(Self {
            name,
            json,
            kind,
            optional,
        })
    }
}

/// The usual name of a field in JSON: `SELinuxOptions` is `seLinuxOptions`.
fn in_json(name: &str) -> String {
    let capitals = name.chars().take_while(char::is_ascii_uppercase).count();
    let small = if capitals == name.len() {
        capitals
    } else {
        capitals.saturating_sub(1).max(1)
    };
    let (front, rest) = name.split_at_checked(small).unwrap_or((name, ""));
    format!("{}{rest}", front.to_ascii_lowercase())
}

/// What differs between two specs of pods.
pub(super) fn pods(before: &Value, after: &Value) -> String {
    different(
        "PodSpec",
        &with_context(before.clone()),
        &with_context(after.clone()),
    )
}

/// What differs between two values of a struct.
pub(super) fn different(name: &'static str, before: &Value, after: &Value) -> String {
    let printed = |value: &Value| {
        let mut printer = Printer::new(true);
        printer.object(name, value, 0);
        printer.text
    };
    let (before, after) = (printed(before), printed(after));
    if before.lines().count().max(after.lines().count()) > MOST_LINES {
        return String::new();
    }
    differences::unified(&before, &after)
}

/// A value of a struct, or a list of them, in one line.
pub(super) fn in_one_line(name: &'static str, value: &Value) -> String {
    let kind = match value {
        Value::Array(_) => Kind::List(name),
        _ => Kind::Pointer(name),
    };
    let mut printer = Printer::new(false);
    printer.one(kind, value, 0);
    printer.text
}

/// A spec whose settings are where they are inside a server.
fn with_context(mut spec: Value) -> Value {
    let moved: Map<String, Value> = OF_CONTEXT
        .iter()
        .filter_map(|&name| Some((name.to_owned(), spec.get(name)?.clone())))
        .collect();
    if !spec["securityContext"].is_object() {
        spec["securityContext"] = Value::Object(Map::new());
    }
    if let Some(context) = spec["securityContext"].as_object_mut() {
        context.extend(moved);
    }
    spec
}

/// Where it is printed to.
struct Printer {
    text: String,
    /// Each field and each item in a line of its own.
    laid_out: bool,
}

impl Printer {
    fn new(laid_out: bool) -> Self {
        Self {
            text: String::new(),
            laid_out,
        }
    }

    fn object(&mut self, name: &str, value: &Value, depth: usize) {
        let mut first = true;
        self.text.push('{');
        self.fields(name, value, depth + 1, &mut first);
        if !first {
            self.break_line(depth);
        }
        self.text.push('}');
    }

    fn fields(&mut self, name: &str, value: &Value, depth: usize, first: &mut bool) {
        for field in STRUCTS.get(name).into_iter().flatten() {
            let inner = &value[field.json.as_str()];
            if let Kind::Embedded(name) = field.kind {
                let of = if field.json.is_empty() { value } else { inner };
                self.fields(name, of, depth, first);
                continue;
            }
            if field.optional && inner.is_null() {
                continue;
            }
            self.key(field.name, std::mem::take(first), depth);
            self.one(field.kind, inner, depth);
        }
    }

    fn one(&mut self, kind: Kind, value: &Value, depth: usize) {
        match (kind, value) {
            (Kind::Struct(name), _) => self.object(name, value, depth),
            (Kind::Text, Value::Null) => self.text.push_str("\"\""),
            (Kind::Bool, Value::Null) => self.text.push_str("false"),
            (Kind::Int, Value::Null) => self.text.push('0'),
            (Kind::Amount, Value::Null) => self.text.push_str("\"0\""),
            (_, Value::Null) => self.text.push_str("null"),
            (Kind::Pointer(name), _) => self.object(name, value, depth),
            (Kind::List(name), Value::Array(items)) => {
                self.list(items, depth, |printer, item| {
                    printer.object(name, item, depth + 1);
                });
            }
            _ => self.plain(value, depth),
        }
    }

    /// A value that has the same form in Go.
    fn plain(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Array(items) => {
                self.list(items, depth, |printer, item| printer.plain(item, depth + 1));
            }
            Value::Object(map) => {
                self.text.push('{');
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by_key(|(name, _)| *name);
                for (place, (name, inner)) in entries.into_iter().enumerate() {
                    self.key(name, place == 0, depth + 1);
                    self.plain(inner, depth + 1);
                }
                if !map.is_empty() {
                    self.break_line(depth);
                }
                self.text.push('}');
            }
            Value::String(inner) => self.text.push_str(&quoted(inner)),
            other => self.text.push_str(&other.to_string()),
        }
    }

    fn list(&mut self, items: &[Value], depth: usize, show: impl Fn(&mut Self, &Value)) {
        self.text.push('[');
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                self.text.push(',');
            }
            self.break_line(depth + 1);
            show(self, item);
        }
        if !items.is_empty() {
            self.break_line(depth);
        }
        self.text.push(']');
    }

    fn key(&mut self, name: &str, is_first: bool, depth: usize) {
        if !is_first {
            self.text.push(',');
        }
        self.break_line(depth);
        self.text.push_str(&quoted(name));
        self.text.push(':');
        if self.laid_out {
            self.text.push(' ');
        }
    }

    fn break_line(&mut self, depth: usize) {
        if self.laid_out {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', depth));
        }
    }
}

/// A text in JSON as Go writes it: fit to stand in a page of HTML.
fn quoted(text: &str) -> String {
    let mut shown = Value::from(text).to_string();
    for (plain, escaped) in [
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ] {
        if shown.contains(plain) {
            shown = shown.replace(plain, escaped);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::builtin::definitions;

    #[test]
    fn every_struct_and_every_field_is_known() {
        for (name, fields) in STRUCTS.iter() {
            let definition = definitions().get(&format!("io.k8s.api.core.v1.{name}"));
            for field in fields {
                if let Kind::Struct(inner)
                | Kind::Pointer(inner)
                | Kind::List(inner)
                | Kind::Embedded(inner) = field.kind
                {
                    assert!(STRUCTS.contains_key(inner), "{name}: {inner}");
                }
                let json = field.json.as_str();
                // Some structs are only within others.
                let known = definition.is_none_or(|known| known["properties"].get(json).is_some());
                let elsewhere = json.is_empty() || OF_CONTEXT.contains(&json);
                assert!(known || elsewhere, "{name}: {} is {json}", field.name);
            }
        }
        assert_eq!(in_json("SELinuxOptions"), "seLinuxOptions");
        assert_eq!(in_json("TTY"), "tty");
        assert_eq!(in_json("matchLabels"), "matchLabels");
    }

    #[test]
    fn texts_are_fit_for_pages() {
        assert_eq!(quoted("a<b>&\"\n"), "\"a\\u003cb\\u003e\\u0026\\\"\\n\"");
    }

    #[test]
    fn settings_of_the_host_belong_to_the_context() {
        let before = json!({"containers": []});
        let after = json!({"containers": [], "hostPID": true});
        let shown = pods(&before, &after);
        assert!(
            shown.contains("-  \"HostPID\": false,\n+  \"HostPID\": true,\n"),
            "{shown}"
        );
    }
}
