//! PostFilter: plugins are asked what has to go so that a binding fits that fits nowhere.
//!
//! The room of a victim is free when its cluster reports so; from the end of its eviction task until then it is on its
//! way, and nothing more is preempted for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_core::{
    Assumed, AssumedWorkload, CycleState, Engine, Outcome, Placement, PluginError, Request,
    ScheduleError, Snapshot,
};
use berth_events::{Note, Severity};

use super::Owner;
use crate::assume::workload;
use crate::binding::{Binding, BindingKey};
use crate::framework::service_points::ServicePoints;
use crate::framework::{Nomination, PostFilterContext, State, Victim};
use crate::preemption::REASON;

/// The reason of the event on a binding that others are evicted for.
const REASON_PREEMPTING: &str = "Preempting";
/// How long room is waited for whose workload has gone and whose cluster does not report.
const REPORTED_WITHIN: Duration = Duration::from_mins(1);
/// How many victims a message names.
const NAMED: usize = 8;

/// What can be done for a binding.
#[derive(Debug, Default)]
pub(super) enum Room {
    /// Nothing: it needs none, or nobody makes any.
    #[default]
    None,
    /// Nothing: nobody whose placement is stored can go so that it fits.
    NotFound,
    /// It was made, and is not reported yet.
    Coming(Placement),
    /// There is enough, unless workloads that have become healthy since their clusters reported were not in the report.
    Unclear(Placement),
    /// This has to go, a plugin says; then the binding goes there.
    Nominated(Arc<str>, Nomination, Placement),
    /// A plugin could not tell: it is asked again.
    NotKnown(PluginError),
}

impl Room {
    /// What the condition says of it.
    pub(super) fn remark(&self) -> Option<String> {
        match self {
            Self::None | Self::NotFound => None,
            Self::NotKnown(error) => Some(format!("; no room was made: {error}")),
            Self::Coming(_) => Some("; its room was made and is not reported yet".to_owned()),
            Self::Unclear(_) => Some("; the next report may show room for it".to_owned()),
            Self::Nominated(_, nomination, _) => {
                let victims = &nomination.victims;
                let named: Vec<String> = victims
                    .iter()
                    .take(NAMED)
                    .map(|victim| format!("{} in {}", victim.key, victim.cluster))
                    .collect();
                let more = match victims.len().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let list = named.join(", ");
                Some(format!("; preempts {list}{more}, and waits for the room"))
            }
        }
    }

    /// Where the binding goes when the room is there.
    pub(super) fn place(&self) -> Option<&Placement> {
        match self {
            Self::None | Self::NotFound | Self::NotKnown(_) => None,
            Self::Coming(place) | Self::Unclear(place) | Self::Nominated(_, _, place) => {
                Some(place)
            }
        }
    }

    /// Whether the binding comes again by itself, although it fits nowhere.
    pub(super) fn is_not_known(&self) -> bool {
        matches!(self, Self::NotKnown(_))
    }

    /// The event that goes with it.
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

/// Preempted workloads whose tasks are done, until their clusters report.
#[derive(Debug, Default)]
pub(super) struct Departures(Vec<Departure>);

#[derive(Debug)]
struct Departure {
    key: BindingKey,
    cluster: String,
    workload: AssumedWorkload,
    until: Instant,
}

impl Departures {
    /// Notes the preempted workloads that have left.
    pub(super) fn observe(&mut self, old: &Binding, new: Option<&Binding>, now: Instant) {
        let going = |binding: &Binding, cluster: &str| {
            let mut tasks = binding.spec.graceful_eviction_tasks.iter();
            tasks.any(|task| task.reason == REASON && task.from_cluster == cluster)
        };
        for task in &old.spec.graceful_eviction_tasks {
            let cluster = &task.from_cluster;
            let left = task.reason == REASON && new.is_none_or(|new| !going(new, cluster));
            if !left {
                continue;
            }
            let replicas = task.replicas.unwrap_or(old.spec.replicas);
            if let Ok(workload) = workload(&old.spec, replicas) {
                self.0.push(Departure {
                    key: old.key.clone(),
                    cluster: cluster.clone(),
                    workload,
                    until: now + REPORTED_WITHIN,
                });
            }
        }
    }

    /// A cluster has reported: what has left is in the report.
    pub(super) fn reported(&mut self, cluster: &str) {
        self.0.retain(|departure| departure.cluster != cluster);
    }

    fn forget_old(&mut self, now: Instant) {
        self.0.retain(|departure| departure.until > now);
    }

    fn free(&self, assumed: &mut Assumed) {
        for departure in &self.0 {
            assumed.free(&departure.cluster, departure.workload.clone());
        }
    }

    fn has(&self, victim: &Victim) -> bool {
        let mut all = self.0.iter();
        all.any(|one| one.key == victim.key && one.cluster == victim.cluster)
    }
}

/// Bindings that found no room while decisions were on their way: who is placed by one of these may be who can go.
#[derive(Debug, Default)]
pub(super) struct Searchers(BTreeMap<i32, BTreeSet<BindingKey>>);

impl Searchers {
    fn add(&mut self, binding: &Binding) {
        let alike = self.0.entry(binding.spec.priority()).or_default();
        alike.insert(binding.key.clone());
    }

    /// Those that matter more than this; they are not searchers any more.
    fn take_above(&mut self, priority: i32) -> impl Iterator<Item = BindingKey> + use<> {
        let above = priority.checked_add(1);
        let taken = above.map(|above| self.0.split_off(&above));
        taken.into_iter().flatten().flat_map(|(_, keys)| keys)
    }

    /// A binding is gone.
    pub(super) fn forget(&mut self, key: &BindingKey) {
        self.0.retain(|_, keys| {
            keys.remove(key);
            !keys.is_empty()
        });
    }
}

/// What a search for room looks at.
pub(super) struct Search<'a> {
    pub(super) binding: &'a Arc<Binding>,
    pub(super) request: &'a Request,
    pub(super) snapshot: &'a Arc<Snapshot>,
    /// What is assumed, without workloads that clusters may have in their reports already, and whether there are such: what
    /// is evicted because they count twice is evicted for nothing.
    pub(super) assumed: &'a dyn Fn() -> (Assumed, bool),
    pub(super) state: &'a State,
    pub(super) departures: &'a Departures,
    pub(super) points: &'a ServicePoints,
}

impl Search<'_> {
    /// Asks the plugins how room is made, where that may help.
    pub(super) fn room(
        &self,
        engine: &mut Engine,
        outcome: &Outcome,
        state: &mut CycleState,
    ) -> Room {
        let may_help = match &outcome.result {
            Ok(_) => false,
            Err(ScheduleError::NoFit(_)) => true,
            Err(ScheduleError::Plugin(error)) => error.is_unschedulable(),
        };
        if !may_help || self.points.post_filter.is_empty() {
            return Room::None;
        }
        let (mut base, unclear) = (self.assumed)();
        self.departures.free(&mut base);
        let mut attempt = |victims: &[Victim]| {
            let mut assumed = base.clone();
            for victim in victims {
                if !self.departures.has(victim)
                    && let Some(workload) = self.held_by(victim)
                {
                    assumed.free(&victim.cluster, workload);
                }
            }
            engine.schedule_with(self.snapshot, self.request, &assumed)
        };
        let coming = !self.departures.0.is_empty();
        if (coming || unclear)
            && let Ok(place) = attempt(&[]).result
        {
            return if coming {
                Room::Coming(place)
            } else {
                Room::Unclear(place)
            };
        }
        let mut context = PostFilterContext {
            binding: self.binding,
            request: self.request,
            snapshot: self.snapshot,
            bindings: self.state,
            attempt: &mut attempt,
        };
        let (plugin, nomination) = match self.points.post_filter(&mut context, state) {
            Ok(Some(found)) => found,
            Ok(None) => return Room::NotFound,
            Err(error) => return Room::NotKnown(error),
        };
        match attempt(&nomination.victims).result {
            Ok(place) if !nomination.victims.is_empty() => {
                Room::Nominated(plugin, nomination, place)
            }
            _ => Room::NotFound,
        }
    }

    /// What a victim holds in its cluster, placed there or on its way out.
    fn held_by(&self, victim: &Victim) -> Option<AssumedWorkload> {
        let binding = self.state.stored(&victim.key)?;
        let spec = &binding.spec;
        let placed = spec.clusters.iter().find(|t| t.name == victim.cluster);
        let replicas = if let Some(target) = placed {
            target.replicas
        } else {
            let mut tasks = spec.graceful_eviction_tasks.iter();
            let task = tasks.find(|task| task.from_cluster == victim.cluster)?;
            task.replicas.unwrap_or(spec.replicas)
        };
        workload(spec, replicas).ok()
    }
}

impl Owner {
    /// A search has ended. One that was in vain while decisions were on their way is made again when one of them lands.
    pub(super) fn searched(&mut self, binding: &Binding, room: &Room) {
        if matches!(room, Room::NotFound) && self.state.has_decisions() {
            self.searchers.add(binding);
        }
    }

    /// A decision is stored: who matters more looks for room again after its backoff, so that a busy control plane does
    /// not search without end.
    pub(super) fn is_searched_for_again(&mut self, landed: &BindingKey, now: Instant) {
        if let Some(entry) = self.bindings.get(landed) {
            for key in self.searchers.take_above(entry.binding.spec.priority()) {
                self.queue.wake_later(&key, now);
            }
        }
    }

    /// Forgets room that no cluster has reported in time.
    pub(super) fn expire_departures(&mut self, now: Instant) {
        self.departures.forget_old(now);
    }
}

#[cfg(test)]
#[path = "preemption_tests.rs"]
mod tests;
