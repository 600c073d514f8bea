//! Tests that record decisions in a log and replay the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::{Binding, Cluster, ResourceBinding};
use berth_engine::{
    Assumed, AssumedWorkload, BindingContext, BindingFilter, ClusterView, Engine, EngineOptions,
    Fleet, Reason, Request, ResourceRequest,
};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::config::effective::decision_document;
use crate::decision_log::format::Configuration;
use crate::decision_log::reader::files_of;
use crate::decision_log::{DecisionLogOptions, Recorder};
use crate::framework::{Args, Handle, Plugin};
use crate::recorded_decision::{Inputs, RecordedDecision};
use crate::rules::schedule_trigger::ScheduleType;

/// Returns clusters with different capacities, labels and regions.
fn fleet(count: usize) -> Vec<Cluster> {
    let resources: Vec<_> = (0..40)
        .map(|n| json!({ "name": format!("things{n}"), "kind": format!("Thing{n}") }))
        .chain([json!({ "name": "deployments", "kind": "Deployment" })])
        .collect();
    (0..count)
        .map(|index| {
            let cpus = (100 + index % 17).to_string();
            serde_json::from_value(json!({
                "metadata": {
                    "name": format!("member{index:03}"),
                    "labels": { "tier": if index % 3 == 0 { "gold" } else { "silver" } },
                },
                "spec": { "syncMode": "Push", "region": format!("region{}", index % 5) },
                "status": {
                    "apiEnablements": [{ "groupVersion": "apps/v1", "resources": resources }],
                    "resourceSummary": {
                        "allocatable": { "cpu": cpus, "memory": "1000Gi", "pods": "110" },
                        "allocated": { "cpu": (index % 50).to_string() },
                    },
                },
            }))
            .unwrap()
        })
        .collect()
}

fn binding(index: usize) -> Arc<Binding> {
    let placement = match index % 4 {
        0 => json!({ "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": { "dynamicWeight": "AvailableReplicas" } } }),
        1 => json!({ "clusterAffinity": { "labelSelector": { "matchLabels": { "tier": "gold" } } },
            "replicaScheduling": { "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated" } }),
        2 => {
            json!({ "clusterAffinity": { "clusterNames": [format!("member{:03}", index % 100)] } })
        }
        _ => json!({ "clusterAffinity": { "clusterNames": ["absent"] } }),
    };
    let name = format!("web-{index}");
    let object = json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("binding-{index}"), "generation": 1,
            "labels": { "propagationpolicy.karmada.io/permanent-id": "p" },
        },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop",
                "name": name, "uid": format!("uid-{index}") },
            "replicas": index % 20 + 1,
            "replicaRequirements": { "resourceRequest": { "cpu": "250m", "memory": "512Mi" } },
            "placement": placement,
        },
    });
    let object: ResourceBinding = serde_json::from_value(object).unwrap();
    Arc::new(object.into())
}

fn assumed(index: usize) -> Assumed {
    let request = [("cpu".to_owned(), "1".into())].into_iter().collect();
    let request = ResourceRequest::new(&request).unwrap();
    let mut assumed = Assumed::default();
    for step in 0..index % 3 {
        let components = vec![(i32::try_from(step + 1).unwrap(), request.clone())];
        assumed.add(
            &format!("member{:03}", (index + step) % 100),
            AssumedWorkload { components },
        );
    }
    assumed
}

/// Makes decisions over a fleet of 100 clusters, with or without a log. Returns the duration of the decisions.
fn decide(count: usize, log: Option<&TempDir>) -> Duration {
    let clusters = fleet(100);
    let mut fleet = Fleet::new();
    let (mut recorder, writer) = log
        .map(|folder| {
            let options = DecisionLogOptions {
                folder: folder.path().to_owned(),
                max_bytes: 8 << 20,
                max_files: 1000,
            };
            let configuration = Configuration {
                document: decision_document(&[], &[]),
                feature_gates: EngineGates::default(),
                empty_workload_propagation: false,
                estimators: false,
            };
            Recorder::start(options, configuration).unwrap()
        })
        .unzip();
    for cluster in &clusters {
        fleet.apply(cluster);
        if let Some(log) = &mut recorder {
            log.cluster(cluster.metadata.name.clone().unwrap(), Some(cluster));
        }
    }
    let bindings: Vec<Arc<Binding>> = (0..1000).map(binding).collect();
    let mut engine = Engine::new(EngineOptions::default()).unwrap();
    let mut spent = Duration::ZERO;
    for index in 0..count {
        if index % 1000 == 999 {
            let mut cluster = clusters[index / 1000 % 100].clone();
            cluster.spec.zone = Some(format!("zone{index}"));
            fleet.apply(&cluster);
            if let Some(log) = &mut recorder {
                log.cluster(cluster.metadata.name.clone().unwrap(), Some(&cluster));
            }
        }
        let (binding, assumed) = (&bindings[index % 1000], assumed(index));
        let snapshot = fleet.snapshot();
        // Wait until the log contains the previous decision about this binding. Then fewer than 1000 decisions are
        // unwritten, and they fit into the recorder's channel.
        while Arc::strong_count(binding) > 1 {
            std::thread::yield_now();
        }
        let began = Instant::now();
        let request = Request::new(&binding.key, &binding.spec, &binding.status)
            .unwrap()
            .with_time(jiff::Timestamp::now());
        let outcome = engine.schedule_with(&snapshot, &request, &assumed);
        if let Some(log) = &mut recorder {
            let inputs = Inputs::of(request, snapshot, assumed);
            let decision =
                RecordedDecision::new(ScheduleType::Reconcile, binding, 0, inputs, outcome);
            log.decision(Arc::new(decision));
        }
        spent += began.elapsed();
    }
    if let Some(log) = &recorder {
        assert_eq!(log.dropped().get(), 0);
    }
    drop(recorder);
    if let Some(writer) = writer {
        writer.join().unwrap();
    }
    spent
}

#[tokio::test]
async fn all_recorded_decisions_are_repeated_equally() {
    let folder = TempDir::new().unwrap();
    decide(4000, Some(&folder));
    let files = files_of(&[folder.path().to_owned()]).unwrap();
    let report = replay(&files, &ReplayOptions::default()).unwrap();
    assert_eq!(report.counts.decisions, 4000, "{report:?}");
    assert!(report.is_equal(), "{:?}", report.counts);

    // A new configuration replaces the recorded plugins.
    let text = json!({
        "apiVersion": "scheduler.config.berth/v1alpha1", "kind": "SchedulerConfiguration",
        "profiles": [{ "plugins": { "multiPoint": { "disabled": [{ "name": "ClusterAffinity" }] } } }],
    });
    let options = ReplayOptions {
        configuration: Some(NewConfiguration {
            name: "new".to_owned(),
            text: text.to_string(),
        }),
        differences: 3,
        ..ReplayOptions::default()
    };
    let report = replay(&files, &options).unwrap();
    let counts = report.counts;
    assert_eq!(
        (counts.newly_placed, counts.failed),
        (1000, 0),
        "{counts:?}"
    );
    assert!(counts.moved >= 1000 && counts.equal >= 1000, "{counts:?}");
    assert_eq!(report.differences.len(), 3);
}

/// A filter that rejects every cluster.
#[derive(Debug)]
struct Closed;

impl BindingFilter for Closed {
    fn name(&self) -> &'static str {
        "Closed"
    }

    fn check(&self, _: &BindingContext<'_>, _: &ClusterView<'_>) -> Result<(), Reason> {
        Err("cluster(s) were closed".into())
    }
}

#[tokio::test]
async fn out_of_tree_plugins_take_part_in_a_replay() {
    let folder = TempDir::new().unwrap();
    decide(40, Some(&folder));
    let files = files_of(&[folder.path().to_owned()]).unwrap();
    let text = json!({
        "apiVersion": "scheduler.config.berth/v1alpha1", "kind": "SchedulerConfiguration",
        "profiles": [{ "plugins": { "multiPoint": { "enabled": [{ "name": "Closed" }] } } }],
    });
    let mut options = ReplayOptions {
        configuration: Some(NewConfiguration {
            name: "new".to_owned(),
            text: text.to_string(),
        }),
        ..ReplayOptions::default()
    };
    let error = replay(&files, &options).unwrap_err();
    assert!(error.to_string().contains("Closed"), "{error}");
    let closed = |_: &Args, _: &Handle| Ok(Plugin::new("Closed").filter(Arc::new(Closed)));
    options.out_of_tree.register("Closed", closed).unwrap();
    let counts = replay(&files, &options).unwrap().counts;
    assert!(counts.failed > 0 && counts.moved == 0, "{counts:?}");
}

/// Measures the time of decisions with and without a log, and the time of a replay. Run it with `cargo test --release
/// -p berth-scheduler --lib replay -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "a measurement"]
async fn measure_100_000_decisions() {
    let folder = TempDir::new().unwrap();
    for _ in 0..3 {
        let without = decide(100_000, None);
        let scratch = TempDir::new().unwrap();
        let with = decide(100_000, Some(&scratch));
        println!("100,000 decisions: {without:?} without a log, {with:?} with one");
    }
    decide(100_000, Some(&folder));
    let files = files_of(&[folder.path().to_owned()]).unwrap();
    let bytes: u64 = files.iter().map(|f| f.metadata().unwrap().len()).sum();
    println!("{} files, {bytes} bytes", files.len());
    let began = Instant::now();
    let report = replay(&files, &ReplayOptions::default()).unwrap();
    println!("replayed in {:?}: {:?}", began.elapsed(), report.counts);
    assert!(report.is_equal());
}
