//! The PostFilter phase of a scheduling cycle: plugins search for victims, whose eviction makes a binding fit. The
//! module `eviction` then evicts the victims.
//!
//! A cluster reports the capacity of a victim as free some time after the end of the eviction task. In the meantime,
//! the search counts this capacity as free, so that it nominates no further victims for the same binding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use berth_api::{Binding, BindingKey};
use berth_engine::{
    AssumedWorkload, CycleState, Engine, Outcome, Placement, PluginError, Request, ScheduledReason,
    Snapshot,
};
use berth_events::{Note, Severity};

use crate::capacity_book::CapacityBook;
use crate::capacity_book::assumed_capacity::assumed_workload;
use crate::framework::plugin_calls::ExtensionPoints;
use crate::framework::{Nomination, PostFilterContext, State, Victim};

/// Event reason on a binding for which other bindings are evicted.
const REASON_PREEMPTING: &str = "Preempting";
/// Maximum number of victims that a message names.
const NAMED_VICTIMS: usize = 8;

/// Result of the search for victims.
#[derive(Debug, Default)]
pub(super) enum VictimSearchOutcome {
    /// No search took place: the binding does not lack capacity, or no PostFilter plugin is enabled.
    #[default]
    NotSearched,
    /// The search found no set of assignments whose eviction makes the binding fit.
    NoVictims,
    /// Evictions have freed enough capacity, but the clusters have not reported it yet.
    CapacityFreed(Placement),
    /// The binding fits if the reports of the clusters already include all healthy workloads.
    MayFit(Placement),
    /// A plugin nominates victims. After their eviction, the binding fits with this placement.
    Nominated(Arc<str>, Nomination, Placement),
    /// A plugin failed and is called again later.
    Failed(PluginError),
}

impl VictimSearchOutcome {
    /// Returns the text that is appended to the message of the condition.
    pub(super) fn remark(&self) -> Option<String> {
        match self {
            Self::NotSearched | Self::NoVictims => None,
            Self::Failed(error) => Some(format!("; preemption failed: {error}")),
            Self::CapacityFreed(_) => Some(
                "; evictions have freed capacity that the clusters have not reported yet"
                    .to_owned(),
            ),
            Self::MayFit(_) => Some("; it may fit after the next cluster report".to_owned()),
            Self::Nominated(_, nomination, _) => {
                let victims = &nomination.victims;
                let named: Vec<String> = victims
                    .iter()
                    .take(NAMED_VICTIMS)
                    .map(|victim| format!("{} in {}", victim.key, victim.cluster))
                    .collect();
                let more = match victims.len().saturating_sub(NAMED_VICTIMS) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let list = named.join(", ");
                Some(format!(
                    "; preempts {list}{more}, and waits for their capacity"
                ))
            }
        }
    }

    /// Returns the placement whose capacity is reserved for the binding.
    pub(super) fn reserved_placement(&self) -> Option<&Placement> {
        match self {
            Self::NotSearched | Self::NoVictims | Self::Failed(_) => None,
            Self::CapacityFreed(placement)
            | Self::MayFit(placement)
            | Self::Nominated(_, _, placement) => Some(placement),
        }
    }

    /// Reports whether the search must be repeated because a plugin failed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Returns the event that reports the nominated victims.
    pub(super) fn note(&self) -> Option<Note> {
        let Self::Nominated(plugin, nomination, _) = self else {
            return None;
        };
        let count = nomination.victims.len();
        let remark = self.remark().unwrap_or_default();
        let message = format!("{plugin} found {count} to evict{remark}");
        Some(Note {
            severity: Severity::Normal,
            reason: REASON_PREEMPTING,
            message,
        })
    }
}

/// Bindings, by priority, for which a search found no victims while other decisions were waiting for their write. After
/// the write of such a decision, its assignments may become victims.
#[derive(Debug, Default)]
pub(super) struct PreemptionRetries(BTreeMap<i32, BTreeSet<BindingKey>>);

impl PreemptionRetries {
    pub(super) fn add(&mut self, binding: &Binding) {
        let keys = self.0.entry(binding.spec.priority()).or_default();
        keys.insert(binding.key.clone());
    }

    /// Removes and returns the bindings whose priority is higher than `priority`.
    pub(super) fn take_above(&mut self, priority: i32) -> impl Iterator<Item = BindingKey> + use<> {
        let above = priority.checked_add(1);
        let taken = above.map(|above| self.0.split_off(&above));
        taken.into_iter().flatten().flat_map(|(_, keys)| keys)
    }

    /// Removes a deleted binding.
    pub(super) fn remove(&mut self, key: &BindingKey) {
        self.0.retain(|_, keys| {
            keys.remove(key);
            !keys.is_empty()
        });
    }
}

/// The input of a search for victims.
pub(super) struct VictimSearch<'a> {
    pub(super) binding: &'a Arc<Binding>,
    pub(super) request: &'a Request,
    pub(super) snapshot: &'a Arc<Snapshot>,
    pub(super) book: &'a CapacityBook,
    /// True if a decision counts against the capacity of a cluster before the cluster reports the new replicas.
    pub(super) assumes_capacity: bool,
    pub(super) now: Instant,
    pub(super) plugin_state: &'a State,
    pub(super) points: &'a ExtensionPoints,
}

impl VictimSearch<'_> {
    /// Searches for victims if the outcome is that no cluster fits or that capacity is missing.
    pub(super) fn run(
        &self,
        engine: &mut Engine,
        outcome: &Outcome,
        state: &mut CycleState,
    ) -> VictimSearchOutcome {
        let may_help = outcome
            .result
            .as_ref()
            .is_err_and(|error| error.reason() != ScheduledReason::SchedulerError);
        if !may_help || self.points.post_filter.is_empty() {
            return VictimSearchOutcome::NotSearched;
        }
        // A healthy workload may count twice: in the report of its cluster and in the assumed capacity. It must not
        // cause evictions, so leave it out of the assumed capacity.
        let (mut base, left_out_healthy) =
            self.book
                .taken_without_healthy(self.binding, self.assumes_capacity, self.now);
        let pending = self.book.pending_evictions();
        pending.subtract_from(&mut base);
        let mut attempt = |victims: &[Victim]| {
            let mut taken = base.clone();
            for victim in victims {
                if !pending.contains(victim)
                    && let Some(workload) = self.workload_of(victim)
                {
                    taken.free(&victim.cluster, workload);
                }
            }
            engine.schedule_with(self.snapshot, self.request, &taken)
        };
        let evictions_pending = !pending.is_empty();
        if (evictions_pending || left_out_healthy)
            && let Ok(placement) = attempt(&[]).result
        {
            return if evictions_pending {
                VictimSearchOutcome::CapacityFreed(placement)
            } else {
                VictimSearchOutcome::MayFit(placement)
            };
        }
        let mut context = PostFilterContext {
            binding: self.binding,
            request: self.request,
            snapshot: self.snapshot,
            bindings: self.plugin_state,
            attempt: &mut attempt,
        };
        let (plugin, nomination) = match self.points.post_filter(&mut context, state) {
            Ok(Some(found)) => found,
            Ok(None) => return VictimSearchOutcome::NoVictims,
            Err(error) => return VictimSearchOutcome::Failed(error),
        };
        match attempt(&nomination.victims).result {
            Ok(placement) if !nomination.victims.is_empty() => {
                VictimSearchOutcome::Nominated(plugin, nomination, placement)
            }
            _ => VictimSearchOutcome::NoVictims,
        }
    }

    /// Returns the replicas of a victim as a workload. `spec.clusters` or a graceful eviction task of the binding
    /// contains their number.
    fn workload_of(&self, victim: &Victim) -> Option<AssumedWorkload> {
        let binding = self.plugin_state.stored(&victim.key)?;
        let spec = &binding.spec;
        let placed = spec.clusters.iter().find(|t| t.name == victim.cluster);
        let replicas = if let Some(target) = placed {
            target.replicas
        } else {
            let mut tasks = spec.graceful_eviction_tasks.iter();
            let task = tasks.find(|task| task.from_cluster == victim.cluster)?;
            task.replicas.unwrap_or(spec.replicas)
        };
        assumed_workload(spec, replicas).ok()
    }
}

#[cfg(test)]
mod tests;
