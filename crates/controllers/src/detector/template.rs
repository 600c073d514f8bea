//! Resource templates as the detector stores them. To save memory, the content is stored only for kinds whose replicas
//! or components a built-in rule reads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::well_known;
use berth_interpreter::has_built_in_replicas;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::claim::{Claim, PolicyKind};
use crate::fingerprint::Fingerprints;
use crate::resource_selector::ResourceIdentity;
use crate::resource_type::{ResourceType, TemplateKey};

/// A resource template.
#[derive(Clone, Debug)]
pub struct Template {
    /// The key.
    pub key: TemplateKey,
    /// The UID.
    pub uid: String,
    /// The resource version.
    pub resource_version: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The value of the annotation `scheduling.berth/replica-limits`, which precedes the value of the policy.
    pub replica_limits: Option<String>,
    /// The claim of a policy on the template.
    pub claim: Option<Claim>,
    /// True if the template has at least one label or annotation of a claim of a ClusterPropagationPolicy.
    pub has_cluster_claim: bool,
    /// True if the template is being deleted.
    pub deleting: bool,
    /// The fingerprints, which classify changes of the template.
    pub fingerprints: Fingerprints,
    /// The content, for kinds whose replicas or components a built-in rule reads. It contains no metadata except the
    /// namespace of custom resources.
    pub body: Option<Arc<Value>>,
}

impl Template {
    /// Reads a template.
    pub fn from_object(resource: &Arc<ResourceType>, object: DynamicObject) -> Self {
        let namespace = object.namespace().unwrap_or_default();
        let fingerprints = Fingerprints::of(&object);
        let labels = object.metadata.labels.unwrap_or_default();
        let annotations = object.metadata.annotations.unwrap_or_default();
        let replica_limits = annotations.get(well_known::REPLICA_LIMITS).cloned();
        let interpreted = has_built_in_replicas(&resource.api.api_version, &resource.api.kind);
        let mut body = object.data;
        // Rules for custom resources also read the namespace.
        if resource.api.group.contains('.') && !namespace.is_empty() && body.is_object() {
            body["metadata"] = json!({ "namespace": namespace });
        }
        Self {
            key: resource.key(&namespace, &object.metadata.name.unwrap_or_default()),
            uid: object.metadata.uid.unwrap_or_default(),
            resource_version: object.metadata.resource_version.unwrap_or_default(),
            claim: Claim::read(&namespace, &labels, &annotations),
            has_cluster_claim: annotations
                .contains_key(well_known::CLUSTER_PROPAGATION_POLICY_NAME)
                || labels.contains_key(well_known::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID),
            labels,
            replica_limits,
            deleting: object.metadata.deletion_timestamp.is_some(),
            fingerprints,
            body: interpreted.then(|| Arc::new(body)),
        }
    }

    /// Returns the template with a claim. Simulations call this function instead of writing to a server.
    #[must_use]
    pub fn claimed(&self, claim: &Claim) -> Self {
        let mut template = self.clone();
        if claim.policy.kind == PolicyKind::Namespaced {
            template
                .labels
                .remove(well_known::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID);
        }
        for label in claim.labels().keys() {
            template.labels.insert(label.clone(), claim.id.clone());
        }
        template.has_cluster_claim = claim.policy.kind == PolicyKind::Cluster;
        template.fingerprints = self.fingerprints.with_marks(&claim.id);
        template.claim = Some(claim.clone());
        template
    }

    /// Returns the template without a claim. Simulations call this function instead of writing to a server.
    #[must_use]
    pub fn released(&self, claim: &Claim) -> Self {
        let mut template = self.clone();
        for label in claim.labels().keys() {
            template.labels.remove(label);
        }
        if claim.policy.kind == PolicyKind::Cluster {
            template.has_cluster_claim = false;
        }
        template.fingerprints = self.fingerprints.with_marks("");
        template.claim = None;
        template
    }

    /// Returns the fields that selectors compare.
    pub fn identity(&self) -> ResourceIdentity<'_> {
        ResourceIdentity {
            api_version: self.key.api_version(),
            kind: self.key.kind(),
            namespace: &self.key.namespace,
            name: &self.key.name,
            labels: Cow::Borrowed(&self.labels),
        }
    }

    /// Reports whether another controller has claimed the template.
    pub fn is_reserved(&self) -> bool {
        self.labels
            .get(well_known::CLAIMED_BY)
            .is_some_and(|owner| !owner.is_empty())
    }
}
