//! The error of an overrider that cannot be applied.

/// The reason for which an overrider cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    /// A JSON patch does not fit the resource, or the YAML document in a text field.
    #[error("{operator} {path}: {}", source.kind)]
    Patch {
        operator: String,
        path: String,
        source: json_patch::PatchError,
    },
    /// A JSON patch does not fit the JSON document in a text field.
    #[error("{operator} {path}: {problem}")]
    Text {
        operator: String,
        /// The JSON pointer inside the document.
        path: String,
        problem: String,
    },
    /// A patch is malformed.
    #[error("not a JSON patch: {0}")]
    NotAPatch(#[from] serde_json::Error),
    /// An image name is malformed.
    #[error("{0:?} is not the name of an image")]
    Image(String),
    /// A field is missing or not a string.
    #[error("{0}: there is no text in this field")]
    NotText(String),
    /// An override changed the identity of the resource.
    #[error(
        "{0} identifies the resource and cannot be overridden; propagate a resource of the other name or kind"
    )]
    Identity(&'static str),
    /// An OverridePolicy changed the rights that the resource grants.
    #[error("{0} grants rights; only a ClusterOverridePolicy can change it")]
    Rights(&'static str),
    /// The document in a text field is malformed.
    #[error("{path}: {message}")]
    Document { path: String, message: String },
}
