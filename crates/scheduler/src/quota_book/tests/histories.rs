//! Random histories of a namespace with a quota, and of two ClusterQueues of a cohort: decisions, writes whose answers
//! are lost, deletions, changes by other clients, watches that lag behind, and restarts. The stored usage never exceeds
//! a limit, and no binding that fits waits for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum Step {
    /// The scheduler decides about a ready binding.
    Decide,
    /// The write of a decision ends.
    Write(usize, Ending),
    /// A request without an answer reaches the API server.
    LateWrite(usize),
    /// The oldest event reaches the scheduler.
    Event,
    /// A user wants another number of replicas.
    Scale(usize, i32),
    /// Another client takes replicas away.
    Shrink(usize),
    /// Another client changes the status.
    Touch(usize),
    Delete(usize),
    /// A user sets the limit.
    Limit(i32),
    Restart,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The API server stores the result and answers.
    Answered,
    /// The API server may store the result later, and does not answer.
    Lost,
    /// The API server refuses the result.
    Refused,
}

fn endings() -> impl Strategy<Value = Ending> {
    prop_oneof![
        3 => Just(Ending::Answered),
        1 => Just(Ending::Lost),
        1 => Just(Ending::Refused),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..NAMES.len();
    let step = prop_oneof![
        6 => Just(Step::Decide),
        4 => (name.clone(), endings())
            .prop_map(|(name, ending)| Step::Write(name, ending)),
        2 => name.clone().prop_map(Step::LateWrite),
        6 => Just(Step::Event),
        4 => (name.clone(), 0..5).prop_map(|(name, replicas)| Step::Scale(name, replicas)),
        1 => name.clone().prop_map(Step::Shrink),
        1 => name.clone().prop_map(Step::Touch),
        1 => name.prop_map(Step::Delete),
        1 => (0..8).prop_map(Step::Limit),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..80)
}

#[derive(Clone, Debug)]
enum Seen {
    Binding(Box<Binding>),
    Deleted(BindingKey),
    Limit(i32),
}

/// The owners of limits. The limit that users change is that of the quota, or the nominal quota of the queue x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limits {
    /// All bindings are in a namespace with a quota.
    Quota,
    /// The bindings a and b belong to the queue x, which borrows at most 2. The bindings c and d belong to the queue y, with
    /// a nominal quota of 4, of which it lends 1.
    Queues,
}

impl Limits {
    fn namespace(self, name: &str) -> &'static str {
        match (self, name) {
            (Self::Quota, _) => "shop",
            (Self::Queues, "a" | "b") => "x",
            (Self::Queues, _) => "y",
        }
    }
}

fn queue(name: &str, quota: serde_json::Value) -> ClusterQueue {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "cohortName": "all",
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } },
            "quotas": [quota],
        },
    }))
    .unwrap()
}

/// The API server, the watches, and the scheduler around the book.
struct World {
    limits: Limits,
    stored: BTreeMap<&'static str, Binding>,
    wanted: BTreeMap<&'static str, i32>,
    limit: i32,
    /// Largest limit that the scheduler may know.
    largest_limit: i32,
    version: u32,
    events: VecDeque<Seen>,
    /// Decisions that are being written, with the binding that they are based on.
    writes: BTreeMap<&'static str, (Binding, i32)>,
    /// Requests without an answer.
    lost: Vec<(&'static str, Binding, i32)>,
    cache: BTreeMap<&'static str, Binding>,
    book: QuotaBook,
    ready: BTreeSet<&'static str>,
}

fn static_name(key: &BindingKey) -> &'static str {
    NAMES.into_iter().find(|name| **name == *key.name).unwrap()
}

impl World {
    fn new(limits: Limits) -> Self {
        let mut world = Self {
            limits,
            stored: BTreeMap::new(),
            wanted: BTreeMap::new(),
            limit: 4,
            largest_limit: 4,
            version: 0,
            events: VecDeque::new(),
            writes: BTreeMap::new(),
            lost: Vec::new(),
            cache: BTreeMap::new(),
            book: QuotaBook::default(),
            ready: BTreeSet::new(),
        };
        world.restart();
        world
    }

    /// Returns the stored usage of all bindings in a namespace.
    fn usage(&self, namespace: &str) -> i32 {
        let stored = self.stored.values();
        let stored = stored.filter(|b| b.key.namespace.as_deref() == Some(namespace));
        let clusters = stored.flat_map(|b| &b.spec.clusters);
        clusters.map(|target| target.replicas).sum()
    }

    /// Reports whether the limits allow that the namespace of a binding uses `more` than now.
    fn allow(&self, name: &str, more: i32, limit: i32) -> bool {
        let usage = |namespace: &str| {
            let grows = self.limits.namespace(name) == namespace;
            self.usage(namespace) + if grows { more } else { 0 }
        };
        match self.limits {
            Limits::Quota => usage("shop") <= limit,
            Limits::Queues => {
                let (x, y) = (usage("x"), usage("y"));
                let lent_by_x_and_y = limit + 1;
                let from_cohort = x + (y - 3).max(0);
                // The queue y always gets what it lends to no other queue.
                let keeps_its_own = self.limits.namespace(name) == "y" && y <= 3;
                let borrows_too_much = self.limits.namespace(name) == "x" && x > limit + 2;
                !borrows_too_much && (keeps_its_own || from_cohort <= lent_by_x_and_y)
            }
        }
    }

    fn store(&mut self, name: &'static str, replicas: i32) -> Binding {
        self.version += 1;
        let namespace = self.limits.namespace(name);
        let stored = binding_in(namespace, name, self.version, 0, replicas);
        self.stored.insert(name, stored.clone());
        self.events
            .push_back(Seen::Binding(Box::new(stored.clone())));
        stored
    }

    /// Stores a result if its precondition holds.
    fn write(&mut self, name: &'static str, base: &Binding, replicas: i32) -> Option<Binding> {
        let version = self.stored.get(name).map(Binding::resource_version);
        if version != Some(base.resource_version()) {
            return None;
        }
        let grows = replicas > base.spec.clusters.iter().map(|c| c.replicas).sum();
        let written = self.store(name, replicas);
        assert!(
            !grows || self.allow(name, 0, self.largest_limit),
            "{name} uses {replicas}, the limit is {}",
            self.largest_limit
        );
        Some(written)
    }

    fn apply(&mut self, seen: Seen) {
        match seen {
            Seen::Binding(new) => {
                let name = static_name(&new.key);
                let old = self.cache.get(name).cloned();
                if old.as_ref().is_some_and(|old| !new.at_least_as_new_as(old)) {
                    return;
                }
                self.book.binding_changed(old.as_ref(), &new);
                self.cache.insert(name, *new);
                self.ready.insert(name);
            }
            Seen::Deleted(key) => {
                let name = static_name(&key);
                self.cache.remove(name);
                self.ready.remove(name);
                self.book.binding_deleted(&key);
            }
            Seen::Limit(limit) if self.limits == Limits::Quota => {
                self.book.quota_applied(quota(limit), self.cache.values());
            }
            Seen::Limit(limit) => {
                let limits = json!({ "name": "cpu", "nominalQuota": limit.to_string(), "borrowingLimit": "2" });
                self.book.queue_applied(queue("x", limits));
            }
        }
    }

    fn event(&mut self) {
        if let Some(seen) = self.events.pop_front() {
            self.apply(seen);
        }
    }

    fn requeue(&mut self) {
        self.book.refresh_queues(self.cache.values());
        let ready = self.book.take_ready();
        self.ready.extend(ready.iter().map(static_name));
    }

    /// Decides about the first ready binding that is not being written.
    fn decide(&mut self) -> bool {
        self.requeue();
        let writing: Vec<_> = self.writes.keys().copied().collect();
        let next = self.ready.iter().find(|name| !writing.contains(name));
        let Some(name) = next.copied() else {
            return false;
        };
        self.ready.remove(name);
        let Some(known) = self.cache.get(name).cloned() else {
            return true;
        };
        let wanted = self.wanted[name];
        let placed: i32 = known.spec.clusters.iter().map(|c| c.replicas).sum();
        if wanted == placed {
            self.book.cycle_ended(&known.key);
        } else if decide(&mut self.book, &known, wanted) {
            self.writes.insert(name, (known, wanted));
        } else {
            self.book.cycle_ended(&known.key);
        }
        true
    }

    fn end_write(&mut self, name: &'static str, ending: Ending) {
        let Some((base, replicas)) = self.writes.remove(name) else {
            return;
        };
        let answer = match ending {
            Ending::Answered => self.write(name, &base, replicas),
            Ending::Lost => {
                self.lost.push((name, base.clone(), replicas));
                self.book.result_unknown(&base.key, self.cache.get(name));
                None
            }
            Ending::Refused => None,
        };
        let conflict = matches!(ending, Ending::Answered) && answer.is_none();
        if conflict {
            // The scheduler reads the binding after a conflict, unless the request fails as well.
            self.book.result_unknown(&base.key, self.cache.get(name));
        }
        self.book.complete(&base.key);
        if let Some(written) = answer
            && self.cache.contains_key(name)
        {
            self.apply(Seen::Binding(Box::new(written)));
        }
        self.ready.insert(name);
        self.book.cycle_ended(&base.key);
    }

    /// Restarts the scheduler. Requests of the former process have ended before the first list.
    fn restart(&mut self) {
        self.writes.clear();
        self.lost.clear();
        self.events.clear();
        self.cache.clear();
        self.ready.clear();
        self.book = QuotaBook::default();
        self.largest_limit = self.limit;
        let stored: Vec<_> = self.stored.values().cloned().collect();
        for binding in stored {
            self.apply(Seen::Binding(Box::new(binding)));
        }
        self.apply(Seen::Limit(self.limit));
        if self.limits == Limits::Queues {
            let limits = json!({ "name": "cpu", "nominalQuota": "4", "lendingLimit": "1" });
            self.book.queue_applied(queue("y", limits));
            for namespace in ["x", "y"] {
                self.book.namespace_applied(namespace, BTreeMap::new());
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Decide => {
                self.decide();
            }
            Step::Write(name, ending) => self.end_write(NAMES[name], ending),
            Step::LateWrite(index) if index < self.lost.len() => {
                let (name, base, replicas) = self.lost.remove(index);
                self.write(name, &base, replicas);
            }
            Step::LateWrite(_) => {}
            Step::Event => self.event(),
            Step::Scale(name, replicas) => {
                let name = NAMES[name];
                self.wanted.insert(name, replicas);
                let stored = self.stored.get(name);
                let stored = stored.map_or(0, |b| b.spec.clusters.iter().map(|c| c.replicas).sum());
                self.store(name, stored);
            }
            Step::Shrink(name) => {
                if self.stored.contains_key(NAMES[name]) {
                    self.store(NAMES[name], 0);
                }
            }
            Step::Touch(name) => {
                if let Some(stored) = self.stored.get(NAMES[name]).cloned() {
                    let replicas = stored.spec.clusters.iter().map(|c| c.replicas).sum();
                    self.store(NAMES[name], replicas);
                }
            }
            Step::Delete(name) => {
                if let Some(deleted) = self.stored.remove(NAMES[name]) {
                    self.events.push_back(Seen::Deleted(deleted.key));
                }
            }
            Step::Limit(limit) => {
                self.limit = limit;
                self.largest_limit = self.largest_limit.max(limit);
                self.events.push_back(Seen::Limit(limit));
            }
            Step::Restart => self.restart(),
        }
    }

    /// Delivers all events and answers, until the scheduler has nothing to do.
    fn settle(&mut self) {
        for (name, base, replicas) in std::mem::take(&mut self.lost) {
            self.write(name, &base, replicas);
        }
        for _ in 0..200 {
            while !self.events.is_empty() {
                self.event();
            }
            let decided = self.decide();
            let writing: Vec<_> = self.writes.keys().copied().collect();
            for name in &writing {
                self.end_write(name, Ending::Answered);
            }
            if !decided && writing.is_empty() && self.events.is_empty() {
                return;
            }
        }
        panic!("the scheduler is busy for ever");
    }
}

/// Runs a history. Then, no binding waits that fits.
fn run(limits: Limits, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::new(limits);
    for step in steps {
        world.step(step);
    }
    world.settle();
    for (name, stored) in &world.stored {
        let placed: i32 = stored.spec.clusters.iter().map(|c| c.replicas).sum();
        let wanted = world.wanted[name];
        let fits = wanted <= placed || world.allow(name, wanted - placed, world.limit);
        prop_assert!(
            placed == wanted || !fits,
            "{name}: {placed} of {wanted}, the limit is {}",
            world.limit
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_history_exceeds_a_limit_or_starves_a_binding(steps in steps()) {
        run(Limits::Quota, &steps)?;
    }

    #[test]
    fn no_history_exceeds_the_quota_of_a_queue_or_of_its_cohort(steps in steps()) {
        run(Limits::Queues, &steps)?;
    }
}
