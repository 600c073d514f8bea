//! The check of dependencies that a script or a webhook returns: each dependency needs an API version, a kind, and a
//! name or a label selector.

use berth_api::dependency::DependentObjectReference;

/// Checks that dependencies have a kind, an API version, and a name or a label selector.
///
/// # Errors
/// The index and the problem of the first invalid dependency.
pub(crate) fn check_references(list: &[DependentObjectReference]) -> Result<(), String> {
    for (index, reference) in list.iter().enumerate() {
        check_reference(reference).map_err(|problem| format!("[{index}]: {problem}"))?;
    }
    Ok(())
}

fn check_reference(reference: &DependentObjectReference) -> Result<(), String> {
    if reference.api_version.is_empty() {
        return Err("apiVersion is missing".to_owned());
    }
    if reference.kind.is_empty() {
        return Err("kind is missing".to_owned());
    }
    match &reference.label_selector {
        None if reference.name.is_empty() => {
            Err("name and labelSelector are missing; set one of them".to_owned())
        }
        Some(selector) => match selector.compile() {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("labelSelector: {error}")),
        },
        None => Ok(()),
    }
}
