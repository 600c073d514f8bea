//! Random histories of decisions, reports, changes by other clients and restarts, for a cluster with ten CPUs. Each
//! replica requests one CPU.
//!
//! The report of the cluster is exact when it is written. It arrives with any delay, and in any order with the events
//! of the bindings.

use std::collections::{BTreeMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const CAPACITY: i32 = 10;
const CLUSTER: &str = "m1";

#[derive(Clone, Copy, Debug)]
enum WriteResult {
    Stored,
    /// The API server refuses the write.
    Refused,
    /// The write is stored, and its response is lost.
    ResponseLost,
    /// The API server never receives the write, and the scheduler does not know it.
    RequestLost,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The scheduler decides about this number of replicas of a binding.
    Decide(usize, i32, WriteResult),
    /// Another client removes replicas of a binding.
    Shrink(usize, i32),
    /// The member runs the replicas of a binding.
    Run(usize),
    /// The controllers write the status of a binding.
    Status(usize),
    Delete(usize),
    /// The cluster reports its free capacity.
    Report,
    /// The scheduler receives the oldest report.
    ReceiveReport,
    /// The scheduler receives the oldest event of a binding.
    Receive(usize),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let result = prop_oneof![
        6 => Just(WriteResult::Stored),
        1 => Just(WriteResult::Refused),
        1 => Just(WriteResult::ResponseLost),
        1 => Just(WriteResult::RequestLost),
    ];
    let name = 0..4_usize;
    prop_oneof![
        6 => (name.clone(), 1..=CAPACITY, result).prop_map(|(name, replicas, result)| Step::Decide(name, replicas, result)),
        1 => (name.clone(), 0..4).prop_map(|(name, replicas)| Step::Shrink(name, replicas)),
        4 => name.clone().prop_map(Step::Run),
        4 => name.clone().prop_map(Step::Status),
        1 => name.clone().prop_map(Step::Delete),
        4 => Just(Step::Report),
        4 => Just(Step::ReceiveReport),
        6 => name.prop_map(Step::Receive),
        1 => Just(Step::Restart),
    ]
}

/// A control plane with one member, and the book of its scheduler.
struct World {
    /// The last resourceVersion.
    version: u64,
    /// The stored bindings.
    stored: BTreeMap<usize, Binding>,
    /// The replicas that the member runs.
    pods: BTreeMap<usize, i32>,
    /// The events of each binding that the scheduler has not received. `None` is a deletion.
    events: BTreeMap<usize, VecDeque<Option<Binding>>>,
    /// The reports that the scheduler has not received: the used CPUs and the resourceVersion.
    reports: VecDeque<(i32, u64)>,
    last_report: (i32, u64),
    /// The bindings that the scheduler knows, and the used CPUs in the last report that it has received.
    known: BTreeMap<usize, Binding>,
    used: i32,
    book: AssumedCapacity,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            version: 1,
            stored: BTreeMap::new(),
            pods: BTreeMap::new(),
            events: BTreeMap::new(),
            reports: VecDeque::new(),
            last_report: (0, 0),
            known: BTreeMap::new(),
            used: 0,
            book: AssumedCapacity::default(),
            now: Instant::now(),
        };
        for name in 0..4 {
            world.create(name);
        }
        world
    }

    fn create(&mut self, name: usize) {
        let mut new = binding(json!([]), &[]);
        new.key = BindingKey::new("n", &format!("b{name}"));
        self.store(name, new);
        self.receive_all(name);
    }

    /// Stores a binding, and sends its event.
    fn store(&mut self, name: usize, mut binding: Binding) -> Binding {
        self.version += 1;
        binding.metadata.resource_version = Some(self.version.to_string());
        self.stored.insert(name, binding.clone());
        self.events
            .entry(name)
            .or_default()
            .push_back(Some(binding.clone()));
        binding
    }

    fn apply(&mut self, name: usize, new: Binding) {
        let version = |binding: &Binding| binding.resource_version().parse::<u64>().unwrap();
        match self.known.get(&name) {
            Some(old) if version(old) >= version(&new) => return,
            Some(old) => self.book.observe(old, &new, self.now),
            None => self.book.restore(&new, Duration::ZERO, self.now),
        }
        self.known.insert(name, new);
    }

    fn receive(&mut self, name: usize) {
        let event = self.events.get_mut(&name).and_then(VecDeque::pop_front);
        match event {
            Some(Some(binding)) => self.apply(name, binding),
            Some(None) => {
                if let Some(known) = self.known.remove(&name) {
                    self.book.remove(&known.key);
                }
            }
            None => {}
        }
    }

    fn receive_all(&mut self, name: usize) {
        while self
            .events
            .get(&name)
            .is_some_and(|events| !events.is_empty())
        {
            self.receive(name);
        }
    }

    fn receive_report(&mut self) {
        if let Some((used, version)) = self.reports.pop_front() {
            self.used = used;
            self.book.cluster_reported(CLUSTER, &version.to_string());
        }
    }

    fn assumed(&self) -> i32 {
        replicas(&self.book, CLUSTER, self.now)
    }

    /// Returns the free capacity for a decision about a binding.
    fn free_for(&self, binding: &Binding) -> i32 {
        let assumed = self.book.total_for(&binding.key, self.now);
        let workloads = assumed.of(CLUSTER).iter();
        let components = workloads.flat_map(|workload| &workload.components);
        CAPACITY - self.used - components.map(|(replicas, _)| replicas).sum::<i32>()
    }

    fn decide(&mut self, name: usize, wanted: i32, result: WriteResult) {
        let Some(known) = self.known.get(&name).cloned() else {
            return;
        };
        let placed = placed(&known);
        if wanted == placed || wanted - placed > self.free_for(&known).max(0) {
            return;
        }
        self.book
            .decided(&known, &[target(CLUSTER, wanted)], self.now);
        let is_current = self
            .stored
            .get(&name)
            .is_some_and(|stored| stored.resource_version() == known.resource_version());
        let mut decided = known.clone();
        decided.spec.clusters = vec![target(CLUSTER, wanted)];
        match result {
            WriteResult::Stored if is_current => {
                let stored = self.store(name, decided);
                self.book.complete(&known.key, DecisionFate::Stored);
                self.apply(name, stored);
            }
            WriteResult::ResponseLost if is_current => {
                self.store(name, decided);
                self.book.result_unknown(&known.key);
                self.book.complete(&known.key, DecisionFate::Dropped);
            }
            WriteResult::RequestLost => {
                self.book.result_unknown(&known.key);
                self.book.complete(&known.key, DecisionFate::Dropped);
            }
            WriteResult::Stored | WriteResult::ResponseLost | WriteResult::Refused => {
                self.book.complete(&known.key, DecisionFate::Dropped);
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Decide(name, wanted, result) => self.decide(name, wanted, result),
            Step::Shrink(name, replicas) => {
                if let Some(mut stored) = self.stored.get(&name).cloned()
                    && placed(&stored) > replicas
                {
                    stored.spec.clusters =
                        Vec::from_iter((replicas > 0).then(|| target(CLUSTER, replicas)));
                    self.store(name, stored);
                }
            }
            Step::Run(name) => {
                if let Some(stored) = self.stored.get(&name) {
                    self.pods.insert(name, placed(stored));
                }
            }
            Step::Status(name) => self.write_status(name),
            Step::Delete(name) => {
                // The finalizer of a binding stays until its Works are gone.
                self.pods.remove(&name);
                if self.stored.remove(&name).is_some() {
                    self.events.entry(name).or_default().push_back(None);
                }
            }
            Step::Report => {
                self.version += 1;
                self.last_report = (self.pods.values().sum(), self.version);
                self.reports.push_back(self.last_report);
            }
            Step::ReceiveReport => self.receive_report(),
            Step::Receive(name) => self.receive(name),
            Step::Restart => {
                self.book = AssumedCapacity::default();
                self.known.clear();
                self.events.clear();
                self.reports.clear();
                self.used = self.last_report.0;
                for (name, binding) in self.stored.clone() {
                    self.apply(name, binding);
                }
            }
        }
    }

    fn write_status(&mut self, name: usize) {
        let (Some(mut stored), pods) = (self.stored.get(&name).cloned(), self.pods.get(&name))
        else {
            return;
        };
        let status = pods.map(|pods| {
            json!({ "clusterName": CLUSTER, "health": "Healthy", "status": { "readyReplicas": pods } })
        });
        let status = serde_json::from_value(json!(Vec::from_iter(status))).unwrap();
        if stored.status.aggregated_status != status {
            stored.status.aggregated_status = status;
            self.store(name, stored);
        }
    }
}

fn placed(binding: &Binding) -> i32 {
    let clusters = binding.spec.clusters.iter();
    clusters.map(|target| target.replicas).sum()
}

proptest! {
    /// The placed replicas never exceed the capacity of the cluster. No assumption stays for ever, and without
    /// assumptions the free capacity is the reported one.
    #[test]
    fn no_history_overcommits_the_cluster(steps in vec(step(), 0..60)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            let all: i32 = world.stored.values().map(placed).sum();
            prop_assert!(all <= CAPACITY, "{all} replicas after {step:?}");
            let mut sum = Assumed::default();
            for share in world.book.counting(world.now) {
                sum.add(&share.cluster, share.workload.clone());
            }
            prop_assert_eq!(sum.of(CLUSTER).len(), world.book.total.of(CLUSTER).len());
            prop_assert_eq!(world.book.total(world.now), world.book.total.clone());
        }
        for name in 0..4 {
            world.step(Step::Run(name));
            world.write_status(name);
            world.receive_all(name);
        }
        world.step(Step::Report);
        while !world.reports.is_empty() {
            world.receive_report();
        }
        let all: i32 = world.stored.values().map(placed).sum();
        prop_assert_eq!(world.used, all, "the report is exact");
        world.now += EXPIRY;
        world.book.expire(world.now);
        prop_assert_eq!(world.assumed(), 0);
        prop_assert!(world.book.entries.is_empty(), "{:?}", world.book.entries);
        prop_assert!(world.book.total.is_empty());
        prop_assert_eq!(world.book.next_expiry(), None);
    }
}
