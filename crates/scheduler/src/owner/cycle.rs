//! The scheduling cycle: does a binding need scheduling, and where does it go?

use std::sync::Arc;
use std::time::Instant;

use berth_api::canonical::placement_json;
use berth_core::Request;
use berth_events::{Note, Severity};

use super::Owner;
use super::permit::Held;
use super::preemption::Search;
use super::questions::{Answered, Asking, Round};
use super::references::{binding_reference, template_reference};
use super::store::Cycle;
use crate::binding::{Binding, BindingKey};
use crate::condition::Reason;
use crate::framework::Decided;
use crate::framework::service_points::Gated;
use crate::group_in_use::group_in_use;
use crate::metrics::{CycleResult, Incoming};
use crate::need::{ScheduleType, schedule_type};
use crate::plan::{Plan, REASON_FAILED};
use crate::queue::Verdict;

/// How many decisions are made between two looks at the inbox.
const DECISIONS_PER_TURN: usize = 64;

/// What a cycle comes to.
struct Conclusion {
    /// What is written.
    plan: Plan,
    /// Why it ran; None where nothing was to be decided.
    why: Option<ScheduleType>,
    /// The decision, where plugins have a say before it is written.
    held: Option<Held>,
}

impl Conclusion {
    fn of(plan: Plan, why: Option<ScheduleType>) -> Self {
        Self {
            plan,
            why,
            held: None,
        }
    }

    fn boxed(plan: Plan, why: Option<ScheduleType>) -> Box<Self> {
        Box::new(Self::of(plan, why))
    }
}

/// What is to be decided.
struct Subject {
    why: ScheduleType,
    request: Request,
    /// The canonical JSON of the placement.
    json: String,
}

impl Owner {
    /// Decides as long as there is something to decide and room for its writes.
    pub(super) fn decide(&mut self, now: Instant) {
        for _ in 0..DECISIONS_PER_TURN {
            if !self.may_decide() {
                return;
            }
            let Some((key, since)) = self.queue.pop_with_age() else {
                return;
            };
            self.metrics
                .taken(&key, now.saturating_duration_since(since), now);
            self.cycle(&key, now, None);
        }
    }

    /// Answers have come: the decision is made again.
    pub(super) fn answered(&mut self, Answered { key, round }: Answered) {
        let now = Instant::now();
        match round {
            Some(round) => self.cycle(&key, now, Some(round)),
            None => self.end(&key, Verdict::Retry, now),
        }
    }

    /// One cycle of a key; `earlier` is what has been asked for it so far.
    fn cycle(&mut self, key: &BindingKey, now: Instant, earlier: Option<Round>) {
        let Some(binding) = self.bindings.get(key).map(|entry| entry.binding.clone()) else {
            self.end(key, Verdict::Done, now);
            return;
        };
        if binding.deleting() {
            self.say_deleting(&binding);
            self.end(key, Verdict::Done, now);
            return;
        }
        // It may have been suspended, or handed over, while it was in the queue.
        if !self.frameworks.in_charge(&binding) {
            self.end(key, Verdict::Done, now);
            return;
        }
        let round = match earlier {
            Some(round) => round.for_now(&binding),
            None => Round::first(&binding, now),
        };
        let began = round.began;
        let Some(Conclusion { plan, why, held }) = self.conclude(&binding, round) else {
            return;
        };
        if plan.is_empty() {
            if plan.verdict != Verdict::Done {
                self.metrics.incoming(Incoming::ScheduleAttemptFailure);
            }
            if let Some(schedule_type) = why {
                self.metrics
                    .cycle(cycle_result(&plan), schedule_type, began.elapsed());
            }
            self.end(key, plan.verdict, now);
            return;
        }
        self.assume(&binding, &plan, now);
        let cycle = Cycle {
            binding,
            schedule_type: why.unwrap_or(ScheduleType::Reconcile),
            began,
        };
        self.carry_out(cycle, plan, held, now);
    }

    /// The processing of a key is over.
    pub(super) fn end(&mut self, key: &BindingKey, verdict: Verdict, now: Instant) {
        self.metrics.ended(key, verdict == Verdict::Retry, now);
        self.queue.done(key, verdict, now);
    }

    /// From here on the next decisions count with this one.
    fn assume(&mut self, binding: &Binding, plan: &Plan, now: Instant) {
        let Some(targets) = &plan.targets else { return };
        self.state.decided(&binding.key, Arc::clone(targets));
        if let Some(groups) = &mut self.groups {
            groups.assigning(
                &binding.key,
                targets.iter().map(|target| target.name.clone()).collect(),
            );
        }
        if let Some(assumptions) = &mut self.assumptions {
            assumptions.decided(binding, targets, now);
        }
    }

    /// A write has ended, or will not be: what was assumed of it is known now.
    pub(super) fn settle(&mut self, key: &BindingKey, landed: bool) {
        self.state.settled(key, landed);
        if landed {
            self.is_searched_for_again(key, Instant::now());
        }
        if let Some(groups) = &mut self.groups {
            groups.settled(key);
        }
        if let Some(assumptions) = &mut self.assumptions {
            if landed {
                assumptions.landed(key);
            } else {
                assumptions.failed(key);
            }
        }
    }

    /// What is to be decided for a binding; where that is nothing, what its cycle comes to.
    fn subject(&self, binding: &Arc<Binding>) -> Result<Subject, Box<Conclusion>> {
        let Some(placement) = &binding.spec.placement else {
            // Nothing can be decided until the binding gets one, and that is an update.
            return Err(Conclusion::boxed(Plan::nothing(Verdict::Done), None));
        };
        let json = placement_json(placement).map_err(|error| {
            let text = error.to_string();
            let plan = Plan::failure(binding, Reason::SchedulerError, text, Verdict::Wait);
            Conclusion::boxed(plan, None)
        })?;
        let leaving = |name: &str| self.leaving.contains(name);
        let Some(why) = schedule_type(
            binding,
            placement,
            &json,
            self.multiple_pod_templates,
            leaving,
        ) else {
            let members = &self.members;
            let cluster = |name: &str| members.get(name).map(|member| member.cluster.clone());
            let group = group_in_use(binding, placement, cluster);
            return Err(Conclusion::boxed(Plan::observe_only(binding, group), None));
        };
        let key = &binding.key;
        let request = Request::new(
            key.namespace.as_deref(),
            &key.name,
            &binding.spec,
            &binding.status,
        )
        .map_err(|error| {
            // Only a change of the binding can help, and that is an update.
            let text = error.to_string();
            let plan = Plan::failure(binding, Reason::SchedulerError, text, Verdict::Done);
            Conclusion::boxed(plan, Some(why))
        })?;
        let request = match &self.groups {
            Some(groups) => {
                let bindings = &self.bindings;
                let find = |key: &BindingKey| bindings.get(key).map(|entry| entry.binding.clone());
                request.with_peers(groups.peers(binding, find))
            }
            None => request,
        };
        Ok(Subject {
            why,
            request: request.with_object(binding.clone()),
            json,
        })
    }

    /// What a cycle of a binding comes to; None where it goes on when answers are there.
    fn conclude(&mut self, binding: &Arc<Binding>, round: Round) -> Option<Conclusion> {
        let Subject { why, request, json } = match self.subject(binding) {
            Ok(subject) => subject,
            Err(conclusion) => return Some(*conclusion),
        };
        let snapshot = self.snapshot.get_or_insert_with(|| {
            let snapshot = self.fleet.snapshot();
            self.state.show_fleet(&snapshot);
            snapshot
        });
        let Some(framework) = self.frameworks.of_mut(binding) else {
            return Some(Conclusion::of(Plan::nothing(Verdict::Done), None));
        };
        let points = Arc::clone(&framework.points);
        match points.gate(binding) {
            None => {}
            Some(Gated::NotKnown) => {
                return Some(Conclusion::of(Plan::nothing(Verdict::Wait), None));
            }
            Some(Gated::Because(error)) => {
                return Some(Conclusion::of(Plan::stopped(binding, &error), Some(why)));
            }
        }
        let (now, assumes_capacity) = (Instant::now(), framework.assumes_capacity);
        let mut assumed = self
            .assumptions
            .as_ref()
            .filter(|_| assumes_capacity)
            .map(|assumptions| assumptions.assumed(now))
            .unwrap_or_default();
        self.promises.add_to(&mut assumed, binding, now);
        let of_starting = || {
            let assumptions = self.assumptions.as_ref();
            let (mut assumed, less) = assumptions
                .filter(|_| assumes_capacity)
                .map(|assumptions| assumptions.of_starting(now))
                .unwrap_or_default();
            self.promises.add_to(&mut assumed, binding, now);
            (assumed, less)
        };
        let mut times = self.metrics.clock();
        let engine = &mut framework.engine;
        let search = Search {
            binding,
            request: &request,
            snapshot,
            assumed: &of_starting,
            state: &self.state,
            departures: &self.departures,
            points: &points,
        };
        let ((decision, room), round, wanted) = self.questions.decide(round, || {
            let mut decision = engine.decide(snapshot, &request, &assumed, Some(&mut times));
            let room = search.room(engine, &decision.outcome, &mut decision.state);
            (decision, room)
        });
        self.metrics.decision(times);
        if let Some(wanted) = wanted {
            let assumptions = self.assumptions.as_ref();
            match self
                .questions
                .ask(binding, snapshot, wanted, round, assumptions)
            {
                Asking::Asked => return None,
                Asking::Stands => {}
                Asking::Later(reason) => {
                    tracing::debug!(binding = %binding.key, reason, "decided later");
                    return Some(Conclusion::of(Plan::nothing(Verdict::Retry), Some(why)));
                }
            }
        }
        let mut plan = Plan::with_remark(
            binding,
            &json,
            &decision.outcome,
            room.remark().as_deref(),
            room.note(),
        );
        if room.is_not_known() && plan.verdict == Verdict::Wait {
            plan.verdict = Verdict::Retry;
        }
        let decided = plan.targets.as_ref().filter(|_| {
            // A result that is withdrawn needs nobody's consent.
            decision.outcome.result.is_ok() && !points.are_bare()
        });
        let held = decided.map(|targets| Held {
            decided: Decided {
                binding: Arc::clone(binding),
                targets: Arc::clone(targets),
                snapshot: Arc::clone(snapshot),
            },
            state: decision.state,
            points,
        });
        self.promises.keep(binding, room.place(), now);
        self.searched(binding, &room);
        self.evict(binding, room);
        Some(Conclusion {
            plan,
            why: Some(why),
            held,
        })
    }

    fn say_deleting(&self, binding: &Binding) {
        let kind = match &binding.key.namespace {
            Some(_) => "resourceBinding",
            None => "clusterResourceBinding",
        };
        let message = format!("skip schedule deleting {kind}: {}", binding.key);
        let note = Note {
            severity: Severity::Warning,
            reason: REASON_FAILED,
            message,
        };
        let recorder = self.recorder.of(binding.spec.scheduler());
        let reference = binding_reference(&binding.key, &binding.metadata);
        recorder.record(note.clone().about(reference));
        recorder.record(note.about(template_reference(binding)));
    }
}

/// What a plan counts as.
pub(super) fn cycle_result(plan: &Plan) -> CycleResult {
    let failed = plan.verdict == Verdict::Retry
        || plan
            .status
            .as_ref()
            .and_then(|status| status.scheduled.as_ref())
            .is_some_and(|scheduled| {
                !matches!(scheduled.reason, Reason::Success | Reason::NoClusterFit)
            });
    if failed {
        CycleResult::Error
    } else {
        CycleResult::Scheduled
    }
}
