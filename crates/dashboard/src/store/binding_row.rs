//! The row of a binding in the store.

use std::sync::Once;

use berth_api::well_known::{
    CLUSTER_PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAME, PROPAGATION_POLICY_NAMESPACE,
};
use berth_api::{Binding, BindingKey};
use berth_diagnosis::{
    ClusterState, Diagnosis, Migration, MigrationState, WorkloadRow, of_binding,
};
use jiff::Timestamp;
use tracing::warn;

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

/// The inputs of a placement whose changes cause moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlacementInputs {
    pub(super) replicas: i32,
    pub(super) requested_at: Option<Timestamp>,
    pub(super) policy: Option<PolicyName>,
}

/// The fields of a binding that the pages show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BindingRow {
    /// The diagnosis in one row, the same as in the lists of the command line.
    pub(crate) workload: WorkloadRow,
    /// The binding for the next diagnosis.
    encoded: EncodedBinding,
    pub(crate) targets: Targets,
    /// The unfinished moves. Boxed, because most bindings have none.
    pub(crate) migration: Option<Box<Migration>>,
    pub(crate) policy: Option<PolicyName>,
    created: Option<Timestamp>,
    /// The names of the bindings that need the resource, if it has no placement of its own.
    needed_by: Option<Box<[Box<str>]>>,
    /// The clusters that report a copy and are no targets: the copies leave.
    leaving: Box<[Box<str>]>,
    /// The replicas of the template.
    replicas: i32,
    /// True if the kind of the workload belongs to `apps/v1`.
    pub(crate) is_in_apps_v1: bool,
    /// The time of the last request for a new placement.
    requested_at: Option<Timestamp>,
    scheduled_at: Option<Timestamp>,
    /// The inputs of the last placement, if they have changed since. Boxed, because most bindings have none.
    placed_with: Option<Box<PlacementInputs>>,
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
        let targets = Targets::new(targets);
        let reports = binding.status.aggregated_status.iter();
        let leaving = reports.map(|of| &*of.cluster_name);
        let leaving = leaving.filter(|name| targets.get(name).is_none());
        Self {
            workload: WorkloadRow::of(&binding, clusters, now),
            leaving: leaving.map(Into::into).collect(),
            replicas: binding.spec.replicas,
            is_in_apps_v1: binding.spec.resource.api_version == "apps/v1",
            requested_at: binding.spec.reschedule_triggered_at.as_ref().map(|at| at.0),
            scheduled_at: binding.status.last_scheduled_time.as_ref().map(|at| at.0),
            placed_with: None,
            targets,
            migration: Migration::of(&binding).map(Box::new),
            policy: PolicyName::of(&binding),
            created: binding.metadata.creation_timestamp.as_ref().map(|at| at.0),
            needed_by: binding
                .spec
                .placement
                .is_none()
                .then(|| needed_by(&binding)),
            encoded: EncodedBinding::of(&binding),
        }
    }

    /// Diagnoses the binding again. If the binding cannot be decoded, the last diagnosis remains.
    pub(super) fn diagnose(
        &mut self,
        key: &BindingKey,
        clusters: &dyn Fn(&str) -> ClusterState,
        now: Timestamp,
    ) {
        if let Some(binding) = self.encoded.decode(key) {
            self.workload = WorkloadRow::of(&binding, clusters, now);
        } else {
            self.workload.health = self.workload.health_at(now);
            self.workload.later.take_if(|later| later.at <= now);
        }
    }

    /// Returns the time at which the row may become outdated without a change.
    pub(super) fn next_change(&self) -> Option<Timestamp> {
        self.workload.later.map(|later| later.at)
    }

    /// Keeps the inputs of the last placement of the old row, until the scheduler has used the new inputs.
    pub(super) fn keep_inputs(&mut self, old: &Self) {
        if old.targets != self.targets || old.scheduled_at != self.scheduled_at {
            return;
        }
        let inputs = old.inputs_of_placement();
        self.placed_with = (inputs != self.inputs()).then(|| Box::new(inputs));
    }

    /// Returns the inputs of the last placement.
    pub(super) fn inputs_of_placement(&self) -> PlacementInputs {
        let placed_with = self.placed_with.as_deref();
        placed_with.cloned().unwrap_or_else(|| self.inputs())
    }

    /// Returns the present inputs of a placement.
    pub(super) fn inputs(&self) -> PlacementInputs {
        PlacementInputs {
            replicas: self.replicas,
            requested_at: self.requested_at,
            policy: self.policy.clone(),
        }
    }

    /// Reports whether the pages show the same for both rows.
    pub(super) fn shows_the_same_as(&self, other: &Self) -> bool {
        self == other
    }

    /// Returns the whole diagnosis of the binding, or only the parts in the row if the binding cannot be decoded.
    pub(super) fn diagnosis(
        &self,
        key: &BindingKey,
        clusters: &dyn Fn(&str) -> ClusterState,
        now: Timestamp,
    ) -> Diagnosis {
        let row = &self.workload;
        self.encoded.decode(key).map_or_else(
            || Diagnosis {
                health: row.health_at(now),
                verdict: row.verdict.clone(),
                reason: row.reason,
                fix: row.fix.clone(),
                since: row.since,
                ..Diagnosis::default()
            },
            |binding| of_binding(&binding, clusters, now),
        )
    }

    /// Returns the clusters with a copy of the workload, with the assigned replicas. A cluster from which the copy leaves
    /// has none assigned. All pages count workloads by these clusters.
    pub(crate) fn copies(&self) -> impl Iterator<Item = (&str, i32)> {
        let leaving = self.leaving.iter().map(|name| (&**name, 0));
        self.targets.iter().chain(leaving)
    }

    /// Reports whether the workload has a copy in one of the clusters, or is to have one.
    pub(crate) fn has_copy_in(&self, is_one: impl Fn(&str) -> bool) -> bool {
        self.copies().any(|(name, _)| is_one(name))
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
    pub(crate) fn needed_by(&self) -> &[Box<str>] {
        self.needed_by.as_deref().unwrap_or_default()
    }

    /// Reports whether the resource has no policy, and follows the workloads that need it.
    pub(crate) fn is_dependency(&self) -> bool {
        self.needed_by.is_some()
    }

    /// Returns the number of bytes of the row and of its encoded binding.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.encoded.0.len()
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.created
    }
}

fn needed_by(binding: &Binding) -> Box<[Box<str>]> {
    let names = binding.spec.required_by.iter().map(|of| {
        let namespace = of.namespace.as_deref().unwrap_or_default();
        BindingKey::new(namespace, &of.name).to_string().into()
    });
    names.collect()
}

/// A binding as JSON, without its key. The decoded types would take several times the memory, most of it for maps and
/// absent fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EncodedBinding(Box<[u8]>);

impl EncodedBinding {
    fn of(binding: &Binding) -> Self {
        let parts = (&binding.metadata, &binding.spec, &binding.status);
        // The types have string keys only, so that they can always be written.
        Self(serde_json::to_vec(&parts).unwrap_or_default().into())
    }

    /// Returns the binding, or `None` if it cannot be decoded. The first such error is logged.
    fn decode(&self, key: &BindingKey) -> Option<Binding> {
        static LOGGED: Once = Once::new();
        match serde_json::from_slice(&self.0) {
            Ok((metadata, spec, status)) => Some(Binding {
                key: key.clone(),
                metadata,
                spec,
                status,
            }),
            Err(error) => {
                LOGGED.call_once(|| {
                    warn!(binding = %key, %error, "cannot decode a stored binding; its last diagnosis remains");
                });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use berth_diagnosis::Later;
    use serde_json::json;

    use super::*;

    /// Returns a binding with all fields of the diagnosis.
    fn binding() -> Binding {
        let time = "2026-01-01T00:00:00Z";
        let binding: ResourceBinding = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web", "creationTimestamp": time, "deletionTimestamp": time,
                "annotations": {"migration.berth/evicted-from": "m1"}},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "replicas": 2,
                "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2"}], "placement": {},
                "replicaRequirements": {}, "suspension": {"scheduling": true},
                "gracefulEvictionTasks": [{"fromCluster": "m3", "reason": "r", "producer": "p", "creationTimestamp": time}],
                "requiredBy": [{"namespace": "shop", "name": "other", "clusters": [{"name": "m1"}]}]},
            "status": {"lastScheduledTime": time, "schedulerObservedGeneration": 3,
                "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "",
                    "lastTransitionTime": time}],
                "aggregatedStatus": [{"clusterName": "m1", "appliedMessage": "no", "health": "Unknown",
                    "status": {"readyReplicas": 1}}, {"clusterName": "m2", "applied": true}]},
        }))
        .unwrap();
        berth_diagnosis::trimmed(binding.into())
    }

    #[test]
    fn an_encoded_binding_keeps_all_fields_of_the_diagnosis() {
        let binding = binding();
        let decoded = EncodedBinding::of(&binding).decode(&binding.key).unwrap();
        assert_eq!(decoded, binding);
        assert!(decoded.metadata.deletion_timestamp.is_some());
    }

    #[test]
    fn a_row_remains_if_its_binding_cannot_be_decoded() {
        let binding = binding();
        let (key, now) = (binding.key.clone(), Timestamp::UNIX_EPOCH);
        let clusters = |_: &str| ClusterState::Missing;
        let mut row = BindingRow::of(binding, &clusters, now);
        row.encoded = EncodedBinding(b"{".as_slice().into());
        let (health, verdict) = (row.workload.health, row.workload.verdict.clone());
        let at = now;
        row.workload.later = Some(Later { at, health });
        row.diagnose(&key, &clusters, now);
        assert_eq!(row.workload.name, "web");
        assert_eq!(
            (row.workload.health, &row.workload.verdict),
            (health, &verdict)
        );
        // The row is not outdated again and again.
        assert_eq!(row.next_change(), None);
        let found = row.diagnosis(&key, &clusters, now);
        assert_eq!((found.health, found.verdict), (health, verdict));
    }
}
