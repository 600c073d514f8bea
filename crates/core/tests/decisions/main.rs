//! Decisions seen from outside: what is promised, what differs from Karmada on purpose, what is explained.

#![expect(clippy::unwrap_used, reason = "fixtures of tests may fail loudly")]

mod explanation;
mod fixtures;
mod gates;
mod objects;
mod observing;
mod parsers;
mod plugins;
mod points;
mod promises;
mod quirks;
mod snapshots;
