//! The plugin interface: the traits that plugins implement, and the contexts and errors that they use.
//!
//! | extension point | trait | calls | effect of a plugin |
//! |---|---|---|---|
//! | PreFilter | [`PreFilter`] | once per attempt, before all other points | stores data in the [`CycleState`], restricts the clusters, or skips the Filter with the same name |
//! | Filter | [`PlacementFilter`] | once per placement and fleet; the engine caches the result | rejects clusters |
//! | Filter | [`BindingFilter`] | once per attempt | rejects clusters |
//! | PreScore | [`PreScore`] | once per attempt, if a cluster passes the filters | stores data in the [`CycleState`], or skips the Score with the same name |
//! | Score, NormalizeScore | [`Score`] | once per attempt | adds scores to the candidates |
//! | Select | [`Select`] | once per attempt; there is exactly one plugin | selects candidates, and orders them |
//! | Assign | [`Assign`] | once per attempt; there is exactly one plugin | assigns replicas to the selected clusters |
//!
//! An attempt is one pass through these points. If the placement has `clusterAffinities`, the engine makes one attempt
//! with each affinity term that it tries, and each attempt has its own [`CycleState`].
//!
//! The engine calls the plugins of a point one after the other, on the thread of its caller and in the order of the
//! lists in [`Plugins`]. A plugin that blocks therefore delays the whole decision.
//!
//! If a plugin returns an error, the engine aborts the attempt, and tries the next affinity term if there is one. If the
//! decision ends with this error, the binding keeps its clusters. The [`PluginError`] then determines whether the
//! binding waits for a change, or the scheduler retries it. A panic of a plugin becomes an error of the current attempt.
//!
//! The in-tree plugins use only public items of the crate: `tests/decisions/out_of_tree.rs` compiles their sources in
//! another crate.

mod assign;
mod assignment_explanation;
mod context;
mod cycle_state;
mod engine_plugins;
mod error;
mod filter;
mod observer;
mod point;
mod score;
mod select;
mod selection_explanation;

pub use assign::{Assign, AssignContext};
pub use assignment_explanation::{
    DividedShare, DivisionOperation, DivisionStep, LimitReached, Remainder, RemainderRule,
    TieBreak, WeightBasis,
};
pub use context::{AttemptContext, BindingContext, PlacementContext, Share};
pub use cycle_state::CycleState;
pub use engine_plugins::{EngineError, Plugins, Weighted};
pub use error::{Failure, PluginError};
pub use filter::{BindingFilter, Filter, PlacementFilter, PreFilter, PreFilterResult, Reason};
pub use observer::{Observer, Status};
pub use point::Point;
pub use score::{PreScore, PreScoreResult, Score, Scores};
pub use select::{Order, Select, Selection};
pub use selection_explanation::{GroupChoice, GroupExplanation, SelectionExplanation};
