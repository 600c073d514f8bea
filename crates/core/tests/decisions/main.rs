//! Tests of decisions through the public API: invariants, intended differences from Karmada, explanations.

#![expect(clippy::unwrap_used, reason = "fixtures of tests may fail loudly")]

mod component_sets;
mod deviations;
mod explanation;
mod fixtures;
mod gates;
mod invariants;
mod objects;
mod observing;
mod parsers;
mod plugins;
mod points;
mod snapshots;
