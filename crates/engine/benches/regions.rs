//! Benchmarks of the selection of regions under a spread constraint, alone and as a part of a whole decision.
//!
//! Karmada searches all combinations of regions. For these inputs, its search takes between seconds and years.

use std::hint::black_box;

use berth_api::BindingKey;
use berth_api::binding::{BindingSpec, BindingStatus};
use berth_engine::{Engine, EngineOptions, Fleet, Group, Request, select_groups};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;

/// A generator of pseudo-random numbers, which returns the same sequence in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn regions(count: usize, mut clusters: impl FnMut(&mut Numbers) -> u64) -> Vec<Group> {
    let mut numbers = Numbers(42);
    (0..count)
        .map(|rank| Group {
            rank,
            clusters: usize::try_from(clusters(&mut numbers)).unwrap_or(1),
            score: i64::try_from(numbers.below(3_000_000)).unwrap_or(0),
        })
        .collect()
}

fn select(c: &mut Criterion) {
    let equal = regions(60, |_| 10);
    let uneven = regions(60, |numbers| 1 + numbers.below(19));
    let large = regions(60, |numbers| 1 + numbers.below(160));
    for (name, groups, min, max, target) in [
        (
            "60 regions of 10, min 30 max 60, 60 clusters",
            &equal,
            30,
            60,
            60,
        ),
        (
            "60 uneven regions, min 30 max 60, 60 clusters",
            &uneven,
            30,
            60,
            60,
        ),
        (
            "60 uneven regions, min 30 max 60, 330 clusters",
            &uneven,
            30,
            60,
            330,
        ),
        (
            "60 uneven regions, min 30 max 45, 400 clusters",
            &uneven,
            30,
            45,
            400,
        ),
        (
            "60 uneven regions, min 5 max 59, 330 clusters",
            &uneven,
            5,
            59,
            330,
        ),
        (
            "60 uneven regions, min 1 max 59, 450 clusters",
            &uneven,
            1,
            59,
            450,
        ),
        (
            "60 uneven regions, 4,800 clusters in all, min 30 max 59, 2,400 clusters",
            &large,
            30,
            59,
            2400,
        ),
    ] {
        c.bench_function(name, |bencher| {
            bencher.iter(|| select_groups(black_box(groups), min, max, target));
        });
    }
}

/// Measures a decision for a fleet of 60 regions. Each region has 10 clusters with random capacities.
fn decide(c: &mut Criterion) {
    let mut numbers = Numbers(7);
    let mut fleet = Fleet::new();
    for number in 0..600 {
        let cluster = json!({
            "metadata": {"name": format!("member-{number:03}")},
            "spec": {"syncMode": "Push", "region": format!("region-{:02}", number / 10)},
            "status": {
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
                "resourceSummary": {"allocatable": {"pods": "110", "cpu": numbers.below(64).to_string()}},
            },
        });
        if let Ok(cluster) = serde_json::from_value(cluster) {
            fleet.apply(&cluster);
        }
    }
    let snapshot = fleet.snapshot();
    let spec = json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "replicas": 600, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
        "placement": {
            "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"}},
            "spreadConstraints": [{"spreadByField": "region", "minGroups": 30, "maxGroups": 60},
                {"spreadByField": "cluster", "minGroups": 60, "maxGroups": 600}],
        },
    });
    let spec: Option<BindingSpec> = serde_json::from_value(spec).ok();
    let engine = Engine::new(EngineOptions::default());
    if let (Some(spec), Ok(mut engine)) = (spec, engine)
        && let Ok(request) = Request::new(
            &BindingKey::new("", "web"),
            &spec,
            &BindingStatus::default(),
        )
    {
        c.bench_function("a decision over 60 regions of 10", |bencher| {
            bencher.iter(|| engine.schedule(&snapshot, black_box(&request)));
        });
        c.bench_function("the same, explained", |bencher| {
            bencher.iter(|| engine.explain(&snapshot, black_box(&request)));
        });
    }
}

criterion_group!(benches, select, decide);
criterion_main!(benches);
