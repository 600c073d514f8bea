//! A plugin that panics fails its own binding with a clear reason, and never the process.

use std::sync::Arc;
use std::time::Duration;

use berth_core::{BindingContext, BindingFilter, ClusterView, Reason};
use berth_e2e::{Running, eventually};
use berth_scheduler::Options;
use berth_scheduler::framework::{FactoryError, Handle, Plugin, Registry};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::brittle;
use crate::scene::{Scene, bare, declared, everywhere};
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

/// A scheduler `s` with this plugin in place of the in-tree ones that it replaces.
fn with(plugin: &str) -> Value {
    let plugins = json!({ "multiPoint": { "enabled": [{ "name": plugin }] } });
    json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_while_scores_are_normalised_or_clusters_selected_or_replicas_dealt_is_one_as_well()
{
    let mut registry = Registry::new();
    brittle::register(&mut registry);
    let scene = Scene::start(registry, with(brittle::NAME)).await;
    for point in ["NormalizeScore", "Select", "Assign"] {
        let name = point.to_lowercase();
        let (reason, message) = scene.place(&everywhere(&name, "s")).await.unwrap_err();
        assert_eq!(reason, "SchedulerError", "{point}");
        let expected = format!("plugin \"Brittle\" panicked at {point}: ");
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.contains("as the test wants"), "{message}");
        assert_eq!(
            scene
                .place(&everywhere(&format!("after-{name}"), "s"))
                .await
                .unwrap()
                .len(),
            4
        );
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_that_panics_counts_as_yes() {
    let mut registry = Registry::new();
    brittle::register(&mut registry);
    let scene = Scene::start(registry, with(brittle::NAME)).await;
    let (reason, message) = scene.place(&everywhere("hint", "s")).await.unwrap_err();
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "plugin \"Brittle\" refuses the binding at PreEnqueue: it is not open"
    );
    // An annotation is no change of the generation: alone it wakes nobody, and the change of a cluster does only where
    // the hint says so.
    let open = Patch::Merge(json!({ "metadata": { "annotations": { "open": "yes" } } }));
    let bindings = scene.bare.bindings("default");
    bindings
        .patch("hint", &PatchParams::default(), &open)
        .await
        .unwrap();
    let touch = Patch::Merge(json!({ "metadata": { "annotations": { "touched": "yes" } } }));
    let clusters = scene.bare.clusters();
    clusters
        .patch("m1", &PatchParams::default(), &touch)
        .await
        .unwrap();
    assert_eq!(scene.placed("hint").await.len(), 4);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_panics_about_a_decision_that_has_failed_does_not_hide_why() {
    let (book, mut registry) = (Book::default(), Registry::new());
    register(&mut registry, "A", &book, |call: &Call<'_>| {
        match (call.binding, call.point) {
            ("unreserve", "Unreserve") | ("rejected", "Rejected") => Act::Panic,
            ("rejected", "Permit") => Act::Wait(Duration::from_millis(50)),
            _ => Act::Pass,
        }
    });
    register(&mut registry, "B", &book, |call: &Call<'_>| {
        match (call.binding, call.point) {
            ("unreserve", "Reserve") => Act::Fail,
            _ => Act::Pass,
        }
    });
    let plugins = json!({ "multiPoint": { "enabled": [{ "name": "A" }, { "name": "B" }] } });
    let scene = Scene::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await;
    for (name, call, reason, message) in [
        (
            "unreserve",
            "A.Unreserve unreserve",
            "SchedulerError",
            "plugin \"B\" failed at Reserve: the test wants it",
        ),
        (
            "rejected",
            "A.Rejected rejected",
            "Unschedulable",
            "plugin \"A\" refuses the binding at Permit: timed out while it waited for a permit",
        ),
    ] {
        let outcome = scene.place(&everywhere(name, "s")).await;
        let expected = (reason.to_owned(), message.to_owned());
        assert_eq!(outcome, Err(expected));
        let calls = book.calls();
        assert!(calls.iter().any(|known| known == call), "{call}: {calls:?}");
        let after = format!("after-{name}");
        assert_eq!(
            scene.place(&everywhere(&after, "s")).await.unwrap().len(),
            4
        );
    }
    scene.stop().await;
}

/// A filter that calls itself something else.
#[derive(Debug)]
struct Alias(&'static str);

impl BindingFilter for Alias {
    fn name(&self) -> &str {
        self.0
    }

    fn check(&self, _: &BindingContext<'_>, _: &ClusterView<'_>) -> Result<(), Reason> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_plugin_is_said_at_start() {
    type Make = fn() -> Result<Plugin, FactoryError>;
    let bare = bare().await;
    for (make, said) in [
        (
            (|| panic!("no prices")) as Make,
            "the plugin panicked: no prices",
        ),
        (
            || Err(FactoryError::Other("no prices".to_owned())),
            "no prices",
        ),
        (
            || Ok(Plugin::new("Mine").filter(Arc::new(Alias("Another")))),
            "at Filter it is named \"Another\"",
        ),
        (
            || Ok(Plugin::new("Yours")),
            "its factory made a plugin named \"Yours\"",
        ),
    ] {
        let mut registry = Registry::new();
        registry
            .register("Mine", move |_: &_, _: &Handle| make())
            .unwrap();
        let options = Options {
            registry,
            declared: declared(with("Mine")),
            ..Options::embedded()
        };
        let running = Running::start(options, bare.client.clone());
        eventually("the end of the scheduler", async || {
            running.has_ended().then_some(()).ok_or("it runs")
        })
        .await;
        let error = running.stop().await.unwrap_err();
        assert!(error.is_configuration(), "{error}");
        let error = error.to_string();
        assert!(error.starts_with("test:"), "{error}");
        assert!(error.ends_with(&format!("plugin Mine: {said}")), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    bare.stop().await;
}
