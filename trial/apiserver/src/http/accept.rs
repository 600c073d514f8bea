//! Content negotiation by the Accept header, for responses in JSON.

use crate::error::{ApiError, Reason};

/// The form of the objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rendering {
    Full,
    Table,
    Partial,
}

/// The kind of a response, which determines the supported forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    Object,
    List,
    /// A stream of watch events.
    Watch,
    /// An object that is not stored. Such an object has no table form.
    Review,
}

/// Returns the form of the first supported entry in the Accept header. Fails at an entry with the form
/// `PartialObjectMetadata` for a list, or `PartialObjectMetadataList` for an object.
pub(crate) fn negotiate(accept: &str, response: ResponseKind) -> Result<Rendering, ApiError> {
    if accept.is_empty() {
        return Ok(Rendering::Full);
    }
    for entry in accept.split(',') {
        let mut parts = entry.split(';').map(str::trim);
        if !is_json(parts.next().unwrap_or_default()) {
            continue;
        }
        match (parts.find_map(|part| part.strip_prefix("as=")), response) {
            (None, _) => return Ok(Rendering::Full),
            (Some("Table"), ResponseKind::Review) => {}
            (Some("Table"), _) if !entry.contains("v=v2") => return Ok(Rendering::Table),
            (Some("PartialObjectMetadata"), ResponseKind::List)
            | (Some("PartialObjectMetadataList"), ResponseKind::Object | ResponseKind::Review) => {
                return Err(not_acceptable());
            }
            (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), _) => {
                return Ok(Rendering::Partial);
            }
            (Some(_), _) => {}
        }
    }
    Err(not_acceptable())
}

/// Checks that the client accepts a document that has only one form, JSON. A client that accepts only protobuf passes,
/// because Go clients also read JSON.
pub(crate) fn check_document(accept: &str) -> Result<(), ApiError> {
    let accepts = |entry: &str| {
        let mut parts = entry.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        (is_json(media) || media == "application/vnd.kubernetes.protobuf")
            && parts.all(|part| !part.starts_with("as="))
    };
    if accept.is_empty() || accept.split(',').any(accepts) {
        return Ok(());
    }
    Err(not_acceptable())
}

pub(crate) fn is_json(media: &str) -> bool {
    matches!(media, "application/json" | "application/*" | "*/*")
}

fn not_acceptable() -> ApiError {
    let message = "only the following media types are accepted: application/json";
    ApiError::new(Reason::NotAcceptable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_supported_form_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let client_go = "application/vnd.kubernetes.protobuf,application/json";
        let yaml = "application/yaml, application/json";
        let partial =
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        for (accept, response, expected) in [
            (kubectl, ResponseKind::List, Some(Rendering::Table)),
            (kubectl, ResponseKind::Review, Some(Rendering::Full)),
            (client_go, ResponseKind::Object, Some(Rendering::Full)),
            (yaml, ResponseKind::Object, Some(Rendering::Full)),
            (partial, ResponseKind::Watch, Some(Rendering::Partial)),
            (partial, ResponseKind::List, None),
            (table, ResponseKind::Review, None),
            ("text/html", ResponseKind::Object, None),
        ] {
            let found = negotiate(accept, response).ok();
            assert_eq!(found, expected, "{accept} {response:?}");
        }
    }
}
