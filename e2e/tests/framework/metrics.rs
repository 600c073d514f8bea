//! The metrics of the durations of extension points and plugins.

use berth_e2e::scheduler_fixture::to_all_clusters;
use berth_e2e::{SchedulerFixture, eventually};
use berth_scheduler::framework::Registry;
use serde_json::json;

use crate::spy::{Action, CallLog, register};

/// Checks that each of eleven bindings is counted at each extension point, and that the plugins of the points from
/// PreFilter to Score are measured for every tenth decision only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_point_is_measured_and_plugins_of_decisions_are_sampled() {
    let (log, mut registry) = (CallLog::default(), Registry::new());
    register(&mut registry, "A", &log, |_| Action::Pass);
    let plugins = json!({ "multiPoint": { "enabled": [{ "name": "A" }] } });
    let fixture = SchedulerFixture::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await;
    for number in 1..=11 {
        let name = format!("web-{number}");
        assert!(fixture.schedule(&to_all_clusters(&name, "s")).await.is_ok());
    }
    let point = |name: &str| {
        format!(
            "karmada_scheduler_framework_extension_point_duration_seconds_count{{extension_point=\"{name}\",result=\"Success\"}} 11"
        )
    };
    let plugin = |name: &str, point: &str, count: usize| {
        format!(
            "karmada_scheduler_plugin_execution_duration_seconds_count{{extension_point=\"{point}\",plugin=\"{name}\",result=\"Success\"}} {count}"
        )
    };
    let mut lines: Vec<String> = [
        "PreEnqueue",
        "PreFilter",
        "Filter",
        "PreScore",
        "Score",
        "Select",
        "Assign",
        "Reserve",
        "Permit",
        "PreBind",
        "Bind",
        "PostBind",
    ]
    .map(point)
    .into();
    for (name, at) in [
        ("A", "PreFilter"),
        ("A", "Filter"),
        ("A", "PreScore"),
        ("A", "Score"),
        ("APIEnablement", "Filter"),
        ("ClusterLocality", "Score"),
    ] {
        // The sampled decisions are the first and the eleventh.
        lines.push(plugin(name, at, 2));
    }
    for at in [
        "PreEnqueue",
        "Reserve",
        "Permit",
        "PreBind",
        "Bind",
        "PostBind",
    ] {
        lines.push(plugin("A", at, 11));
    }
    for line in lines {
        // Wait, because the last PostBind may still run.
        eventually(&line, async || {
            let metrics = fixture.get("/metrics").await;
            let found = metrics.lines().any(|known| known == line);
            if found { Ok(()) } else { Err(metrics) }
        })
        .await;
    }
    fixture.stop().await;
}
