//! The row of a binding in the store.

use std::sync::Arc;

use berth_api::Binding;
use berth_api::well_known::{
    CLUSTER_PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAMESPACE,
};
use berth_diagnosis::{
    ClusterState, Diagnosis, Migration, MigrationState, WorkloadRow, of_binding,
};
use jiff::Timestamp;

/// The clusters of a binding with their replicas, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Targets(Box<[(Box<str>, i32)]>);

impl Targets {
    pub(crate) fn new<'a>(targets: impl Iterator<Item = (&'a str, i32)>) -> Self {
        let mut targets: Vec<(Box<str>, i32)> = targets
            .map(|(name, replicas)| (name.into(), replicas))
            .collect();
        targets.sort_unstable();
        Self(targets.into())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.0.iter().map(|(name, replicas)| (&**name, *replicas))
    }

    pub(crate) fn get(&self, cluster: &str) -> Option<i32> {
        let found = self.0.binary_search_by(|(name, _)| (**name).cmp(cluster));
        found
            .ok()
            .and_then(|index| self.0.get(index))
            .map(|of| of.1)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The policy that holds a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PolicyName {
    /// The namespace of a PropagationPolicy. `None` for a ClusterPropagationPolicy.
    pub(crate) namespace: Option<Box<str>>,
    pub(crate) name: Box<str>,
}

impl PolicyName {
    fn of(binding: &Binding) -> Option<Self> {
        let annotation = |name: &str| {
            let value = binding.annotation(name);
            (!value.is_empty()).then(|| value.into())
        };
        if let Some(name) = annotation(PROPAGATION_POLICY_NAME) {
            let namespace = annotation(PROPAGATION_POLICY_NAMESPACE);
            let own = || binding.key.namespace.as_deref().map(Into::into);
            let namespace = namespace.or_else(own);
            return Some(Self { namespace, name });
        }
        let name = annotation(CLUSTER_PROPAGATION_POLICY_NAME)?;
        Some(Self {
            namespace: None,
            name,
        })
    }

    /// Returns the name that selects exactly this policy in the query of a list: `NAMESPACE/NAME`, or
    /// `ClusterPropagationPolicy/NAME`.
    pub(crate) fn key(&self) -> String {
        let scope = self.namespace.as_deref().unwrap_or_else(|| self.kind());
        format!("{scope}/{}", self.name)
    }

    /// Returns the kind of the policy.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.namespace {
            Some(_) => "PropagationPolicy",
            None => "ClusterPropagationPolicy",
        }
    }
}

impl std::fmt::Display for PolicyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The fields of a binding that the pages show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BindingRow {
    /// The diagnosis in one row, the same as in the lists of the command line.
    pub(crate) workload: WorkloadRow,
    /// The binding without the fields that no diagnosis reads. A change of a cluster needs it for the next diagnosis.
    pub(crate) binding: Arc<Binding>,
    pub(crate) targets: Targets,
    /// The unfinished moves. Boxed, because most bindings have none.
    pub(crate) migration: Option<Box<Migration>>,
    pub(crate) policy: Option<PolicyName>,
}

impl BindingRow {
    /// Diagnoses a binding with the states of its clusters.
    pub(super) fn of(
        binding: Binding,
        clusters: &dyn Fn(&str) -> ClusterState,
        now: Timestamp,
    ) -> Self {
        let binding = berth_diagnosis::trimmed(binding);
        let targets = binding.spec.targets();
        // A dependency has the targets of the workloads that need it, with their replicas.
        let has_replicas = binding.spec.is_workload();
        let targets = targets.iter().map(|of| {
            let replicas = if has_replicas { of.replicas } else { 0 };
            (of.name.as_str(), replicas)
        });
        Self {
            workload: WorkloadRow::of(&binding, clusters, now),
            targets: Targets::new(targets),
            migration: Migration::of(&binding).map(Box::new),
            policy: PolicyName::of(&binding),
            binding: Arc::new(binding),
        }
    }

    /// Diagnoses the binding again.
    pub(super) fn diagnose(&mut self, clusters: &dyn Fn(&str) -> ClusterState, now: Timestamp) {
        self.workload = WorkloadRow::of(&self.binding, clusters, now);
    }

    /// Reports whether the pages show the same for both rows.
    pub(super) fn shows_the_same_as(&self, other: &Self) -> bool {
        self == other
    }

    /// Returns the whole diagnosis of the binding.
    pub(super) fn diagnosis(
        &self,
        clusters: &dyn Fn(&str) -> ClusterState,
        now: Timestamp,
    ) -> Diagnosis {
        of_binding(&self.binding, clusters, now)
    }

    /// Reports whether the workload has a copy in one of the clusters, or is to have one.
    pub(crate) fn has_copy_in(&self, is_one: impl Fn(&str) -> bool) -> bool {
        let reports = &self.binding.status.aggregated_status;
        self.targets.iter().any(|(name, _)| is_one(name))
            || reports.iter().any(|of| is_one(&of.cluster_name))
    }

    /// Returns the state of the migration, or `None` if nothing moves.
    pub(crate) fn migration_state(&self) -> Option<MigrationState> {
        self.migration.as_ref()?.state()
    }

    /// Returns the kind and the name of the workload.
    pub(crate) fn workload(&self) -> String {
        format!("{} {}", self.workload.kind, self.workload.name)
    }

    /// Returns the names of the bindings that need the resource, if it is placed only because of them.
    pub(crate) fn needed_by(&self) -> Vec<String> {
        let spec = &self.binding.spec;
        if spec.placement.is_some() {
            return Vec::new();
        }
        let names = spec.required_by.iter().map(|of| {
            let namespace = of.namespace.as_deref().unwrap_or_default();
            berth_api::BindingKey::new(namespace, &of.name).to_string()
        });
        names.collect()
    }

    /// Reports whether the resource has no policy, and follows the workloads that need it.
    pub(crate) fn is_dependency(&self) -> bool {
        self.binding.spec.placement.is_none()
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        let created = self.binding.metadata.creation_timestamp.as_ref();
        created.map(|time| time.0)
    }
}
