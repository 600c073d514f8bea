//! The functions and operators of rules, with what they take and give.

mod signatures;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use super::super::types::CelType;
use signatures::{COMPARABLE, GLOBAL, MEMBER, OF_DURATIONS, OF_TIMES, ORDERED};

/// One way to call a function.
#[derive(Debug)]
pub(in crate::schema::rules) struct Signature {
    /// Called on its first argument.
    pub(super) member: bool,
    pub(in crate::schema::rules) takes: Vec<CelType<'static>>,
    pub(super) gives: CelType<'static>,
    /// So many types it leaves open.
    pub(super) open: usize,
}

/// What the selection of a field that may be absent is.
pub(super) fn optional_select() -> &'static Signature {
    static SELECT: LazyLock<Signature> = LazyLock::new(|| Signature {
        member: false,
        takes: vec![CelType::Dyn, CelType::String],
        gives: CelType::optional(CelType::Dyn),
        open: 0,
    });
    &SELECT
}

/// The names of all functions and operators.
#[cfg(test)]
pub(in crate::schema::rules) fn names() -> impl Iterator<Item = &'static str> {
    LIBRARY.keys().map(String::as_str)
}

/// The ways to call a function; none if there is no such function.
pub(super) fn signatures(name: &str) -> Option<&'static [Signature]> {
    LIBRARY.get(name).map(Vec::as_slice)
}

/// The type that a global name stands for.
pub(super) fn type_named(name: &str) -> Option<CelType<'static>> {
    let list = || CelType::list(CelType::Dyn);
    let map = || CelType::map(CelType::Dyn, CelType::Dyn);
    let named = match name {
        "type" => return Some(CelType::Type(None)),
        "bool" => CelType::Bool,
        "bytes" => CelType::Bytes,
        "double" => CelType::Double,
        "int" => CelType::Int,
        "list" => list(),
        "map" => map(),
        "null_type" => CelType::Null,
        "string" => CelType::String,
        "uint" => CelType::Uint,
        "optional_type" => CelType::optional(CelType::Dyn),
        "google.protobuf.Duration" => CelType::Duration,
        "google.protobuf.Timestamp" => CelType::Timestamp,
        "net.IP" => CelType::Named("net.IP"),
        "net.CIDR" => CelType::Named("net.CIDR"),
        _ => return None,
    };
    Some(CelType::Type(Some(Arc::new(named))))
}

static LIBRARY: LazyLock<HashMap<String, Vec<Signature>>> = LazyLock::new(|| {
    let mut library: HashMap<String, Vec<Signature>> = HashMap::new();
    let mut add = |line: &str, member: bool| {
        if let Some((name, signature)) = parse(line, member) {
            library.entry(name).or_default().push(signature);
        }
    };
    for line in lines(GLOBAL) {
        add(line, false);
    }
    for line in lines(MEMBER) {
        add(line, true);
    }
    for operator in ["<", "<=", ">", ">="] {
        for pair in COMPARABLE {
            add(&format!("_{operator}_({pair}) -> bool"), false);
        }
    }
    for (names, of) in [(OF_TIMES, "timestamp"), (OF_DURATIONS, "duration")] {
        for name in names {
            add(&format!("{name}({of}) -> int"), true);
            if of == "timestamp" {
                add(&format!("{name}({of}, string) -> int"), true);
            }
        }
    }
    for of in ORDERED {
        for (name, gives) in [("isSorted", "bool"), ("min", of), ("max", of)] {
            add(&format!("{name}(list({of})) -> {gives}"), true);
        }
        add(&format!("sort(list({of})) -> list({of})"), true);
        add(
            &format!("@sortByAssociatedKeys(list(A), list({of})) -> list(A)"),
            true,
        );
    }
    library
});

fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// The types of libraries; the `true` ones are declared as objects, without fields.
const NAMED: [(&str, bool); 11] = [
    ("kubernetes.URL", true),
    ("kubernetes.Quantity", true),
    ("kubernetes.Semver", true),
    ("kubernetes.NamedFormat", true),
    ("kubernetes.authorization.Authorizer", true),
    ("kubernetes.authorization.PathCheck", true),
    ("kubernetes.authorization.GroupCheck", true),
    ("kubernetes.authorization.ResourceCheck", true),
    ("kubernetes.authorization.Decision", true),
    ("net.IP", false),
    ("net.CIDR", false),
];

/// Whether fields of this type can be asked for, though there are none.
pub(super) fn is_declared_as_object(name: &str) -> bool {
    NAMED.contains(&(name, true))
}

/// Reads `name(type, …) -> type`.
fn parse(line: &str, member: bool) -> Option<(String, Signature)> {
    let (call, gives) = line.rsplit_once(" -> ")?;
    let open = call.find('(')?;
    let inside = call[open..].strip_prefix('(')?.strip_suffix(')')?;
    let mut letters = BTreeMap::new();
    let takes: Option<Vec<CelType<'static>>> = split(inside)
        .map(|written| parse_type(written, &mut letters))
        .collect();
    let gives = parse_type(gives, &mut letters)?;
    let signature = Signature {
        member,
        takes: takes?,
        gives,
        open: letters.len(),
    };
    Some((call[..open].to_owned(), signature))
}

/// The types between brackets.
fn split(inside: &str) -> impl Iterator<Item = &str> {
    let mut rest = inside;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut depth = 0_usize;
        let end = rest.find(|c: char| {
            depth = match c {
                '(' => depth + 1,
                ')' => depth.saturating_sub(1),
                _ => depth,
            };
            c == ',' && depth == 0
        });
        let (first, others) = rest.split_at(end.unwrap_or(rest.len()));
        rest = others.trim_start_matches([',', ' ']);
        Some(first.trim())
    })
}

fn parse_type(written: &str, letters: &mut BTreeMap<String, usize>) -> Option<CelType<'static>> {
    if let Some(open) = written.find('(') {
        let inside = written[open..].strip_prefix('(')?.strip_suffix(')')?;
        let inner: Option<Vec<CelType<'static>>> = split(inside)
            .map(|written| parse_type(written, letters))
            .collect();
        let mut inner = inner?.into_iter();
        let first = inner.next()?;
        return match &written[..open] {
            "list" => Some(CelType::list(first)),
            "map" => Some(CelType::map(first, inner.next()?)),
            "optional" => Some(CelType::optional(first)),
            "type" => Some(CelType::Type(Some(Arc::new(first)))),
            _ => None,
        };
    }
    Some(match written {
        "dyn" => CelType::Dyn,
        "bool" => CelType::Bool,
        "int" => CelType::Int,
        "uint" => CelType::Uint,
        "double" => CelType::Double,
        "string" => CelType::String,
        "bytes" => CelType::Bytes,
        "duration" => CelType::Duration,
        "timestamp" => CelType::Timestamp,
        letter if letter.len() == 1 => {
            let next = letters.len();
            CelType::Variable(*letters.entry(letter.to_owned()).or_insert(next))
        }
        name => CelType::Named(NAMED.iter().find(|(known, _)| *known == name)?.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_signature() {
        let letters = regex::Regex::new(r"\b[AB]\b").unwrap();
        for (table, member) in [(GLOBAL, false), (MEMBER, true)] {
            for line in lines(table) {
                let (name, signature) = parse(line, member).expect(line);
                let takes: Vec<String> = signature.takes.iter().map(ToString::to_string).collect();
                let written = format!("{name}({}) -> {}", takes.join(", "), signature.gives);
                let optional = line.replace("optional(", "optional_type(");
                let expected = letters.replace_all(&optional, |letter: &regex::Captures<'_>| {
                    if &letter[0] == "A" { "_var0" } else { "_var1" }
                });
                assert_eq!(written, expected);
            }
        }
        assert!(signatures("_<_").is_some_and(|s| s.len() == COMPARABLE.len()));
        assert!(signatures("getHours").is_some_and(|s| s.len() == 3));
        assert!(signatures("greatest").is_none());
    }
}
