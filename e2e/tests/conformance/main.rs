//! Comparisons with recorded facts about Karmada: the decisions of its scheduler, and its CustomResourceDefinitions.

#![expect(clippy::unwrap_used, reason = "test code")]

mod decisions;
mod definitions;
