//! Tests of decisions through the public API: invariants, intended differences from Karmada, explanations.

#![expect(clippy::unwrap_used, reason = "fixtures of tests may fail loudly")]

// The module `out_of_tree` compiles the in-tree plugins, which import the public items of `berth-engine` from `crate`.
pub(crate) use berth_engine::*;

mod component_sets;
mod deviations;
mod explanation;
mod fixtures;
mod gates;
mod invariants;
mod limits;
mod node_pools;
mod objects;
mod observer;
mod out_of_tree;
mod parsers;
mod plugins;
mod points;
mod snapshots;
