//! Choosing among regions: what the exhaustive search of Karmada takes seconds to years for.

use std::hint::black_box;

use berth_core::{Group, select_groups};
use criterion::{Criterion, criterion_group, criterion_main};

/// Numbers that look random, the same in every run.
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
            "60 uneven regions of 4,800 clusters, min 30 max 59, 2,400 clusters",
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

criterion_group!(benches, select);
criterion_main!(benches);
