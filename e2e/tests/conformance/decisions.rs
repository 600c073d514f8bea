//! Replay of scheduling scenarios. Berth's decision in each scenario must equal the recorded decision of Karmada's
//! scheduler.

use std::collections::BTreeMap;
use std::path::Path;

use berth_e2e::conformance::{Corpus, Mismatch, decide, judge};

/// Reads the recorded scenarios and decisions.
fn corpus() -> Corpus {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/conformance");
    Corpus::read(
        &data.join("scenarios.jsonl.gz"),
        &data.join("expected.jsonl.gz"),
    )
    .unwrap()
}

/// Checks that all decisions of Berth equal the recorded decisions. A failure shows the first ten differences.
fn assert_equal_decisions(corpus: &Corpus) {
    let mismatches: Vec<Mismatch> = corpus
        .cases
        .iter()
        .filter_map(|(scenario, expected)| judge(expected, &decide(scenario)).err())
        .collect();
    let first: Vec<String> = mismatches
        .iter()
        .take(10)
        .map(ToString::to_string)
        .collect();
    assert!(
        mismatches.is_empty(),
        "{} of {} decisions differ:\n{}",
        mismatches.len(),
        corpus.cases.len(),
        first.join("\n")
    );
}

/// Checks the decisions of all 1,118 scenarios.
#[test]
fn decisions_equal_those_of_karmada() {
    let corpus = corpus();
    assert_eq!(corpus.cases.len(), 1118);
    assert_equal_decisions(&corpus);
}

/// Checks that the decisions stay the same if the clusters have other names and another order.
#[test]
fn cluster_names_and_cluster_order_do_not_change_decisions() {
    let mut corpus = corpus();
    for (seed, (scenario, expected)) in corpus.cases.iter_mut().enumerate() {
        let mut names: Vec<String> = scenario
            .clusters
            .iter()
            .filter_map(|cluster| cluster.metadata.name.clone())
            .collect();
        names.sort();
        // The new names sort as the old names do, because the scheduler breaks ties by name.
        let renamed: BTreeMap<String, String> = names
            .into_iter()
            .enumerate()
            .map(|(rank, name)| (name, format!("fleet-{:03}", 7 * rank + seed % 5)))
            .collect();
        let rename = |name: &mut String| {
            if let Some(new) = renamed.get(name) {
                name.clone_from(new);
            }
        };
        for cluster in &mut scenario.clusters {
            cluster.metadata.name.iter_mut().for_each(rename);
        }
        let spec = &mut scenario.binding.spec;
        spec.clusters
            .iter_mut()
            .for_each(|cluster| rename(&mut cluster.name));
        spec.graceful_eviction_tasks
            .iter_mut()
            .for_each(|task| rename(&mut task.from_cluster));
        if let Some(placement) = &mut spec.placement {
            let terms = placement.cluster_affinities.iter_mut();
            let term_affinities = terms.flat_map(|term| {
                let overflow = term
                    .overflow_affinities
                    .iter_mut()
                    .map(|overflow| &mut overflow.affinity);
                std::iter::once(&mut term.affinity).chain(overflow)
            });
            let preferences = placement
                .replica_scheduling
                .iter_mut()
                .flat_map(|scheduling| &mut scheduling.weight_preference);
            let weight_affinities = preferences
                .flat_map(|preference| &mut preference.static_weight_list)
                .map(|rule| &mut rule.target_cluster);
            for affinity in term_affinities
                .chain(&mut placement.cluster_affinity)
                .chain(weight_affinities)
            {
                affinity.cluster_names.iter_mut().for_each(rename);
                affinity.exclude_clusters.iter_mut().for_each(rename);
            }
        }
        let results = [
            Some(&mut expected.clusters),
            expected.clusters_stable.as_mut(),
        ];
        for target in results.into_iter().flatten().flatten() {
            rename(&mut target.name);
        }
        expected.reasons = std::mem::take(&mut expected.reasons)
            .into_iter()
            .map(|(mut name, reasons)| {
                rename(&mut name);
                (name, reasons)
            })
            .collect();
        shuffle(&mut scenario.clusters, seed);
    }
    assert_equal_decisions(&corpus);
}

/// Shuffles items in an order that depends on the seed.
fn shuffle<T>(items: &mut [T], seed: usize) {
    let mut state = seed as u64 + 1;
    for last in (1..items.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        items.swap(last, usize::try_from(state >> 33).unwrap() % (last + 1));
    }
}
