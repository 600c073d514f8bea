//! Decisions seen from outside: what is promised, what differs from Karmada on purpose, what is explained.

mod explanation;
mod fixtures;
mod gates;
mod parsers;
mod plugins;
mod promises;
mod quirks;
mod snapshots;
