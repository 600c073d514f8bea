//! What is strange about the fields of a body: those that are written twice, and in which order it is told of.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::schema::shape::{MOST_NOTED, MOST_NOTED_BYTES, join};

/// Most bytes of field paths that are sorted into the order of the body.
const MOST_PATHS: usize = 16 << 20;

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

/// Notes a field that is written twice. A body may have many of them below long names: after the first ones, or some
/// long ones, no more are noted.
pub(super) fn note(
    duplicates: &mut Vec<Twice>,
    path: &dyn fmt::Display,
    line: Option<(String, u64)>,
) {
    let noted: usize = duplicates.iter().map(|twice| twice.path.len()).sum();
    if duplicates.len() < MOST_NOTED && noted < MOST_NOTED_BYTES {
        let path = path.to_string();
        duplicates.push(Twice { path, line });
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
        left: &mut { MOST_PATHS },
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
    /// How many bytes they may still have.
    left: &'a mut usize,
}

impl Paths<'_> {
    /// Makes room for a path.
    fn spend<E: Error>(&mut self, length: usize) -> Result<(), E> {
        let left = self.left.checked_sub(length);
        *self.left = left.ok_or_else(|| E::custom("the paths are too long"))?;
        Ok(())
    }
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

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let mut at = 0;
        loop {
            self.spend(self.path.len())?;
            let path = format!("{}[{at}]", self.path);
            let (found, left) = (&mut *self.found, &mut *self.left);
            let path = &path;
            if seq
                .next_element_seed(Paths { path, found, left })?
                .is_none()
            {
                return Ok(());
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<(), A::Error> {
        while let Some(key) = access.next_key::<String>()? {
            self.spend(self.path.len() + key.len())?;
            let path = join(self.path, &key);
            self.found.push(path.clone());
            let (found, left) = (&mut *self.found, &mut *self.left);
            let path = &path;
            access.next_value_seed(Paths { path, found, left })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_above_many_fields_cost_no_more_than_the_body() {
        let (name, fields) = ("n".repeat(1 << 20), r#""d":1,"d":1,"#.repeat(100_000));
        let body = format!(r#"{{"{name}":{{{fields}"e":1}}}}"#);
        let decoded = crate::http::body::parsed(body.as_bytes()).unwrap();
        assert_eq!(decoded.duplicates.len(), 1, "the first is long");
        let unknown = ["a", "b"].map(str::to_owned);
        assert_eq!(told(Some(body.as_bytes()), &unknown, &[]).len(), 2);
    }

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
