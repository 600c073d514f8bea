//! Comparisons with recorded facts about Karmada: the decisions of its scheduler.

#![expect(clippy::unwrap_used, reason = "test code")]

mod decisions;
