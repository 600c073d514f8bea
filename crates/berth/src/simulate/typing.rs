//! From manifests to objects that can be applied: their types, their namespaces, their order.

use std::sync::Arc;

use berth_controllers::detector::desired_binding::BindingKind;
use berth_controllers::detector::resource_type::ResourceType;
use berth_scheduler::binding::BindingKey;
use serde_json::Value;

use super::args::SimulateArgs;
use super::catalogue::{self, Known};
use super::error::{Problem, SimulateError};
use super::manifest::{self, Manifest, Role};
use super::notes::Notes;
use super::sandbox::Sandbox;

/// A manifest with its type and with the namespace that it would be applied to.
pub(crate) struct Typed {
    /// The manifest.
    pub(crate) manifest: Manifest,
    /// Its type.
    pub(crate) kind: Arc<ResourceType>,
}

/// Finds out what type each manifest has and which namespace it goes to, and puts them in an order in which
/// they can be applied.
///
/// # Errors
/// When the sandbox does not answer.
pub(crate) async fn typed(
    manifests: Vec<Manifest>,
    sandbox: &Sandbox,
    default_namespace: &str,
    args: &SimulateArgs,
    problems: &mut Vec<Problem>,
    notes: &mut Notes,
) -> Result<Vec<Typed>, SimulateError> {
    for manifest in &manifests {
        if manifest.kind == "CustomResourceDefinition"
            && let Err(reason) = sandbox.define(&manifest.object).await
            && !args.no_validate
        {
            problems.push(Problem::new(&manifest.place, reason));
        }
    }
    let mut catalogue = sandbox.catalogue();
    let mut typed = Vec::new();
    for mut manifest in manifests {
        if manifest.role == Role::Aside {
            notes.push(format!(
                "{}: a {} has no part in scheduling and was left out",
                manifest.place, manifest.kind
            ));
            continue;
        }
        let kind = match kind_of(&manifest, &mut catalogue).await? {
            Some(kind) => kind,
            None if args.no_validate => catalogue::assumed(&manifest.api_version, &manifest.kind),
            None => {
                let reason = format!("unknown kind {} in {}", manifest.kind, manifest.api_version);
                problems.push(Problem::new(&manifest.place, reason));
                continue;
            }
        };
        if !kind.namespaced {
            manifest.namespace.clear();
        } else if manifest.namespace.is_empty() {
            default_namespace.clone_into(&mut manifest.namespace);
            manifest.object["metadata"]["namespace"] = Value::from(default_namespace);
        }
        typed.push(Typed { manifest, kind });
    }
    manifest::refuse_duplicates(&mut typed, |typed| &typed.manifest, problems);
    typed.sort_by_key(
        |typed| match (&typed.manifest.role, typed.manifest.kind.as_str()) {
            (Role::Template, "Namespace") => 0,
            (Role::Cluster, _) => 1,
            (Role::Template, _) => 3,
            _ => 2,
        },
    );
    Ok(typed)
}

async fn kind_of(
    manifest: &Manifest,
    catalogue: &mut catalogue::Catalogue,
) -> Result<Option<Arc<ResourceType>>, SimulateError> {
    Ok(match manifest.role {
        Role::Cluster => Some(catalogue::clusters()),
        Role::Policy(kind) => Some(catalogue::policies(kind)),
        Role::Override(kind) => Some(catalogue::overrides(kind)),
        Role::Binding(kind) => Some(catalogue::bindings(kind)),
        Role::Aside => None,
        Role::Template => {
            let known = catalogue.find(&manifest.api_version, &manifest.kind).await;
            match known.map_err(|error| SimulateError::Sandbox(error.to_string()))? {
                Known::Served(kind) => Some(kind),
                Known::Missing => None,
                Known::Foreign => Some(catalogue::assumed(&manifest.api_version, &manifest.kind)),
            }
        }
    })
}

/// Why a manifest is refused. What the server says of a resource names it already.
pub(crate) fn refusal(manifest: &Manifest, kind: &ResourceType, reason: &str) -> String {
    if reason.contains(&format!("\"{}\"", manifest.name)) && reason.contains(&kind.api.kind) {
        reason.to_owned()
    } else {
        format!("{manifest} is refused: {reason}")
    }
}

/// The key of a binding that a manifest gives.
pub(crate) fn binding_key(kind: BindingKind, manifest: &Manifest) -> BindingKey {
    BindingKey {
        namespace: match kind {
            BindingKind::Namespaced => Some(manifest.namespace.as_str().into()),
            BindingKind::Cluster => None,
        },
        name: manifest.name.as_str().into(),
    }
}
