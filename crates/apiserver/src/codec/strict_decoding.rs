//! Field validation of a body: unknown and duplicate fields.

use std::fmt;

use crate::schema::shape::{MOST_NOTED, MOST_NOTED_BYTES};

/// A field that occurs twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DuplicateField {
    pub(crate) path: String,
    /// In YAML, the name and the line of the second occurrence.
    pub(crate) line: Option<(String, u64)>,
}

impl fmt::Display for DuplicateField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some((name, line)) => write!(f, "line {line}: key \"{name}\" already set in map"),
            None => write!(f, "duplicate field \"{}\"", self.path),
        }
    }
}

/// Records a duplicate field. The number and size of records is bounded, as a body may hold many of them below long
/// names.
pub(super) fn record(
    duplicates: &mut Vec<DuplicateField>,
    path: &dyn fmt::Display,
    line: Option<(String, u64)>,
) {
    let recorded: usize = duplicates.iter().map(|field| field.path.len()).sum();
    if duplicates.len() < MOST_NOTED && recorded < MOST_NOTED_BYTES {
        let path = path.to_string();
        duplicates.push(DuplicateField { path, line });
    }
}

/// Returns one warning for each duplicate and each unknown field.
pub(crate) fn warnings(unknown: &[String], duplicates: &[DuplicateField]) -> Vec<String> {
    // The values of an unknown field are not decoded, so a JSON decoder does not notice that it occurs twice.
    let decoded = |field: &&DuplicateField| field.line.is_some() || !unknown.contains(&field.path);
    let duplicates = duplicates.iter().filter(decoded).map(ToString::to_string);
    let unknown = unknown
        .iter()
        .map(|path| format!("unknown field \"{path}\""));
    duplicates.chain(unknown).collect()
}

/// Returns the error of strict field validation.
pub(crate) fn strict_error(unknown: &[String], duplicates: &[DuplicateField]) -> String {
    warnings(unknown, duplicates).join(", ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn duplicates_below_long_names_are_bounded() {
        let (name, fields) = ("n".repeat(1 << 20), r#""d":1,"d":1,"#.repeat(100_000));
        let body = format!(r#"{{"{name}":{{{fields}"e":1}}}}"#);
        let decoded = crate::codec::parse_json(body.as_bytes()).unwrap();
        assert_eq!(decoded.duplicates.len(), 1, "the first path is long");
    }
}
