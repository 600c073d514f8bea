//! A plugin that panics fails its own binding with a clear reason, and never the process.

use berth_scheduler::framework::Registry;
use serde_json::json;

use crate::scene::{Scene, everywhere};
use crate::spy::{Act, Book, Call, register, register_disorder};

/// The points whose panic fails the binding.
const FAILING: [&str; 9] = [
    "PreEnqueue",
    "PreFilter",
    "Filter",
    "PreScore",
    "Score",
    "Reserve",
    "Permit",
    "PreBind",
    "Bind",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_at_any_point_fails_its_binding_only() {
    let (book, mut registry) = (Book::default(), Registry::new());
    // The binding is named after the point where the plugin panics, in small letters as names are.
    register(&mut registry, "A", &book, |call: &Call<'_>| {
        if call.binding == call.point.to_lowercase() {
            Act::Panic
        } else {
            Act::Pass
        }
    });
    let plugins = json!({ "multiPoint": { "enabled": [{ "name": "A" }] } });
    let scene = Scene::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await;
    for point in FAILING {
        let name = point.to_lowercase();
        let outcome = scene.place(&everywhere(&name, "s")).await;
        let (reason, message) = outcome.unwrap_err();
        assert_eq!(reason, "SchedulerError", "{point}");
        assert_eq!(
            message,
            format!("plugin \"A\" panicked at {point}: as the test wants")
        );
    }
    // Nobody makes room, and the binding waits for it as without the plugin.
    let mut nowhere = everywhere("postfilter", "s");
    let affinity = json!({ "clusterAffinity": { "clusterNames": ["m9"] } });
    nowhere.spec.placement = Some(serde_json::from_value(affinity).unwrap());
    let (reason, _) = scene.place(&nowhere).await.unwrap_err();
    assert_eq!(reason, "NoClusterFit");
    // What is stored stays, whoever panics about it.
    assert_eq!(
        scene
            .place(&everywhere("postbind", "s"))
            .await
            .unwrap()
            .len(),
        4
    );
    assert_eq!(scene.place(&everywhere("web", "s")).await.unwrap().len(), 4);
    let metrics = scene.get("/metrics").await;
    for point in FAILING
        .into_iter()
        .chain(["PostFilter", "PostBind"])
        .filter(|point| {
            // Of the points of the decision the metrics of plugins are a sample.
            !["PreFilter", "Filter", "PreScore", "Score"].contains(point)
        })
    {
        let line = format!(
            "karmada_scheduler_plugin_execution_duration_seconds_count{{extension_point=\"{point}\",plugin=\"A\",result=\"Error\"}}"
        );
        assert!(metrics.contains(&line), "{line}\nis not in\n{metrics}");
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_order_the_older_binding_goes_first() {
    let mut registry = Registry::new();
    register_disorder(&mut registry);
    let plugins = json!({ "queueSort": { "enabled": [{ "name": "Disorder" }] } });
    let scene = Scene::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await;
    assert_eq!(scene.place(&everywhere("web", "s")).await.unwrap().len(), 4);
    scene.stop().await;
}
