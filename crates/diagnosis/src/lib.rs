//! The diagnosis of a workload: whether it is well, where it is stuck on its way from the template to the members, why,
//! and what to do.
//!
//! ```text
//! template ─> policy ─> scheduling ─> dispatch ─> overrides ─> apply ─> run ─> status
//!                          └──────── a binding and its clusters ───────────┘
//! ```
//!
//! [`of_binding()`] diagnoses the stations that a binding shows. All lists, pages and conditions use it, so that they
//! agree.
//! [`Evidence`] adds what only requests about one workload can find: its template, the policies, its Works, its pods.
//!
//! The crate is pure. It must not use clients, async runtimes or clocks, and it must not know scheduling.

mod apply_failure;
mod copies;
mod diagnosis;
mod dispatch;
mod evidence;
mod finding;
mod health;
mod healthy_condition;
mod migration;
mod of_binding;
mod override_changes;
mod pods;
mod quota_shortage;
mod scheduling;
mod scheduling_failure;
mod trimmed;
mod workload_row;

pub use apply_failure::ApplyFailure;
pub use copies::{ClusterState, CopyRow, CopyState};
pub use diagnosis::{Diagnosis, StationReport};
pub use evidence::{Evidence, MemberEvidence, NearPolicy, PolicyEvidence, Seen, TemplateEvidence};
pub use finding::{Finding, Reason, Station};
pub use health::Health;
pub use healthy_condition::HealthyCondition;
pub use migration::{Eviction, MigratingCondition, Migration, MigrationState, PausedEvictions};
pub use of_binding::{STARTUP, of_binding, of_binding_with};
pub use override_changes::{OverrideChanges, grouped};
pub use pods::{PodProblem, object_problem, pod_problem, workload_problem};
pub use quota_shortage::{QuotaConsumer, QuotaShortage, is_quota_refusal};
pub use trimmed::trimmed;
pub use workload_row::{
    ClusterCount, ClusterStates, HealthCounts, Later, ReplicaCount, WorkloadRow, workload_rows,
};
