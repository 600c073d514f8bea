//! The decision engine: it chooses the clusters of a workload and the number of replicas in each.
//!
//! [`Fleet`] stores the latest state of the Cluster objects, and provides immutable [`Snapshot`]s. [`Request`] is a
//! parsed binding. [`Engine`] reads a snapshot and a request, and returns an [`Outcome`]. A decision has these steps:
//!
//! 1. **filter**: reject the clusters that cannot run the workload;
//! 2. **score**: rank the clusters that passed the filters;
//! 3. **select**: select clusters that satisfy the spread constraints;
//! 4. **assign**: divide the replicas among the selected clusters.
//!
//! Plugins implement these steps. [`framework`] describes when the engine calls plugins, and how it reports errors and
//! panics. Estimators ([`estimate`]) compute how many further replicas fit into a cluster.
//!
//! The *current clusters* of a workload are the clusters in `spec.clusters` of its binding. The replicas in this field
//! are its *current replicas*. The *ordinal* of a cluster is its index in a snapshot, which sorts clusters by name. The
//! engine identifies clusters by ordinal.
//!
//! The engine is pure, synchronous and deterministic: it uses no clock, no I/O, no randomness and no hash order.
//!
//! | module | contents |
//! |---|---|
//! | `fleet` | the latest state of all clusters, and immutable snapshots of this state |
//! | `request` | parsed bindings and compiled placements |
//! | `engine` | the loop over the extension points, and explanations |
//! | [`framework`] | traits, contexts and errors of plugins |
//! | `plugins` | the in-tree plugins |
//! | [`estimate`] | estimators of capacity, and corrections for workloads that clusters do not report yet |
//! | `resource_vector` | resources of nodes and pods, for estimates from resource models |
//! | `options` | feature gates and enabled plugins |
//! | `outcome` | results of decisions |
//! | `error`, `scheduled_reason` | reasons why a workload is not scheduled |
//!
//! ```
//! use berth_api::BindingKey;
//! use berth_api::binding::BindingStatus;
//! use berth_engine::{Engine, EngineOptions, Fleet, Request};
//! use serde_json::json;
//!
//! let mut fleet = Fleet::new();
//! for (name, pods) in [("member1", "20"), ("member2", "10")] {
//!     let cluster = json!({
//!         "metadata": { "name": name },
//!         "spec": { "syncMode": "Push" },
//!         "status": {
//!             "apiEnablements": [{
//!                 "groupVersion": "apps/v1",
//!                 "resources": [{ "name": "deployments", "kind": "Deployment" }],
//!             }],
//!             "resourceSummary": { "allocatable": { "pods": pods } },
//!         },
//!     });
//!     fleet.apply(&serde_json::from_value(cluster)?);
//! }
//! let binding = json!({
//!     "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
//!     "replicas": 3,
//!     "placement": { "replicaScheduling": {
//!         "replicaSchedulingType": "Divided",
//!         "replicaDivisionPreference": "Weighted",
//!         "weightPreference": { "dynamicWeight": "AvailableReplicas" },
//!     } },
//! });
//! let spec = serde_json::from_value(binding)?;
//! let status = BindingStatus::default();
//! let request = Request::new(&BindingKey::new("default", "web-deployment"), &spec, &status)?;
//!
//! let mut engine = Engine::new(EngineOptions::default())?;
//! let placement = engine.schedule(&fleet.snapshot(), &request).result?;
//! let replicas: Vec<_> = placement.targets.iter().map(|t| (&*t.name, t.replicas)).collect();
//! assert_eq!(replicas, [("member1", 2), ("member2", 1)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod candidate;
mod cluster_set;
mod engine;
mod error;
pub mod estimate;
mod fleet;
pub mod framework;
mod options;
mod outcome;
mod plugins;
mod request;
mod resource_vector;
mod scheduled_reason;

pub use candidate::Candidate;
pub use cluster_set::Bits;
pub use engine::{
    ClusterExplanation, Decision, Engine, Explanation, Refusal, Stage, TermExplanation,
};
pub use error::{FitError, ScheduleError};
pub use estimate::{
    Assumed, AssumedWorkload, Basis, EstimateContext, EstimateError, Estimator, GeneralEstimator,
    Unit,
};
pub use fleet::{
    Aspect, CapacityError, ClusterChange, ClusterView, CompiledAffinity, Fleet, RepellingEffect,
    RepellingTaint, Snapshot, UnmetRequirement,
};
pub use framework::{
    Assign, AssignContext, AttemptContext, BindingContext, BindingFilter, CycleState, DividedShare,
    DivisionOperation, DivisionStep, EngineError, Failure, Filter, GroupChoice, GroupExplanation,
    LimitReached, Observer, Order, PlacementContext, PlacementFilter, PluginError, Plugins, Point,
    PreFilter, PreFilterResult, PreScore, PreScoreResult, Reason, Remainder, RemainderRule, Score,
    Scores, Select, Selection, SelectionExplanation, Share, Status, TieBreak, WeightBasis,
    Weighted,
};
pub use options::{EngineOptions, PluginSet};
pub use outcome::{FailedTerm, Outcome, Placement, Target, TargetComponent};
pub use plugins::{
    ApiEnablement, AssignReplicas, ClusterAffinity, ClusterEviction, ClusterLocality, GATED, Group,
    IN_TREE, Party, SelectClusters, SpreadConstraint, TaintToleration, WorkloadAffinity,
    WorkloadAntiAffinity, applied_constraints, covered_groups, divide, select_groups,
};
pub use request::{
    CompiledLimits, CompiledPlacement, CompiledToleration, ComponentRequest, Constraint,
    EarlierRequest, Mode, ReplicaBounds, Request, RequestError, ResourceAmount, ResourceRequest,
    ResourceRequestError, RulesChange, SpreadBy, Strategy, Term, TieOrder, WorkloadPeers,
};
pub use scheduled_reason::ScheduledReason;
