//! The decision engine: which clusters a workload goes to, and how many replicas each gets.
//!
//! [`Fleet`] follows the Cluster objects and hands out immutable [`Snapshot`]s; [`Request`] is a parsed
//! binding; [`Engine`] turns both into an [`Outcome`], through the points of a decision:
//!
//! 1. **filter**: which clusters can take the workload at all;
//! 2. **score**: which of them are preferred;
//! 3. **select**: which of them are used, under the spread constraints;
//! 4. **assign**: how many replicas each gets.
//!
//! What is done at each point is up to [`Plugins`]; [`framework`] says how they are called, and how errors
//! and panics of theirs are told. How many replicas fit is asked of [`estimate`]. Everything here is pure,
//! synchronous and deterministic: no clock, no I/O, no randomness, no order of a hash map. API objects stop
//! at the border: inside, a cluster is an ordinal, which is its rank by name.

mod affinity;
mod bits;
mod candidate;
mod engine;
mod error;
pub mod estimate;
mod fleet;
pub mod framework;
mod options;
mod outcome;
mod plugins;
mod request;

pub use affinity::CompiledAffinity;
pub use bits::Bits;
pub use candidate::Candidate;
pub use engine::{
    ClusterExplanation, Decision, Engine, Explanation, Refusal, Stage, TermExplanation,
};
pub use error::{FitError, ScheduleError};
pub use estimate::{
    Assumed, AssumedWorkload, Basis, EstimateContext, EstimateError, Estimator, GeneralEstimator,
    Unit,
};
pub use fleet::{
    Aspect, CapacityError, ClusterChange, ClusterView, Fleet, RepellingEffect, RepellingTaint,
    Snapshot,
};
pub use framework::{
    Assign, AssignContext, BindingContext, BindingFilter, CycleContext, CycleState, EngineError,
    Failure, Filter, Observer, Order, PlacementContext, PlacementFilter, PluginError, Plugins,
    Point, PreFilter, PreFilterResult, PreScore, PreScoreResult, Reason, Score, Scores, Select,
    Selection, Share, Status, Weighted,
};
pub use options::{EngineOptions, GATED, Gates, IN_TREE, PluginSet};
pub use outcome::{FailedTerm, Outcome, Placement, Target, TargetComponent};
pub use plugins::{
    ApiEnablement, AssignReplicas, ClusterAffinity, ClusterEviction, ClusterLocality, Group, Party,
    SelectClusters, SpreadConstraint, TaintToleration, WorkloadAffinity, WorkloadAntiAffinity,
    divide, select_groups,
};
pub use request::{
    BindingName, BindingObject, CompiledPlacement, CompiledToleration, ComponentRequest,
    Constraint, Mode, Request, RequestError, ResourceAsk, ResourceRequest, ResourceRequestError,
    SpreadBy, Strategy, Term, TieOrder, WorkloadPeers,
};
