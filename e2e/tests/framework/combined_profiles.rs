//! A test of one scheduler with three profiles and an example extender, which serves all profiles. The profile `plain`
//! has only the default plugins. The profile `closed` adds a custom plugin, and the profile `expressive` adds the
//! plugin Expression.

use berth_e2e::scheduler_fixture::{four_clusters, to_all_clusters, to_best_cluster};
use berth_e2e::{SchedulerFixture, example_extender};
use std::ffi::OsStr;
use std::sync::Arc;

use berth_engine::{BindingContext, BindingFilter, ClusterView, Reason};
use berth_scheduler::framework::{Args, FactoryError, Handle, Plugin, Registry};
use berth_test_requirements::needs;
use serde::Deserialize;
use serde_json::json;

/// A filter plugin that rejects clusters with a label. Its arguments set the key and the value of the label.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ClosedClusters {
    label: String,
    value: String,
}

impl ClosedClusters {
    const NAME: &str = "Closed";

    fn create(args: &Args, _: &Handle) -> Result<Plugin, FactoryError> {
        let closed: Self = args.parse()?;
        Ok(Plugin::new(Self::NAME).filter(Arc::new(closed)))
    }
}

impl BindingFilter for ClosedClusters {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn check(&self, _: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        if cluster.label(&self.label) == Some(&*self.value) {
            Err(format!("cluster(s) had {}={}", self.label, self.value).into())
        } else {
            Ok(())
        }
    }
}

/// Checks that each decision combines the plugins of its profile with the extender.
#[needs(python3)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugin_expression_and_extender_work_in_one_scheduler() {
    let bare = four_clusters().await;
    // The cluster m1 has no licences, and m2 has the most licences.
    let stock = json!({ "m1": 0, "m2": 9, "m3": 3, "m4": 3 });
    let file = bare.folder().join("stock.json");
    std::fs::write(&file, stock.to_string()).unwrap();
    let arguments = [OsStr::new("--stock"), file.as_os_str()];
    let (_licences, url) = example_extender::start("licences.py", &arguments);
    let mut registry = Registry::new();
    registry
        .register(ClosedClusters::NAME, ClosedClusters::create)
        .unwrap();
    let closed = json!({ "filter": { "enabled": [{ "name": "Closed" }] } });
    let closed_args =
        |number: &str| json!({ "name": "Closed", "args": { "label": "number", "value": number } });
    let expression = json!({ "score": { "enabled": [{ "name": "Expression", "weight": 10 }] } });
    let expression_args = json!({ "name": "Expression", "args": { "score": [
        { "expression": "int(cluster.metadata.labels[\"number\"]) * 25", "weight": 1 },
    ] } });
    let fixture = SchedulerFixture::start_on(
        bare,
        registry,
        json!({
            "profiles": [
                { "schedulerName": "plain" },
                { "schedulerName": "closed", "plugins": closed, "pluginConfig": [closed_args("2")] },
                { "schedulerName": "expressive", "plugins": expression, "pluginConfig": [expression_args] },
            ],
            "extenders": [{ "urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize",
                "weight": 1, "clusterCacheCapable": true }],
        }),
    );
    let best_cluster = async |name: &str, scheduler: &str| {
        fixture
            .schedule(&to_best_cluster(name, scheduler))
            .await
            .unwrap()
    };
    // The extender rejects m1 and prefers m2.
    for scheduler in ["plain", "expressive"] {
        let name = format!("everywhere-{scheduler}");
        assert_eq!(
            fixture
                .schedule(&to_all_clusters(&name, scheduler))
                .await
                .unwrap(),
            ["m2", "m3", "m4"]
        );
    }
    assert_eq!(best_cluster("one", "plain").await, ["m2"]);
    // In the profile `closed`, the plugin also rejects m2.
    assert_eq!(
        fixture
            .schedule(&to_all_clusters("two", "closed"))
            .await
            .unwrap(),
        ["m3", "m4"]
    );
    // In the profile `expressive`, the score of the expression outweighs the score of the extender.
    assert_eq!(best_cluster("three", "expressive").await, ["m4"]);
    fixture.stop().await;
}
