//! What form of answer the client wants.

use crate::error::{ApiError, Reason};

/// The form of objects in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rendering {
    Full,
    Table,
    Partial,
}

/// The first form in the Accept header that is served.
pub(crate) fn negotiate(accept: &str) -> Result<Rendering, ApiError> {
    if accept.is_empty() {
        return Ok(Rendering::Full);
    }
    for entry in accept.split(',') {
        let mut parts = entry.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !matches!(media, "application/json" | "*/*" | "application/*") {
            continue;
        }
        let form = parts.find_map(|p| p.strip_prefix("as="));
        match form {
            None => return Ok(Rendering::Full),
            Some("Table") => return Ok(Rendering::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => {
                return Ok(Rendering::Partial);
            }
            Some(_) => {}
        }
    }
    let mut error = ApiError::new(
        Reason::NotAcceptable,
        "406: Not Acceptable\n\nAvailable representations: application/json, application/json;stream=watch",
    );
    error.subject = Some(Box::default());
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_served_form_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(negotiate(kubectl), Ok(Rendering::Table));
        assert_eq!(
            negotiate("application/vnd.kubernetes.protobuf,application/json"),
            Ok(Rendering::Full)
        );
        assert!(negotiate("text/html").is_err());
    }
}
