//! The decision engine: which clusters a workload goes to, and how many replicas each gets.
//!
//! [`Fleet`] follows the Cluster objects and hands out immutable [`Snapshot`]s; [`Request`] is a parsed
//! binding; [`Engine`] turns both into an [`Outcome`], through four stages:
//!
//! 1. **filter**: which clusters can take the workload at all ([`filter`]);
//! 2. **score**: which of them are preferred ([`score`]);
//! 3. **select**: which of them are used, under the spread constraints;
//! 4. **assign**: how many replicas each gets.
//!
//! How many replicas fit is asked of [`estimate`]. Everything here is pure, synchronous and deterministic:
//! no clock, no I/O, no randomness, no order of a hash map. API objects stop at the border: inside, a
//! cluster is an ordinal, which is its rank by name.

pub mod affinity;
mod assign;
mod bits;
mod candidate;
mod engine;
mod error;
pub mod estimate;
mod explain;
pub mod filter;
pub mod fleet;
mod options;
mod outcome;
mod plugins;
mod prepared;
mod probe;
mod request;
pub mod score;
mod select;
mod trace;

pub use assign::{Party, divide};
pub use bits::Bits;
pub use candidate::Candidate;
pub use engine::Engine;
pub use error::{FitError, ScheduleError};
pub use estimate::{Assumed, AssumedWorkload, Estimator};
pub use explain::{ClusterExplanation, Explanation, Refusal, Stage, TermExplanation};
pub use filter::{BindingFilter, Filter, PlacementFilter};
pub use fleet::{Aspect, ClusterChange, ClusterView, Fleet, Snapshot};
pub use options::{EngineOptions, GATED, Gates, IN_TREE, PluginSet};
pub use outcome::{FailedTerm, Outcome, Placement, Target, TargetComponent};
pub use plugins::{EngineError, Plugins};
pub use probe::{Probe, Step};
pub use request::{
    BindingName, CompiledPlacement, ComponentRequest, Mode, Request, RequestError, ResourceAsk,
    ResourceRequest, ResourceRequestError, TieOrder, WorkloadPeers,
};
pub use score::Score;
pub use select::{Group, select_groups};
