//! Resolution of the kind of each manifest: its resource type and namespace. It also finds the order in which the
//! manifests are applied.

use berth_apimachinery::api_error::api_error_message;
use std::sync::Arc;

use berth_api::{BindingKey, BindingKind};
use berth_controllers::resource_type::ResourceType;
use serde_json::Value;

use super::error::{Problem, SimulateError};
use super::manifest::{self, Manifest, Role};
use super::notes::Notes;
use super::options::SimulateOptions;
use super::sandbox::Sandbox;
use crate::served_kinds::{self, KindLookup, ServedKinds};
use crate::well_known_types;

/// A manifest with its resource type.
pub(crate) struct TypedManifest {
    /// The manifest. Its namespace is set if the type is namespaced.
    pub(crate) manifest: Manifest,
    /// Resource type of the object.
    pub(crate) kind: Arc<ResourceType>,
    /// True if the [`Sandbox`] serves the type. Objects of other types are not validated.
    pub(crate) is_checked: bool,
}

/// Resolves the type and the namespace of each manifest, and sorts the manifests into an order in which they can be
/// applied. Invalid manifests are added to `problems`.
///
/// # Errors
/// Fails if the sandbox or the live control plane does not respond.
pub(crate) async fn resolve(
    manifests: Vec<Manifest>,
    sandbox: &Sandbox,
    live: Option<ServedKinds>,
    default_namespace: &str,
    options: &SimulateOptions,
    problems: &mut Vec<Problem>,
    notes: &mut Notes,
) -> Result<Vec<TypedManifest>, SimulateError> {
    for manifest in &manifests {
        if manifest.kind == "CustomResourceDefinition"
            && let Err(reason) = sandbox.define(&manifest.object).await
            && options.validates
        {
            problems.push(Problem::new(&manifest.location, reason));
        }
    }
    let mut kinds = KindResolver {
        sandbox: sandbox.served_kinds(),
        live,
    };
    let mut typed = Vec::new();
    for mut manifest in manifests {
        if manifest.role == Role::Ignored {
            notes.push(format!(
                "{}: a {} has no effect on scheduling and was ignored",
                manifest.location, manifest.kind
            ));
            continue;
        }
        let (kind, is_checked) = match kinds.find(&manifest).await? {
            Some(found) => found,
            None if !options.validates => {
                let kind = served_kinds::assumed_type(&manifest.api_version, &manifest.kind);
                (kind, false)
            }
            None => {
                let reason = format!("unknown kind {} in {}", manifest.kind, manifest.api_version);
                problems.push(Problem::new(&manifest.location, reason));
                continue;
            }
        };
        if !kind.namespaced {
            manifest.namespace.clear();
        } else if manifest.namespace.is_empty() {
            default_namespace.clone_into(&mut manifest.namespace);
            manifest.object["metadata"]["namespace"] = Value::from(default_namespace);
        }
        typed.push(TypedManifest {
            manifest,
            kind,
            is_checked,
        });
    }
    manifest::refuse_duplicates(&mut typed, |typed| &typed.manifest, problems);
    typed.sort_by_key(
        |typed| match (&typed.manifest.role, typed.manifest.kind.as_str()) {
            (Role::Template, "Namespace") => 0,
            (Role::Cluster | Role::Customization | Role::InterpreterWebhooks, _) => 1,
            // All other manifests keep their order, as with kubectl. The order determines which policy claims a
            // template.
            _ => 2,
        },
    );
    Ok(typed)
}

/// Lookup of the types of manifests.
struct KindResolver {
    /// Kinds that the sandbox serves.
    sandbox: ServedKinds,
    /// Kinds that the live control plane serves, if `--against` selects one.
    live: Option<ServedKinds>,
}

impl KindResolver {
    /// Returns the type of a manifest and whether the sandbox serves the type. Returns `None` if the kind does not
    /// exist.
    async fn find(
        &mut self,
        manifest: &Manifest,
    ) -> Result<Option<(Arc<ResourceType>, bool)>, SimulateError> {
        let karmada_type = match manifest.role {
            Role::Cluster => Some((well_known_types::clusters(), true)),
            Role::Policy(kind) => Some((well_known_types::policies(kind), true)),
            Role::Binding(kind) => Some((well_known_types::bindings(kind), true)),
            Role::Override(kind) => Some((well_known_types::overrides(kind), false)),
            Role::Customization => Some((well_known_types::customizations(), true)),
            Role::InterpreterWebhooks => Some((well_known_types::interpreter_webhooks(), true)),
            Role::Rebalancer => Some((well_known_types::rebalancers(), true)),
            Role::Quota => Some((well_known_types::quotas(), true)),
            Role::Score => Some((well_known_types::scores(), true)),
            Role::Template | Role::Ignored => None,
        };
        if karmada_type.is_some() {
            return Ok(karmada_type);
        }
        let Manifest {
            api_version, kind, ..
        } = manifest;
        let read_error = |error: kube::Error| SimulateError::Read {
            what: format!("the types of {api_version}"),
            reason: api_error_message(&error),
            missing: false,
        };
        let lookup = self
            .sandbox
            .find(api_version, kind)
            .await
            .map_err(read_error)?;
        let unserved = match lookup {
            KindLookup::Served(kind) => return Ok(Some((kind, true))),
            other => other,
        };
        Ok(match (&mut self.live, unserved) {
            (Some(live), _) => match live.find(api_version, kind).await.map_err(read_error)? {
                KindLookup::Served(kind) => Some((kind, false)),
                KindLookup::Missing | KindLookup::UnknownApiVersion => None,
            },
            (None, KindLookup::UnknownApiVersion) => {
                Some((served_kinds::assumed_type(api_version, kind), false))
            }
            (None, _) => None,
        })
    }
}

/// Returns the object of a manifest in the form in which a control plane would store it.
///
/// # Errors
/// Returns the reason why the sandbox refuses the object.
pub(crate) async fn admit(
    sandbox: &mut Sandbox,
    typed: &TypedManifest,
    object: &Value,
    live: Option<&Value>,
) -> Result<Value, Problem> {
    let TypedManifest {
        manifest,
        kind,
        is_checked,
    } = typed;
    if !is_checked {
        return Ok(object.clone());
    }
    let admitted = sandbox.admit(kind, object, live).await;
    admitted.map_err(|reason| {
        // The server's message names the object, except if the object cannot be decoded.
        let named =
            reason.contains(&format!("\"{}\"", manifest.name)) && reason.contains(&manifest.kind);
        if named {
            Problem::new(&manifest.location, reason)
        } else {
            Problem::new(
                &manifest.location,
                format!("{manifest} is refused: {reason}"),
            )
        }
    })
}

/// Returns the key of a binding from its manifest.
pub(crate) fn binding_key(kind: BindingKind, manifest: &Manifest) -> BindingKey {
    BindingKey {
        namespace: match kind {
            BindingKind::Namespaced => Some(manifest.namespace.as_str().into()),
            BindingKind::Cluster => None,
        },
        name: manifest.name.as_str().into(),
    }
}
