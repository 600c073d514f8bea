//! The binding controller of a simulation: it writes Works as the migration decides, and measures what each write takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::well_known::{CONDITION_MIGRATING, MAX_MOVING, MAX_SURGE};
use berth_interpreter::Interpreter;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::copy::{Copy, deployment};
use super::fleet::{Fleet, name};
use super::rules::Rules;
use super::workload::{Workload, number};
use crate::overrides::OverrideSet;
use crate::propagation::binding::migration::observed::{Leaving, Migration};
use crate::propagation::binding::sync_input::SyncInput;

/// The ready replicas, or the healthy copies, that Works keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::failover) struct Kept {
    pub(in crate::failover) everywhere: i64,
    /// The part in clusters that are ready: the reports of the others may be outdated.
    pub(in crate::failover) in_ready_clusters: i64,
}

/// The number of ready replicas, or of healthy copies, that a write of Works takes and must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::failover) struct Guarantee {
    /// The number that the Works before the write kept.
    pub(in crate::failover) before: Kept,
    /// The number that the Works after the write keep.
    pub(in crate::failover) after: Kept,
    /// The number that must stay if it was there before.
    pub(in crate::failover) least: i64,
    /// The number in all Works together before and after the write.
    pub(in crate::failover) granted: (i64, i64),
    /// The maximum of this number, unless there were more before.
    pub(in crate::failover) most: Option<i64>,
}

impl Workload {
    /// Writes the Works and the condition, as the binding controller does. Returns what the write took.
    pub(super) fn write_works(
        &mut self,
        fleet: &Fleet,
        rules: &Rules,
        second: i64,
        interpreter: &Interpreter,
    ) -> Option<Guarantee> {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
        let waits = self.waits_until.is_none_or(|until| now < until);
        if waits && self.written_at == Some(fleet.version()) {
            return None;
        }
        let timeout = rules.options.graceful_eviction_timeout;
        let granted = self.granted();
        let before = self.kept(fleet, second);
        let is_expired = self.deadline(timeout).is_some_and(|until| until <= now);
        let input = self.sync_input(fleet);
        let migration = if rules.keeps_old_replicas {
            let template = self.template();
            Migration::observe(&input, &template, timeout, now, interpreter).unwrap()
        } else {
            Migration::default()
        };
        let spec = &input.binding.spec;
        let expected = migration.expected_clusters(spec);
        let mut has_written = false;
        for (cluster, copy) in &mut self.copies {
            let cluster = name(*cluster);
            if expected.contains(&cluster) {
                continue;
            }
            has_written |= match migration.leaving(&cluster) {
                Leaving::Delete => copy.delete(),
                Leaving::Keep => false,
                Leaving::Reduce(replicas) => copy.write(replicas.into()),
            };
        }
        for target in migration.targets(spec) {
            let copy = self.copies.entry(number(&target.name)).or_default();
            has_written |= copy.write(target.replicas.into());
        }
        let wait = migration.wait.as_ref();
        self.waits_until = wait.and_then(|wait| wait.until);
        self.migrating = wait.map(|wait| Condition {
            type_: CONDITION_MIGRATING.to_owned(),
            status: "True".to_owned(),
            reason: wait.cause.reason().to_owned(),
            message: wait.message.clone(),
            observed_generation: None,
            last_transition_time: self
                .migrating
                .as_ref()
                .map_or(Time(now), |known| known.last_transition_time.clone()),
        });
        self.show_status();
        self.written_at = (!has_written).then_some(fleet.version());
        Some(Guarantee {
            before,
            after: self.kept(fleet, second),
            least: if is_expired {
                self.least_after_deadline()
            } else {
                self.least()
            },
            granted: (granted, self.granted()),
            most: self
                .shape
                .surge
                .map(|surge| self.wanted().saturating_add(surge)),
        })
    }

    /// Returns the time at which old replicas leave although new ones are not ready.
    fn deadline(&self, timeout: Duration) -> Option<Timestamp> {
        let since = self.migrating.as_ref()?;
        let since = Some(since.last_transition_time.0).max(self.scheduled_at)?;
        since.saturating_add(timeout).ok()
    }

    /// Returns the replicas, or the copies, that are wanted.
    fn wanted(&self) -> i64 {
        match self.shape.copies {
            None => self.shape.replicas,
            Some(_) => i64::try_from(self.binding.clusters.len().max(1)).unwrap(),
        }
    }

    /// Returns the same number with the evicted copies that the scheduler may still replace.
    fn needed(&self) -> i64 {
        let wanted = self.wanted();
        match self.shape.copies {
            Some(copies) if !self.is_scheduled => {
                let evicted = i64::try_from(self.binding.tasks.len()).unwrap();
                let copies = i64::try_from(copies).unwrap();
                (wanted + evicted).min(copies).max(wanted)
            }
            _ => wanted,
        }
    }

    /// Returns the number of ready replicas, or of healthy copies, that the controllers must not go below.
    fn least(&self) -> i64 {
        if self.leaves_first() {
            self.within_budget().max(self.unplaced())
        } else {
            self.needed()
        }
    }

    /// Returns the same number after the deadline of the migration.
    fn least_after_deadline(&self) -> i64 {
        if self.leaves_first() {
            self.within_budget().max(0)
        } else {
            self.within_budget().max(1.min(self.wanted()))
        }
    }

    /// Reports whether old copies leave before new ones start.
    fn leaves_first(&self) -> bool {
        self.shape.surge == Some(0) && !self.binding.clusters.is_empty()
    }

    /// Returns the replicas that the scheduler has not placed yet.
    fn unplaced(&self) -> i64 {
        let replicas = |target: &Value| target["replicas"].as_i64().unwrap_or(0);
        let placed: i64 = match self.shape.copies {
            None => self.binding.clusters.iter().map(replicas).sum(),
            Some(_) => self.wanted(),
        };
        (self.needed() - placed).max(0)
    }

    /// Returns the replicas, or copies, that the limit on moves leaves in place.
    fn within_budget(&self) -> i64 {
        let moving = self.shape.moving;
        moving.map_or(0, |moving| self.wanted() - moving)
    }

    /// Returns the number of replicas, or of copies, in all Works.
    fn granted(&self) -> i64 {
        let granted = self.copies.values().map(Copy::granted);
        match self.shape.copies {
            None => granted.sum(),
            Some(_) => granted.map(|granted| granted.min(1)).sum(),
        }
    }

    /// Returns the ready replicas, or the healthy copies, that remain with the present Works.
    fn kept(&self, fleet: &Fleet, second: i64) -> Kept {
        let mut kept = Kept::default();
        for (cluster, copy) in &self.copies {
            let known = copy.known_ready(*cluster, fleet, self.shape.start_delay, second);
            let number = if self.shape.copies.is_none() {
                known.min(copy.granted())
            } else {
                let report = copy.report.unwrap_or_default();
                // The report may be older than the Work, and the Work newer than the pods.
                let needed = report.replicas.min(copy.granted()).min(copy.pods());
                i64::from(needed > 0 && known >= needed)
            };
            kept.everywhere += number;
            if fleet.is_ready(*cluster) {
                kept.in_ready_clusters += number;
            }
        }
        kept
    }

    fn template(&self) -> Value {
        let mut template = deployment(self.shape.replicas);
        for (annotation, limit) in [
            (MAX_SURGE, self.shape.surge),
            (MAX_MOVING, self.shape.moving),
        ] {
            if let Some(limit) = limit {
                template["metadata"]["annotations"][annotation] = json!(limit.to_string());
            }
        }
        template
    }

    fn sync_input(&mut self, fleet: &Fleet) -> SyncInput {
        let mut input = SyncInput {
            binding: Arc::new(self.binding.body.clone()),
            works: BTreeMap::new(),
            clusters: BTreeMap::new(),
            overrides: OverrideSet::default(),
            needed_in: BTreeSet::new(),
            deselected: BTreeSet::new(),
            unreported: BTreeMap::new(),
        };
        for (cluster, copy) in &mut self.copies {
            let name = name(*cluster);
            if let Some(least) = copy.unreported {
                input.unreported.insert(name.clone(), least);
            }
            input.works.insert(name, vec![copy.object(*cluster)]);
        }
        let targets = self.targets().into_keys();
        for cluster in targets.chain(self.copies.keys().copied()) {
            let name = name(cluster);
            let object = Arc::clone(&fleet.objects[&name]);
            input.clusters.insert(name, object);
        }
        input
    }
}
