//! Panics of plugins. A panic fails the scheduling of one binding with a clear reason, and the scheduler keeps running.
//! One test covers plugins that fail at the start.

use std::sync::Arc;
use std::time::Duration;

use berth_e2e::scheduler_fixture::{four_clusters, parse_configuration, to_all_clusters};
use berth_e2e::{RunningScheduler, SchedulerFixture, eventually};
use berth_engine::{BindingContext, BindingFilter, ClusterView, Reason};
use berth_scheduler::Options;
use berth_scheduler::framework::{FactoryError, Handle, Plugin, Registry};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::panicking_plugin;
use crate::spy::{Action, Call, CallLog, register, register_panicking_queue_sort};

/// The extension points of [`spy`](crate::spy) at which a panic fails the scheduling of the binding.
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

/// Checks the conditions of bindings whose plugin panics at one extension point, and that the next binding is
/// scheduled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_affects_only_its_binding() {
    let (log, mut registry) = (CallLog::default(), Registry::new());
    // The spy panics at the extension point whose name in lower case is the name of the binding.
    register(&mut registry, "A", &log, |call: &Call<'_>| {
        if call.binding == call.point.to_lowercase() {
            Action::Panic
        } else {
            Action::Pass
        }
    });
    let plugins = json!({ "multiPoint": { "enabled": [{ "name": "A" }] } });
    let fixture = SchedulerFixture::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await;
    for point in FAILING {
        let name = point.to_lowercase();
        let outcome = fixture.schedule(&to_all_clusters(&name, "s")).await;
        let (reason, message) = outcome.unwrap_err();
        assert_eq!(reason, "SchedulerError", "{point}");
        assert_eq!(
            message,
            format!("plugin \"A\" panicked at {point}: requested by the test")
        );
    }
    // After a panic at PostFilter, the binding is unschedulable, as without a PostFilter plugin.
    let mut unschedulable = to_all_clusters("postfilter", "s");
    let affinity = json!({ "clusterAffinity": { "clusterNames": ["m9"] } });
    unschedulable.spec.placement = Some(serde_json::from_value(affinity).unwrap());
    let (reason, _) = fixture.schedule(&unschedulable).await.unwrap_err();
    assert_eq!(reason, "NoClusterFit");
    // A panic at PostBind has no effect on the binding, because the decision is already stored.
    assert_eq!(
        fixture
            .schedule(&to_all_clusters("postbind", "s"))
            .await
            .unwrap()
            .len(),
        4
    );
    assert_eq!(
        fixture
            .schedule(&to_all_clusters("web", "s"))
            .await
            .unwrap()
            .len(),
        4
    );
    let metrics = fixture.get("/metrics").await;
    for point in FAILING
        .into_iter()
        .chain(["PostFilter", "PostBind"])
        .filter(|point| {
            // Skip the points at which the scheduler samples the metrics of plugins.
            !["PreFilter", "Filter", "PreScore", "Score"].contains(point)
        })
    {
        let line = format!(
            "karmada_scheduler_plugin_execution_duration_seconds_count{{extension_point=\"{point}\",plugin=\"A\",result=\"Error\"}}"
        );
        assert!(metrics.contains(&line), "{line}\nis missing in\n{metrics}");
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_queue_sort_does_not_stop_scheduling() {
    let mut registry = Registry::new();
    register_panicking_queue_sort(&mut registry);
    let plugins = json!({ "queueSort": { "enabled": [{ "name": "PanickingQueueSort" }] } });
    let fixture = SchedulerFixture::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await;
    assert_eq!(
        fixture
            .schedule(&to_all_clusters("web", "s"))
            .await
            .unwrap()
            .len(),
        4
    );
    fixture.stop().await;
}

/// Returns a configuration whose profile `s` has this plugin at all points that the plugin implements.
fn with_plugin(plugin: &str) -> Value {
    let plugins = json!({ "multiPoint": { "enabled": [{ "name": plugin }] } });
    json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_at_normalize_score_select_or_assign_fails_its_binding_only() {
    let mut registry = Registry::new();
    panicking_plugin::register(&mut registry);
    let fixture = SchedulerFixture::start(registry, with_plugin(panicking_plugin::NAME)).await;
    for point in ["NormalizeScore", "Select", "Assign"] {
        let name = point.to_lowercase();
        let (reason, message) = fixture
            .schedule(&to_all_clusters(&name, "s"))
            .await
            .unwrap_err();
        assert_eq!(reason, "SchedulerError", "{point}");
        let expected = format!("plugin \"Brittle\" panicked at {point}: ");
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.contains("requested by the test"), "{message}");
        assert_eq!(
            fixture
                .schedule(&to_all_clusters(&format!("after-{name}"), "s"))
                .await
                .unwrap()
                .len(),
            4
        );
    }
    fixture.stop().await;
}

/// Checks that a panic in the hint of a plugin requeues the waiting binding.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panicking_hint_requeues_the_binding() {
    let mut registry = Registry::new();
    panicking_plugin::register(&mut registry);
    let fixture = SchedulerFixture::start(registry, with_plugin(panicking_plugin::NAME)).await;
    let (reason, message) = fixture
        .schedule(&to_all_clusters("hint", "s"))
        .await
        .unwrap_err();
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "plugin \"Brittle\" refuses the binding at PreEnqueue: it is not open"
    );
    // The annotation leaves the generation unchanged, so it does not requeue the binding. A change of a cluster calls
    // the hint, and the panic of the hint requeues the binding.
    let open = Patch::Merge(json!({ "metadata": { "annotations": { "open": "yes" } } }));
    let bindings = fixture.bare.bindings("default");
    bindings
        .patch("hint", &PatchParams::default(), &open)
        .await
        .unwrap();
    let clusters = fixture.bare.clusters();
    let mut attempt = 0;
    eventually("the placement of hint", async || {
        // Repeat the change: if the scheduler receives it before the annotation, the plugin refuses the binding again.
        attempt += 1;
        let touched = json!({ "metadata": { "annotations": { "touched": attempt.to_string() } } });
        clusters
            .patch("m1", &PatchParams::default(), &Patch::Merge(touched))
            .await
            .unwrap();
        match bindings.get("hint").await.unwrap().spec.clusters.len() {
            4 => Ok(()),
            other => Err(format!("{other} clusters")),
        }
    })
    .await;
    fixture.stop().await;
}

/// Checks that a panic at Unreserve or in the `rejected` method leaves the reason of the earlier failure in the
/// condition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_after_a_failure_keeps_the_first_reason() {
    let (log, mut registry) = (CallLog::default(), Registry::new());
    register(&mut registry, "A", &log, |call: &Call<'_>| {
        match (call.binding, call.point) {
            ("unreserve", "Unreserve") | ("rejected", "Rejected") => Action::Panic,
            ("rejected", "Permit") => Action::Wait(Duration::from_millis(50)),
            _ => Action::Pass,
        }
    });
    register(&mut registry, "B", &log, |call: &Call<'_>| {
        match (call.binding, call.point) {
            ("unreserve", "Reserve") => Action::Fail,
            _ => Action::Pass,
        }
    });
    let plugins = json!({ "multiPoint": { "enabled": [{ "name": "A" }, { "name": "B" }] } });
    let fixture = SchedulerFixture::start(
        registry,
        json!({ "profiles": [{ "schedulerName": "s", "plugins": plugins }] }),
    )
    .await;
    for (name, call, reason, message) in [
        (
            "unreserve",
            "A.Unreserve unreserve",
            "SchedulerError",
            "plugin \"B\" failed at Reserve: requested by the test",
        ),
        (
            "rejected",
            "A.Rejected rejected",
            "Unschedulable",
            "plugin \"A\" refuses the binding at Permit: timed out while it waited for a permit",
        ),
    ] {
        let outcome = fixture.schedule(&to_all_clusters(name, "s")).await;
        let expected = (reason.to_owned(), message.to_owned());
        assert_eq!(outcome, Err(expected));
        let calls = log.calls();
        assert!(calls.iter().any(|known| known == call), "{call}: {calls:?}");
        let after = format!("after-{name}");
        assert_eq!(
            fixture
                .schedule(&to_all_clusters(&after, "s"))
                .await
                .unwrap()
                .len(),
            4
        );
    }
    fixture.stop().await;
}

/// A filter with a configurable name, which may differ from the name of its plugin.
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

/// Checks that the scheduler exits with a configuration error if the factory of a plugin fails or panics, or if the
/// plugin or its filter has a name other than the registered name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_plugin_fails_the_start_with_its_error() {
    type Make = fn() -> Result<Plugin, FactoryError>;
    let bare = four_clusters().await;
    for (make, message) in [
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
            declared: parse_configuration(with_plugin("Mine")),
            ..Options::embedded()
        };
        let running = RunningScheduler::start(options, bare.client.clone());
        eventually("the end of the scheduler", async || {
            running.has_ended().then_some(()).ok_or("it runs")
        })
        .await;
        let error = running.stop().await.unwrap_err();
        assert!(error.is_configuration(), "{error}");
        let error = error.to_string();
        assert!(error.starts_with("test:"), "{error}");
        assert!(
            error.ends_with(&format!("plugin Mine: {message}")),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
    bare.stop().await;
}
