//! The template of a workload in the control plane, found by its reference in a binding or by a name on the command line,
//! and the policies.

use std::sync::Arc;

use berth_api::binding::ObjectReference;
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::paged_list::list_all;
use berth_controllers::detector::claim::PolicyKind;
use berth_controllers::detector::policy::PolicyRecord;
use berth_controllers::detector::template::Template;
use berth_controllers::resource_type::ResourceType;
use berth_diagnosis::{Seen, TemplateEvidence};
use kube::Client;
use kube::api::{Api, DynamicObject};
use serde_json::Value;

use crate::binding_objects;
use crate::control_plane_lists::ListError;
use crate::explain::{ExplainError, NameQuery};
use crate::served_kinds::{KindLookup, ServedKinds};
use crate::well_known_types;

/// A template that exists.
#[derive(Clone, Debug)]
pub(super) struct FoundTemplate {
    pub(super) reference: ObjectReference,
    pub(super) resource: Arc<ResourceType>,
    pub(super) template: Template,
    pub(super) object: DynamicObject,
}

impl FoundTemplate {
    fn new(reference: ObjectReference, resource: Arc<ResourceType>, object: DynamicObject) -> Self {
        Self {
            reference,
            template: Template::from_object(&resource, object.clone()),
            resource,
            object,
        }
    }

    pub(super) fn evidence(&self) -> TemplateEvidence {
        let ready = self.object.data.pointer("/status/readyReplicas");
        let created = self.object.metadata.creation_timestamp.as_ref();
        TemplateEvidence {
            created: created.map(|time| time.0),
            is_deleting: self.template.deleting,
            finalizers: self.object.metadata.finalizers.clone().unwrap_or_default(),
            ready: ready.and_then(Value::as_i64),
        }
    }
}

/// Returns the kind and the name of a template, such as `Deployment shop/web`.
pub(super) fn title(resource: &ObjectReference) -> String {
    let (kind, name) = (&resource.kind, &resource.name);
    match resource.namespace.as_deref() {
        None | Some("") => format!("{kind} {name}"),
        Some(namespace) => format!("{kind} {namespace}/{name}"),
    }
}

/// Reads the template that a binding refers to.
pub(super) async fn read(client: &Client, reference: &ObjectReference) -> Seen<FoundTemplate> {
    match binding_objects::template(client, reference).await {
        Ok(Some((resource, object))) => {
            Seen::Found(FoundTemplate::new(reference.clone(), resource, object))
        }
        Ok(None) => Seen::Absent,
        Err(why) => Seen::Hidden(why),
    }
}

/// Finds the template that a name on the command line selects. Without a kind, the kinds that run pods come first.
///
/// # Errors
/// When the control plane cannot be read.
pub(super) async fn find(
    client: &Client,
    query: &NameQuery,
) -> Result<Option<FoundTemplate>, ExplainError> {
    let unreadable = |error: kube::Error| ListError {
        resource: "the kinds of the control plane",
        reason: api_error_message(&error),
    };
    let mut kinds = ServedKinds::new(client.clone());
    kinds.read_common().await.map_err(unreadable)?;
    let served: Vec<(String, String)> = kinds
        .kinds()
        .into_iter()
        .map(|(api_version, kind)| (api_version.to_owned(), kind.to_owned()))
        .collect();
    let named: Vec<&(String, String)> = served
        .iter()
        .filter(|(_, kind)| query.names_kind(kind))
        .collect();
    let (tried, namespace) = if query.has_kind() || !named.is_empty() {
        (named, query.namespace_of_kind())
    } else {
        let likely = LIKELY_KINDS.iter().flat_map(|likely| {
            let served = served.iter();
            served.filter(move |(_, kind)| kind == likely)
        });
        (likely.collect(), query.namespace_before_slash())
    };
    for (api_version, kind) in tried {
        let found = kinds.find(api_version, kind).await.map_err(unreadable)?;
        let KindLookup::Served(resource) = found else {
            continue;
        };
        let api = resource.api(client.clone(), namespace);
        // A kind that the user may not read is not the kind that is meant.
        let Ok(Some(object)) = api.get_opt(query.name()).await else {
            continue;
        };
        let reference = ObjectReference {
            api_version: api_version.clone(),
            kind: kind.clone(),
            namespace: object.metadata.namespace.clone(),
            name: query.name().to_owned(),
            ..ObjectReference::default()
        };
        return Ok(Some(FoundTemplate::new(reference, resource, object)));
    }
    Ok(None)
}

/// The kinds that a name without a kind may mean, in the order in which they are tried.
const LIKELY_KINDS: [&str; 9] = [
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "Service",
    "Ingress",
    "ConfigMap",
    "Secret",
];

/// Lists the policies of both kinds in all namespaces.
///
/// # Errors
/// Returns the reason why they cannot be read.
pub(super) async fn policies(client: &Client) -> Result<Vec<PolicyRecord>, String> {
    let mut records = Vec::new();
    for kind in [PolicyKind::Namespaced, PolicyKind::Cluster] {
        let resource = well_known_types::policies(kind);
        let api: Api<DynamicObject> = resource.api(client.clone(), "");
        let listed = list_all(&api)
            .await
            .map_err(|error| format!("{}: {}", resource.api.plural, api_error_message(&error)))?;
        records.extend(
            listed
                .iter()
                .map(|object| PolicyRecord::from_object(kind, object)),
        );
    }
    Ok(records)
}
