//! What form of answer the client wants.

use crate::error::{ApiError, Reason};

/// The form of objects in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rendering {
    Full,
    Table,
    Partial,
}

/// How an answer is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    Json,
    Yaml,
}

/// What is asked for: some forms are for objects, others for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Object,
    List,
    /// Events, each with an object.
    Watch,
    /// An answer of which nothing is stored, and which is no row of a table.
    Review,
}

/// The first form in the Accept header that is served.
pub(crate) fn negotiate(accept: &str, asked: Asked) -> Result<(Rendering, Notation), ApiError> {
    if accept.is_empty() {
        return Ok((Rendering::Full, Notation::Json));
    }
    let mut form_is_strange = false;
    for entry in accept.split(',') {
        let mut parts = entry.split(';').map(str::trim);
        let notation = match parts.next().unwrap_or_default() {
            "application/json" | "*/*" | "application/*" => Notation::Json,
            "application/yaml" if asked != Asked::Watch => Notation::Yaml,
            _ => continue,
        };
        let form = parts.find_map(|p| p.strip_prefix("as="));
        match form {
            None => return Ok((Rendering::Full, notation)),
            Some("Table") if entry.contains("v=v2") || asked == Asked::Review => {
                form_is_strange = true;
            }
            Some("Table") => return Ok((Rendering::Table, notation)),
            Some("PartialObjectMetadata") if asked == Asked::List => {
                return Err(unfit(
                    "you requested PartialObjectMetadata, but the requested object is a list",
                ));
            }
            Some("PartialObjectMetadataList") if matches!(asked, Asked::Object | Asked::Review) => {
                return Err(unfit(
                    "you requested PartialObjectMetadataList, but the requested object is not a list",
                ));
            }
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => {
                return Ok((Rendering::Partial, notation));
            }
            Some(_) => form_is_strange = true,
        }
    }
    if form_is_strange {
        return Err(unfit(
            "only the following media types are accepted: application/json, application/yaml",
        ));
    }
    Err(nothing_fits())
}

/// The notation of a document that has but one form. Go clients that ask for protobuf alone read JSON as well.
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
    known.ok_or_else(nothing_fits)
}

fn nothing_fits() -> ApiError {
    let mut error = unfit(
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
         application/json;stream=watch",
    );
    error.subject = Some(Box::default());
    error
}

fn unfit(message: &str) -> ApiError {
    ApiError::new(Reason::NotAcceptable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_served_form_wins() {
        let served = |accept: &str, asked| negotiate(accept, asked).map_err(|error| error.message);
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let json = |rendering| Ok((rendering, Notation::Json));
        assert_eq!(served(kubectl, Asked::List), json(Rendering::Table));
        let go = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(served(go, Asked::Object), json(Rendering::Full));
        let yaml = "application/yaml, application/json";
        let both = [Asked::Object, Asked::Watch].map(|asked| served(yaml, asked));
        assert_eq!(
            both,
            [Ok((Rendering::Full, Notation::Yaml)), json(Rendering::Full)]
        );
        let partial =
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(served(partial, Asked::Watch), json(Rendering::Partial));
        assert!(served(partial, Asked::List).is_err());
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert!(served(table, Asked::Review).is_err());
        assert_eq!(served(kubectl, Asked::Review), json(Rendering::Full));
        assert!(served("text/html", Asked::Object).is_err());
    }
}
