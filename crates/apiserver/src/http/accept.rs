//! Content negotiation by the Accept header.

use crate::error::{ApiError, Reason};

/// The form of the objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rendering {
    Full,
    Table,
    Partial,
}

/// The serialisation of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    Json,
    Yaml,
}

/// The kind of a response. The supported forms depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    Object,
    List,
    /// A stream of events.
    Watch,
    /// An object that is not stored, and has no table.
    Review,
}

/// Returns the first supported form in the Accept header.
pub(crate) fn negotiate(
    accept: &str,
    response: ResponseKind,
) -> Result<(Rendering, Notation), ApiError> {
    if accept.is_empty() {
        return Ok((Rendering::Full, Notation::Json));
    }
    let mut unsupported_form = false;
    for entry in accept.split(',') {
        let mut parts = entry.split(';').map(str::trim);
        let notation = match parts.next().unwrap_or_default() {
            "application/json" | "*/*" | "application/*" => Notation::Json,
            "application/yaml" if response != ResponseKind::Watch => Notation::Yaml,
            _ => continue,
        };
        let form = parts.find_map(|p| p.strip_prefix("as="));
        match form {
            None => return Ok((Rendering::Full, notation)),
            Some("Table") if entry.contains("v=v2") || response == ResponseKind::Review => {
                unsupported_form = true;
            }
            Some("Table") => return Ok((Rendering::Table, notation)),
            Some("PartialObjectMetadata") if response == ResponseKind::List => {
                return Err(error(
                    "you requested PartialObjectMetadata, but the requested object is a list",
                ));
            }
            Some("PartialObjectMetadataList")
                if matches!(response, ResponseKind::Object | ResponseKind::Review) =>
            {
                return Err(error(
                    "you requested PartialObjectMetadataList, but the requested object is not a list",
                ));
            }
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => {
                return Ok((Rendering::Partial, notation));
            }
            Some(_) => unsupported_form = true,
        }
    }
    if unsupported_form {
        return Err(error(
            "only the following media types are accepted: application/json, application/yaml",
        ));
    }
    Err(not_acceptable())
}

/// Returns the notation of a document with a single form. Go clients that accept only protobuf also read JSON.
pub(crate) fn notation(accept: &str) -> Result<Notation, ApiError> {
    if accept.is_empty() {
        return Ok(Notation::Json);
    }
    let known = accept.split(',').find_map(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let notation = match parts.next().unwrap_or_default() {
            "application/json"
            | "*/*"
            | "application/*"
            | "application/vnd.kubernetes.protobuf" => Notation::Json,
            "application/yaml" => Notation::Yaml,
            _ => return None,
        };
        parts
            .all(|part| !part.starts_with("as="))
            .then_some(notation)
    });
    known.ok_or_else(not_acceptable)
}

fn not_acceptable() -> ApiError {
    let mut error = self::error(
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
         application/json;stream=watch",
    );
    error.subject = Some(Box::default());
    error
}

fn error(message: &str) -> ApiError {
    ApiError::new(Reason::NotAcceptable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_supported_form_wins() {
        let served =
            |accept: &str, response| negotiate(accept, response).map_err(|error| error.message);
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let json = |rendering| Ok((rendering, Notation::Json));
        assert_eq!(served(kubectl, ResponseKind::List), json(Rendering::Table));
        let client_go = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(
            served(client_go, ResponseKind::Object),
            json(Rendering::Full)
        );
        let yaml = "application/yaml, application/json";
        let both =
            [ResponseKind::Object, ResponseKind::Watch].map(|response| served(yaml, response));
        assert_eq!(
            both,
            [Ok((Rendering::Full, Notation::Yaml)), json(Rendering::Full)]
        );
        let partial =
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(
            served(partial, ResponseKind::Watch),
            json(Rendering::Partial)
        );
        assert!(served(partial, ResponseKind::List).is_err());
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert!(served(table, ResponseKind::Review).is_err());
        assert_eq!(served(kubectl, ResponseKind::Review), json(Rendering::Full));
        assert!(served("text/html", ResponseKind::Object).is_err());
    }
}
