//! What metrics say of plugins and points.

use berth_e2e::eventually;
use berth_scheduler::framework::Registry;
use serde_json::json;

use crate::scene::{Scene, everywhere};
use crate::spy::{Act, Book, register};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_are_measured_always_and_plugins_of_decisions_in_a_sample() {
    let (book, mut registry) = (Book::default(), Registry::new());
    register(&mut registry, "A", &book, |_| Act::Pass);
    let plugins = json!({ "multiPoint": { "enabled": [{ "name": "A" }] } });
    let scene = Scene::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await;
    for number in 1..=11 {
        let name = format!("web-{number}");
        assert!(scene.place(&everywhere(&name, "s")).await.is_ok());
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
        // The first decision and the eleventh.
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
        // The last PostBind may be under way still.
        eventually(&line, async || {
            let metrics = scene.get("/metrics").await;
            let found = metrics.lines().any(|known| known == line);
            if found { Ok(()) } else { Err(metrics) }
        })
        .await;
    }
    scene.stop().await;
}
