//! Three profiles, plugins of one's own and the extender of the examples, all in one scheduler.

use berth_test_requirements::needs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use berth_core::{BindingContext, BindingFilter, ClusterView, Reason};
use berth_scheduler::framework::{Args, FactoryError, Handle, Plugin, Registry};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::scene::{Scene, bare, everywhere, to_one};

/// Keeps workloads out of clusters that have a label with this value.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Closed {
    label: String,
    value: String,
}

impl Closed {
    const NAME: &str = "Closed";

    fn make(args: &Args, _: &Handle) -> Result<Plugin, FactoryError> {
        let closed: Self = args.parse()?;
        Ok(Plugin::new(Self::NAME).filter(Arc::new(closed)))
    }
}

impl BindingFilter for Closed {
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

/// The extender of the examples.
struct Licences(Child);

impl Drop for Licences {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Licences {
    /// Starts it with this many licences in each cluster and returns its URL.
    fn start(folder: &Path, stock: &Value) -> (Self, String) {
        let file = folder.join("stock.json");
        std::fs::write(&file, stock.to_string()).unwrap();
        let program =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/extender/licences.py");
        let started = Command::new("python3")
            .arg(program)
            .args(["--port", "0", "--stock"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = started.unwrap();
        let mut url = String::new();
        let printed = child.stdout.take().unwrap();
        BufReader::new(printed).read_line(&mut url).unwrap();
        (Self(child), url.trim().to_owned())
    }
}

#[needs(python3)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_profiles_a_plugin_expressions_and_an_extender() {
    let bare = bare().await;
    // m1 has no licences left, and m2 the most.
    let stock = json!({ "m1": 0, "m2": 9, "m3": 3, "m4": 3 });
    let (_licences, url) = Licences::start(bare.folder(), &stock);
    let mut registry = Registry::new();
    registry.register(Closed::NAME, Closed::make).unwrap();
    let closed = json!({ "filter": { "enabled": [{ "name": "Closed" }] } });
    let closed_args =
        |number: &str| json!({ "name": "Closed", "args": { "label": "number", "value": number } });
    let expression = json!({ "score": { "enabled": [{ "name": "Expression", "weight": 10 }] } });
    let expression_args = json!({ "name": "Expression", "args": { "score": [
        { "expression": "int(cluster.metadata.labels[\"number\"]) * 25", "weight": 1 },
    ] } });
    let scene = Scene::on(
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
    let goes_to =
        async |name: &str, scheduler: &str| scene.place(&to_one(name, scheduler)).await.unwrap();
    // The extender keeps all of them out of m1, and prefers m2.
    for scheduler in ["plain", "expressive"] {
        let name = format!("everywhere-{scheduler}");
        assert_eq!(
            scene.place(&everywhere(&name, scheduler)).await.unwrap(),
            ["m2", "m3", "m4"]
        );
    }
    assert_eq!(goes_to("one", "plain").await, ["m2"]);
    // The plugin keeps the bindings of its profile out of m2.
    assert_eq!(
        scene.place(&everywhere("two", "closed")).await.unwrap(),
        ["m3", "m4"]
    );
    // The expression weighs more than the extender.
    assert_eq!(goes_to("three", "expressive").await, ["m4"]);
    scene.stop().await;
}
