//! What is strange about the fields of a body: those that are written twice, and in which order it is told of.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::schema::shape::join;

/// A field that is written twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Twice {
    pub(crate) path: String,
    /// In YAML, its name and the line of what counts.
    pub(crate) line: Option<(String, u64)>,
}

impl fmt::Display for Twice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some((name, line)) => write!(f, "line {line}: key \"{name}\" already set in map"),
            None => write!(f, "duplicate field \"{}\"", self.path),
        }
    }
}

fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// All that is strange, as clients are told it: in the order of the `body`, if it is JSON, and else what is there twice
/// first.
pub(crate) fn told(body: Option<&[u8]>, unknown: &[String], twice: &[Twice]) -> Vec<String> {
    let in_lines = twice.iter().any(|twice| twice.line.is_some());
    body.filter(|_| !in_lines && unknown.len() + twice.len() > 1)
        .and_then(|body| in_order(body, unknown))
        .unwrap_or_else(|| {
            let twice = twice.iter().map(ToString::to_string);
            twice
                .chain(unknown.iter().map(|u| unknown_field(u)))
                .collect()
        })
}

/// The same in one text, for those who want nothing strange.
pub(crate) fn strictly(body: Option<&[u8]>, unknown: &[String], twice: &[Twice]) -> String {
    let lines: Vec<String> = twice
        .iter()
        .filter(|twice| twice.line.is_some())
        .map(|twice| format!("\n  {twice}"))
        .collect();
    if lines.is_empty() {
        return told(body, unknown, twice).join(", ");
    }
    let mut all = vec![format!("yaml: unmarshal errors:{}", lines.concat())];
    all.extend(unknown.iter().map(|u| unknown_field(u)));
    all.join(", ")
}

fn in_order(body: &[u8], unknown: &[String]) -> Option<Vec<String>> {
    let mut paths = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let all = Paths {
        path: "",
        found: &mut paths,
    };
    all.deserialize(&mut deserializer).ok()?;
    let unknown: BTreeSet<&str> = unknown.iter().map(String::as_str).collect();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut told, mut skipped) = (Vec::new(), None::<&str>);
    for path in &paths {
        // Nobody looks into what is not known.
        let inside = |of: &str| {
            let rest = path.strip_prefix(of);
            rest.is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        if skipped.is_some_and(inside) {
            continue;
        }
        let seen = times.entry(path).or_default();
        *seen += 1;
        skipped = unknown.get(path.as_str()).copied();
        if skipped.is_some() && *seen == 1 {
            told.push(unknown_field(path));
        } else if skipped.is_none() && *seen == 2 {
            let path = path.clone();
            told.push(Twice { path, line: None }.to_string());
        }
    }
    Some(told)
}

/// Collects the paths of all fields.
struct Paths<'a> {
    path: &'a str,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Paths<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Paths<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut at = 0;
        loop {
            let path = format!("{}[{at}]", self.path);
            let found = &mut *self.found;
            if seq
                .next_element_seed(Paths { path: &path, found })?
                .is_none()
            {
                return Ok(());
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(key) = access.next_key::<String>()? {
            let path = join(self.path, &key);
            self.found.push(path.clone());
            let found = &mut *self.found;
            access.next_value_seed(Paths { path: &path, found })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_fields_are_told_in_the_order_of_the_body() {
        let body = br#"{"z": 1, "a": {"x": 1, "x": 2, "y": {"q": 1, "q": 2}}, "b": [{"c": 1, "c": 2}], "z": 3}"#;
        let unknown = ["a.y", "z"].map(str::to_owned);
        let twice = ["a.x", "b[0].c", "z"].map(|path| Twice {
            path: path.to_owned(),
            line: None,
        });
        let expected = [
            "unknown field \"z\"",
            "duplicate field \"a.x\"",
            "unknown field \"a.y\"",
            "duplicate field \"b[0].c\"",
        ];
        assert_eq!(told(Some(body), &unknown, &twice), expected);
    }
}
