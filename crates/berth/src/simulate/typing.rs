//! From manifests to objects that can be applied: their types, their namespaces, their order.

use std::sync::Arc;

use berth_controllers::binding_key::BindingKind;
use berth_controllers::resource_type::ResourceType;
use berth_scheduler::binding::BindingKey;
use serde_json::Value;

use super::args::SimulateArgs;
use super::catalogue::{self, Catalogue, Known};
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
    /// Whether the sandbox serves the type; others are taken as they come.
    pub(crate) is_checked: bool,
}

/// Finds out what type each manifest has and which namespace it goes to, and puts them in an order in which
/// they can be applied.
///
/// # Errors
/// When the sandbox does not answer.
pub(crate) async fn typed(
    manifests: Vec<Manifest>,
    sandbox: &Sandbox,
    live: Option<Catalogue>,
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
    let mut kinds = Kinds {
        sandbox: sandbox.catalogue(),
        live,
    };
    let mut typed = Vec::new();
    for mut manifest in manifests {
        if manifest.role == Role::Aside {
            notes.push(format!(
                "{}: a {} has no part in scheduling and was left out",
                manifest.place, manifest.kind
            ));
            continue;
        }
        let (kind, is_checked) = match kinds.find(&manifest).await? {
            Some(found) => found,
            None if args.no_validate => {
                let kind = catalogue::assumed(&manifest.api_version, &manifest.kind);
                (kind, false)
            }
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
        typed.push(Typed {
            manifest,
            kind,
            is_checked,
        });
    }
    manifest::refuse_duplicates(&mut typed, |typed| &typed.manifest, problems);
    typed.sort_by_key(
        |typed| match (&typed.manifest.role, typed.manifest.kind.as_str()) {
            (Role::Template, "Namespace") => 0,
            (Role::Cluster, _) => 1,
            // In the order of the manifests, as with kubectl: which policy claims a template depends on it.
            _ => 2,
        },
    );
    Ok(typed)
}

/// Who knows types.
struct Kinds {
    sandbox: Catalogue,
    /// A control plane, which knows more.
    live: Option<Catalogue>,
}

impl Kinds {
    /// The type of a manifest and whether the sandbox serves it; nothing where nobody can mean it.
    async fn find(
        &mut self,
        manifest: &Manifest,
    ) -> Result<Option<(Arc<ResourceType>, bool)>, SimulateError> {
        let own = match manifest.role {
            Role::Cluster => Some((catalogue::clusters(), true)),
            Role::Policy(kind) => Some((catalogue::policies(kind), true)),
            Role::Binding(kind) => Some((catalogue::bindings(kind), true)),
            Role::Override(kind) => Some((catalogue::overrides(kind), false)),
            Role::Template | Role::Aside => None,
        };
        if own.is_some() {
            return Ok(own);
        }
        let Manifest {
            api_version, kind, ..
        } = manifest;
        let asked = |error: kube::Error| SimulateError::Read {
            what: format!("the types of {api_version}"),
            reason: error.to_string(),
            missing: false,
        };
        let known = self.sandbox.find(api_version, kind).await.map_err(asked)?;
        let here = match known {
            Known::Served(kind) => return Ok(Some((kind, true))),
            other => other,
        };
        Ok(match (&mut self.live, here) {
            (Some(live), _) => match live.find(api_version, kind).await.map_err(asked)? {
                Known::Served(kind) => Some((kind, false)),
                Known::Missing | Known::Foreign => None,
            },
            (None, Known::Foreign) => Some((catalogue::assumed(api_version, kind), false)),
            (None, _) => None,
        })
    }
}

/// What a control plane would store of an object that a manifest leads to.
///
/// # Errors
/// The refusal.
pub(crate) async fn admit(
    sandbox: &mut Sandbox,
    typed: &Typed,
    object: &Value,
    live: Option<&Value>,
) -> Result<Value, Problem> {
    let Typed {
        manifest,
        kind,
        is_checked,
    } = typed;
    if !is_checked {
        return Ok(object.clone());
    }
    let admitted = sandbox.admit(kind, object, live).await;
    admitted.map_err(|reason| {
        // What the server says names the object already, unless it could not even be read.
        let named =
            reason.contains(&format!("\"{}\"", manifest.name)) && reason.contains(&manifest.kind);
        if named {
            Problem::new(&manifest.place, reason)
        } else {
            Problem::new(&manifest.place, format!("{manifest} is refused: {reason}"))
        }
    })
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
