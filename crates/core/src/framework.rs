//! The plugin interface: traits, contexts and errors.
//!
//! | point | trait | called | may change | an error means |
//! |---|---|---|---|---|
//! | PreFilter | [`PreFilter`] | once per cycle, first | the [`CycleState`]; restricts the clusters; skips its Filter | no decision |
//! | Filter | [`PlacementFilter`] | once per placement and fleet; the result is cached | nothing | no decision |
//! | Filter | [`BindingFilter`] | once per cycle | the candidates | no decision |
//! | PreScore | [`PreScore`] | once per cycle with passing clusters | the [`CycleState`]; skips its Score | no decision |
//! | Score, NormalizeScore | [`Score`] | once per cycle | its scores | no decision |
//! | Select | [`Select`] | once per cycle; exactly one plugin | the candidates in use and their order | no decision |
//! | Assign | [`Assign`] | once per cycle; exactly one plugin | the replicas | no decision |
//!
//! A cycle is one pass through the points. With `clusterAffinities`, each tried term is a cycle with its own
//! [`CycleState`]. All calls are made sequentially on the caller's thread in the order of the lists, so a
//! plugin that blocks delays everything. "No decision" means that the binding keeps its clusters;
//! [`PluginError`] tells whether it waits for a change or is retried. A plugin that panics only fails its own
//! cycle.
//!
//! The in-tree plugins use only public items of the crate: `tests/out_of_tree` compiles their
//! sources as a separate crate.

mod assign;
mod choice;
mod context;
mod cycle_state;
mod division;
mod error;
mod filter;
mod lists;
mod observer;
mod point;
mod score;
mod select;

pub use assign::{Assign, AssignContext};
pub use choice::{GroupChoice, GroupExplanation, SelectionExplanation};
pub use context::{BindingContext, CycleContext, PlacementContext, Share};
pub use cycle_state::CycleState;
pub use division::{
    DividedShare, DivisionOperation, DivisionStep, Remainder, RemainderRule, TieBreak, WeightBasis,
};
pub use error::{Failure, PluginError};
pub use filter::{BindingFilter, Filter, PlacementFilter, PreFilter, PreFilterResult, Reason};
pub use lists::{EngineError, Plugins, Weighted};
pub use observer::{Observer, Status};
pub use point::Point;
pub use score::{PreScore, PreScoreResult, Score, Scores};
pub use select::{Order, Select, Selection};
