//! Claims: the labels and annotations that assign a template and its binding to a policy.

use std::collections::BTreeMap;
use std::fmt;

use berth_api::admission::GuardedKind;
use berth_api::well_known::{
    CLUSTER_PROPAGATION_POLICY_NAME, CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
    PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAMESPACE, PROPAGATION_POLICY_PERMANENT_ID,
};
use serde_json::{Map, Value, json};

/// The two kinds of policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// A PropagationPolicy, which claims templates of its own namespace.
    Namespaced,
    /// A ClusterPropagationPolicy, which claims namespaced and cluster-scoped templates.
    Cluster,
}

impl PolicyKind {
    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaced => "PropagationPolicy",
            Self::Cluster => "ClusterPropagationPolicy",
        }
    }

    /// Returns this kind as the type that the admission rules use.
    pub fn guarded(self) -> GuardedKind {
        match self {
            Self::Namespaced => GuardedKind::PropagationPolicy,
            Self::Cluster => GuardedKind::ClusterPropagationPolicy,
        }
    }

    fn labels(self) -> &'static [&'static str] {
        match self {
            Self::Namespaced => &[PROPAGATION_POLICY_PERMANENT_ID],
            Self::Cluster => &[CLUSTER_PROPAGATION_POLICY_PERMANENT_ID],
        }
    }

    fn annotations(self) -> &'static [&'static str] {
        match self {
            Self::Namespaced => &[PROPAGATION_POLICY_NAMESPACE, PROPAGATION_POLICY_NAME],
            Self::Cluster => &[CLUSTER_PROPAGATION_POLICY_NAME],
        }
    }
}

/// The key of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyKey {
    /// The kind of the policy.
    pub kind: PolicyKind,
    /// The namespace, empty for a ClusterPropagationPolicy.
    pub namespace: String,
    /// The name of the policy.
    pub name: String,
}

impl PolicyKey {
    /// Returns `NAMESPACE/NAME` for a PropagationPolicy, and the name for a ClusterPropagationPolicy.
    pub fn full_name(&self) -> String {
        match self.kind {
            PolicyKind::Namespaced => format!("{}/{}", self.namespace, self.name),
            PolicyKind::Cluster => self.name.clone(),
        }
    }

    /// Formats the policy for the start of a sentence in Karmada's events about preemption:
    /// `Propagation policy(shop/p)`, `Cluster propagation policy(p)`.
    pub(super) fn at_sentence_start(&self) -> String {
        let kind = match self.kind {
            PolicyKind::Namespaced => "Propagation policy",
            PolicyKind::Cluster => "Cluster propagation policy",
        };
        format!("{kind}({})", self.full_name())
    }

    /// Formats the policy for another position in such a sentence: `propagation policy(shop/p)`,
    /// `cluster propagation policy(p)`.
    pub(super) fn within_sentence(&self) -> String {
        let kind = match self.kind {
            PolicyKind::Namespaced => "propagation policy",
            PolicyKind::Cluster => "cluster propagation policy",
        };
        format!("{kind}({})", self.full_name())
    }
}

/// Formats a policy as Karmada's other events do: `policy(shop/p)`, `cluster policy(p)`.
impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            PolicyKind::Namespaced => "policy",
            PolicyKind::Cluster => "cluster policy",
        };
        write!(f, "{kind}({})", self.full_name())
    }
}

/// The claim of a policy on a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The policy.
    pub policy: PolicyKey,
    /// The permanent id of the policy. A recreated policy has another id.
    pub id: String,
}

impl Claim {
    /// Reads the claim from the labels and annotations of a template. The claim of a PropagationPolicy precedes the
    /// claim of a ClusterPropagationPolicy. An incomplete claim is ignored. So is the claim of a PropagationPolicy in
    /// another namespace than the template's: only a user of the template can have written it, and the policy's users
    /// must not gain control of the template.
    pub fn read(
        template_namespace: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let label = |key: &str| labels.get(key).filter(|value| !value.is_empty());
        let annotation = |key: &str| annotations.get(key).filter(|value| !value.is_empty());
        let claim = |kind, namespace: &str, name: &str, id: &str| Self {
            policy: PolicyKey {
                kind,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            id: id.to_owned(),
        };
        if let (Some(namespace), Some(name), Some(id)) = (
            annotation(PROPAGATION_POLICY_NAMESPACE),
            annotation(PROPAGATION_POLICY_NAME),
            label(PROPAGATION_POLICY_PERMANENT_ID),
        ) && namespace == template_namespace
        {
            return Some(claim(PolicyKind::Namespaced, namespace, name, id));
        }
        let name = annotation(CLUSTER_PROPAGATION_POLICY_NAME)?;
        let id = label(CLUSTER_PROPAGATION_POLICY_PERMANENT_ID)?;
        Some(claim(PolicyKind::Cluster, "", name, id))
    }

    /// Returns the labels of the claim.
    pub fn labels(&self) -> Map<String, Value> {
        self.policy
            .kind
            .labels()
            .iter()
            .map(|key| ((*key).to_owned(), json!(self.id)))
            .collect()
    }

    /// Returns the annotations of the claim.
    pub fn annotations(&self) -> Map<String, Value> {
        let values = match self.policy.kind {
            PolicyKind::Namespaced => vec![&self.policy.namespace, &self.policy.name],
            PolicyKind::Cluster => vec![&self.policy.name],
        };
        let keys = self.policy.kind.annotations().iter();
        keys.zip(values)
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect()
    }

    /// Returns the metadata of a merge patch that adds the claim. The claim of a PropagationPolicy replaces the claim
    /// of a ClusterPropagationPolicy.
    pub fn patch(&self) -> Value {
        let (mut labels, mut annotations) = (self.labels(), self.annotations());
        if self.policy.kind == PolicyKind::Namespaced {
            erase(PolicyKind::Cluster, &mut labels, &mut annotations);
        }
        json!({ "labels": labels, "annotations": annotations })
    }

    /// Returns the metadata of a merge patch that removes the claim.
    pub fn release_patch(&self) -> Value {
        let (mut labels, mut annotations) = (Map::new(), Map::new());
        erase(self.policy.kind, &mut labels, &mut annotations);
        json!({ "labels": labels, "annotations": annotations })
    }

    /// Reports whether the labels contain this claim. Otherwise a release patch would remove another claim.
    pub fn is_on(&self, labels: &BTreeMap<String, String>) -> bool {
        let mut keys = self.policy.kind.labels().iter();
        keys.all(|key| labels.get(*key) == Some(&self.id))
    }
}

fn erase(kind: PolicyKind, labels: &mut Map<String, Value>, annotations: &mut Map<String, Value>) {
    for key in kind.labels() {
        labels.insert((*key).to_owned(), Value::Null);
    }
    for key in kind.annotations() {
        annotations.insert((*key).to_owned(), Value::Null);
    }
}
