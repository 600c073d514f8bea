//! What a plugin of a decision is: the traits, what they are shown, and how their errors are told.
//!
//! | point | trait | called | may change | an error means |
//! |---|---|---|---|---|
//! | PreFilter | [`PreFilter`] | once for each cycle, first | the [`CycleState`]; keeps clusters out; switches its Filter off | nothing is decided |
//! | Filter | [`PlacementFilter`] | once for a placement and a fleet; the answer is remembered | nothing | nothing is decided |
//! | Filter | [`BindingFilter`] | once for each cycle | the candidates | nothing is decided |
//! | PreScore | [`PreScore`] | once for each cycle in which some cluster passes | the [`CycleState`]; switches its Score off | nothing is decided |
//! | Score, NormalizeScore | [`Score`] | once for each cycle | its scores | nothing is decided |
//! | Select | [`Select`] | once for each cycle; there is exactly one | which candidates are used, and their order | nothing is decided |
//! | Assign | [`Assign`] | once for each cycle; there is exactly one | the replicas | nothing is decided |
//!
//! A cycle is one pass through the points. With `clusterAffinities` each term that is tried is a cycle of its
//! own, with a [`CycleState`] of its own. All calls are made on the thread that asks the engine, one after
//! the other and in the order of the lists; a plugin that waits holds up everything. "Nothing is decided"
//! means that the binding keeps what it has; [`PluginError`] says whether it waits for a change or is tried
//! again. A plugin that panics fails its own cycle and nothing else.
//!
//! The plugins of this crate see no more than what is public at its root: `tests/out_of_tree` compiles their
//! sources as a crate of its own.

mod assign;
mod context;
mod cycle_state;
mod error;
mod filter;
mod lists;
mod observer;
mod point;
mod score;
mod select;

pub use assign::{Assign, AssignContext, Share};
pub use context::{BindingContext, CycleContext, PlacementContext};
pub use cycle_state::CycleState;
pub use error::{Failure, PluginError};
pub use filter::{BindingFilter, Filter, PlacementFilter, PreFilter, PreFilterResult, Reason};
pub use lists::{EngineError, Plugins, Weighted};
pub use observer::{Observer, Status};
pub use point::Point;
pub use score::{PreScore, PreScoreResult, Score, Scores};
pub use select::{Order, Select, Selection};
