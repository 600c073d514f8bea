//! Strict decoding: the warnings and errors for unknown and duplicate fields of a body.

use std::fmt;

use crate::schema::report_limit;

/// A field that occurs twice in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DuplicateField {
    pub(crate) path: String,
    /// For a YAML body, the name of the field and the line of its second occurrence.
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

/// Records a duplicate field, within the limit of [`report_limit`].
pub(super) fn record(
    duplicates: &mut Vec<DuplicateField>,
    path: &dyn fmt::Display,
    line: Option<(String, u64)>,
) {
    if report_limit::has_space(duplicates.iter().map(|field| &field.path)) {
        let path = path.to_string();
        duplicates.push(DuplicateField { path, line });
    }
}

/// Returns one warning for each duplicate field and each unknown field.
pub(crate) fn warnings(unknown: &[String], duplicates: &[DuplicateField]) -> Vec<String> {
    // Go's JSON decoder skips unknown fields, so kube-apiserver does not report their duplicates.
    let decoded = |field: &&DuplicateField| field.line.is_some() || !unknown.contains(&field.path);
    let duplicates = duplicates.iter().filter(decoded).map(ToString::to_string);
    let unknown = unknown
        .iter()
        .map(|path| format!("unknown field \"{path}\""));
    duplicates.chain(unknown).collect()
}

/// Returns the error message of strict field validation.
pub(crate) fn strict_error(unknown: &[String], duplicates: &[DuplicateField]) -> String {
    warnings(unknown, duplicates).join(", ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_total_size_of_recorded_duplicates_is_limited() {
        let (name, fields) = ("n".repeat(1 << 20), r#""d":1,"d":1,"#.repeat(100_000));
        let body = format!(r#"{{"{name}":{{{fields}"e":1}}}}"#);
        let decoded = crate::codec::parse_json(body.as_bytes()).unwrap();
        assert_eq!(
            decoded.duplicates.len(),
            1,
            "the first long path reaches the size limit of the records"
        );
    }
}
