//! The table of the kinds that run pods: the field of the replicas, and the path of the pod spec.

/// The field that contains the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplicaField {
    /// `spec.replicas`.
    Replicas,
    /// `spec.parallelism`, limited by `spec.completions`.
    Parallelism,
    /// No field, because the object is a single replica.
    Single,
}

/// A kind that runs pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    /// The field with the replicas, or `None` if the kind has no replicas that can be divided among clusters.
    pub(super) replicas: Option<ReplicaField>,
    /// A JSON pointer to the pod spec.
    pub(super) pod_spec: &'static str,
}

const TEMPLATE: &str = "/spec/template/spec";
const JOB_TEMPLATE: &str = "/spec/jobTemplate/spec/template/spec";

const WORKLOADS: [(&str, &str, Option<ReplicaField>, &str); 7] = [
    (
        "apps/v1",
        "Deployment",
        Some(ReplicaField::Replicas),
        TEMPLATE,
    ),
    (
        "apps/v1",
        "ReplicaSet",
        Some(ReplicaField::Replicas),
        TEMPLATE,
    ),
    (
        "apps/v1",
        "StatefulSet",
        Some(ReplicaField::Replicas),
        TEMPLATE,
    ),
    ("apps/v1", "DaemonSet", None, TEMPLATE),
    ("batch/v1", "Job", Some(ReplicaField::Parallelism), TEMPLATE),
    ("batch/v1", "CronJob", None, JOB_TEMPLATE),
    ("v1", "Pod", Some(ReplicaField::Single), "/spec"),
];

impl Workload {
    /// Returns the row of a kind in the table.
    pub(super) fn of(api_version: &str, kind: &str) -> Option<Self> {
        let mut rows = WORKLOADS.iter();
        let (_, _, replicas, pod_spec) =
            rows.find(|(version, name, _, _)| (*version, *name) == (api_version, kind))?;
        Some(Self {
            replicas: *replicas,
            pod_spec,
        })
    }
}
