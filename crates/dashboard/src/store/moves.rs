//! The moves since the dashboard started: the last ones with their causes, and the numbers of the last hour.

use std::collections::VecDeque;

use berth_api::BindingKey;
use berth_api::well_known::DEFAULT_SCHEDULER;
use jiff::Timestamp;

use super::{BindingRow, PolicyName, Targets};

/// Maximum number of stored moves.
pub(super) const MAX_MOVES: usize = 1000;
/// Number of minutes whose moves are counted.
const MINUTES: i64 = 60;

/// A change of the clusters or replicas of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) at: Timestamp,
    pub(crate) binding: BindingKey,
    pub(crate) workload: String,
    pub(crate) before: Targets,
    pub(crate) after: Targets,
    pub(crate) cause: Cause,
}

/// The cause of a move, as far as the binding names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Eviction tasks that appeared with the move.
    Evicted(Vec<EvictionCause>),
    /// The number of replicas of the workload changed.
    Scaled { before: i32, after: i32 },
    /// Another policy holds the workload.
    Policy {
        before: Option<PolicyName>,
        after: Option<PolicyName>,
    },
    /// `spec.rescheduleTriggeredAt` changed.
    Requested,
    /// None of the above: the scheduler with this name placed the workload.
    Scheduler(String),
    /// The binding was deleted.
    Deleted,
}

/// An eviction task as the cause of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EvictionCause {
    pub(crate) from: String,
    pub(crate) producer: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Cause {
    /// Returns the cause of the move to the state in a row. `old` is the row before, and `scheduler` the name of the
    /// binding's scheduler.
    pub(super) fn of(old: Option<&BindingRow>, row: &BindingRow, scheduler: String) -> Self {
        let Some(old) = old else {
            return Self::Scheduler(scheduler);
        };
        let evictions = new_evictions(old, row);
        if !evictions.is_empty() {
            return Self::Evicted(evictions);
        }
        let (before, after) = (old.inputs_of_placement(), row.inputs());
        if before.replicas != after.replicas {
            return Self::Scaled {
                before: before.replicas,
                after: after.replicas,
            };
        }
        if before.policy != after.policy {
            return Self::Policy {
                before: before.policy,
                after: after.policy,
            };
        }
        if before.requested_at != after.requested_at && after.requested_at.is_some() {
            return Self::Requested;
        }
        Self::Scheduler(scheduler)
    }

    /// Returns the cause in words: who moved the workload, and why.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Evicted(tasks) => {
                let tasks = tasks.iter().map(|task| {
                    let message = match &*task.message {
                        "" => String::new(),
                        message => format!(": {message}"),
                    };
                    format!(
                        "{} evicted it from {} ({}){message}",
                        task.producer, task.from, task.reason
                    )
                });
                tasks.collect::<Vec<_>>().join("; ")
            }
            Self::Scaled { before, after } => {
                format!("the workload was scaled from {before} to {after} replicas")
            }
            Self::Policy { before, after } => {
                let name = |policy: &Option<PolicyName>| {
                    policy
                        .as_ref()
                        .map_or_else(|| "none".to_owned(), ToString::to_string)
                };
                format!(
                    "the policy changed from {} to {}",
                    name(before),
                    name(after)
                )
            }
            Self::Requested => "a new placement was requested (rescheduleTriggeredAt)".to_owned(),
            Self::Scheduler(name) if name == DEFAULT_SCHEDULER => {
                "the scheduler decided".to_owned()
            }
            Self::Scheduler(name) => format!("the scheduler {name} decided"),
            Self::Deleted => "the binding was deleted".to_owned(),
        }
    }
}

/// Returns the eviction tasks that only the new row has.
fn new_evictions(old: &BindingRow, row: &BindingRow) -> Vec<EvictionCause> {
    let evictions = |row: &BindingRow| {
        let migration = row.migration.as_deref();
        migration.map(|of| of.evictions.clone()).unwrap_or_default()
    };
    let known = evictions(old);
    let tasks = evictions(row).into_iter();
    tasks
        .filter(|task| known.iter().all(|of| of.from != task.from))
        .map(|task| EvictionCause {
            from: task.from,
            producer: task.producer,
            reason: task.reason,
            message: task.message.unwrap_or_default(),
        })
        .collect()
}

/// The numbers of moves by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MoveCounts {
    pub(crate) placed: usize,
    /// Moves between clusters, and changes of replicas.
    pub(crate) moved: usize,
    pub(crate) removed: usize,
}

impl MoveCounts {
    fn add(&mut self, before: &Targets, after: &Targets) {
        if before.is_empty() {
            self.placed += 1;
        } else if after.is_empty() {
            self.removed += 1;
        } else {
            self.moved += 1;
        }
    }
}

/// The last moves, and the numbers of moves in each minute of the last hour.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// At most [`MAX_MOVES`] moves, the newest last.
    last: VecDeque<Move>,
    /// The minutes since the epoch with moves, the newest last.
    minutes: VecDeque<(i64, MoveCounts)>,
}

impl Moves {
    /// Returns the last moves, the newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Move> {
        self.last.iter().rev()
    }

    /// Returns the kept moves of the last hour, the newest first. The hour begins at a full minute, as that of
    /// [`Self::of_last_hour`].
    pub(crate) fn in_last_hour(&self, now: Timestamp) -> impl Iterator<Item = &Move> {
        self.newest_first()
            .take_while(move |of| is_in_last_hour(minute(of.at), now))
    }

    /// Returns the numbers of all moves of the last hour, also of those that are no longer kept.
    pub(crate) fn of_last_hour(&self, now: Timestamp) -> MoveCounts {
        let mut sum = MoveCounts::default();
        let minutes = self.minutes.iter();
        for (_, counts) in minutes.filter(|(minute, _)| is_in_last_hour(*minute, now)) {
            sum.placed += counts.placed;
            sum.moved += counts.moved;
            sum.removed += counts.removed;
        }
        sum
    }

    pub(super) fn record(&mut self, change: Move) {
        let now = minute(change.at);
        while self
            .minutes
            .front()
            .is_some_and(|(old, _)| *old <= now - MINUTES)
        {
            self.minutes.pop_front();
        }
        match self.minutes.back_mut() {
            Some((last, counts)) if *last == now => counts.add(&change.before, &change.after),
            _ => {
                let mut counts = MoveCounts::default();
                counts.add(&change.before, &change.after);
                self.minutes.push_back((now, counts));
            }
        }
        if self.last.len() == MAX_MOVES {
            self.last.pop_front();
        }
        self.last.push_back(change);
    }
}

fn is_in_last_hour(of: i64, now: Timestamp) -> bool {
    of > minute(now) - MINUTES
}

fn minute(at: Timestamp) -> i64 {
    at.as_second().div_euclid(60)
}
