//! Tests of the YAML examples in the documentation of plugins, gangs and preemption. The tests use the examples
//! unchanged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_e2e::scheduler_fixture::{four_clusters, outcome, to_all_clusters};
use berth_e2e::{BareControlPlane, RunningScheduler};
use berth_engine::{BindingContext, BindingFilter, ClusterView, Reason};
use berth_scheduler::Options;
use berth_scheduler::config::{DeclaredProfiles, Document, ProfileFlags, SchedulerConfiguration};
use berth_scheduler::framework::{Args, Plugin, Registry};
use k8s_openapi::api::rbac::v1::Role;
use serde_json::{Value, json};

/// The head of a configuration, for examples that begin with `profiles:`.
const HEAD: &str = "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\n";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the YAML blocks of a page in `docs`.
fn yaml_blocks(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("docs").join(page)).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match (&mut open, line.trim()) {
            (None, "```yaml") => open = Some(String::new()),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some(block), _) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

const TEST_FILTER: &str = "TestFilter";

/// A replacement for the plugin in the first section of `plugins.md`. The plugin accepts all clusters, and [`registry`]
/// checks its arguments.
#[derive(Debug)]
struct TestFilter(&'static str);

impl BindingFilter for TestFilter {
    fn name(&self) -> &str {
        self.0
    }

    fn check(&self, _: &BindingContext<'_>, _: &ClusterView<'_>) -> Result<(), Reason> {
        Ok(())
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    let factory = |args: &Args, _: &_| {
        let args: Value = args.parse()?;
        assert_eq!(args, json!({ "label": "maintenance" }));
        Ok(Plugin::new(TEST_FILTER).filter(Arc::new(TestFilter(TEST_FILTER))))
    };
    registry.register(TEST_FILTER, factory).unwrap();
    registry
}

/// Runs a scheduler with a configuration until each profile of the configuration has handled a binding.
async fn run_each_profile(bare: &BareControlPlane, page: &str, text: &str) {
    let document = Document::read(page, text).unwrap();
    let configuration: SchedulerConfiguration = document.parse().unwrap();
    let names: Vec<String> = configuration
        .profiles
        .iter()
        .filter_map(|profile| profile.scheduler_name.clone())
        .collect();
    assert!(!names.is_empty(), "{page}: {text}");
    let flags = ProfileFlags::default();
    let options = Options {
        registry: registry(),
        declared: DeclaredProfiles::from_document(document, configuration, flags).unwrap(),
        ..Options::embedded()
    };
    let scheduler = RunningScheduler::start(options, bare.client.clone());
    for name in names {
        let binding = format!("of-{}", uuid::Uuid::new_v4().simple());
        bare.bind(&to_all_clusters(&binding, &name)).await;
        if let Err((reason, message)) = outcome(bare, &binding).await {
            let cause = match page {
                // The plugin Coscheduling refuses the binding, because its template does not exist.
                "gangs.md" => "Coscheduling",
                // The expression refuses the clusters, because none has the label of the namespace.
                "plugins.md" => "the expression",
                _ => "no failure is expected",
            };
            assert!(message.contains(cause), "{page}: {reason}: {message}");
        }
    }
    scheduler.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_configurations_run() {
    let bare = four_clusters().await;
    for (page, count) in [("plugins.md", 2), ("gangs.md", 1), ("preemption.md", 1)] {
        let mut run = 0;
        for block in yaml_blocks(page) {
            if block.starts_with("profiles:") {
                run_each_profile(&bare, page, &format!("{HEAD}{block}")).await;
                run += 1;
            } else if block.contains("kind: SchedulerConfiguration") {
                run_each_profile(&bare, page, &block).await;
                run += 1;
            }
        }
        assert_eq!(run, count, "{page}");
    }
    bare.stop().await;
}

/// Checks that the Role in `plugins.md` equals the Role in `deploy/scheduler/optional/config-map.yaml`.
#[test]
fn the_documented_role_equals_the_deployed_one() {
    let roles: Vec<String> = yaml_blocks("plugins.md")
        .into_iter()
        .filter(|block| block.contains("kind: Role\n"))
        .collect();
    assert_eq!(roles.len(), 1);
    let documented: Role = serde_saphyr::from_str(&roles[0]).unwrap();
    let file = repository().join("deploy/scheduler/optional/config-map.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let (role, _) = text.split_once("\n---\n").unwrap();
    let deployed: Role = serde_saphyr::from_str(role).unwrap();
    assert_eq!(documented, deployed);
}

/// Checks that each YAML block is a configuration or a Role, which the other tests check.
#[test]
fn every_documented_yaml_block_is_checked() {
    for page in ["plugins.md", "gangs.md", "preemption.md"] {
        for block in yaml_blocks(page) {
            let known = [
                "profiles:",
                "apiVersion: scheduler.config.berth/",
                "apiVersion: rbac.",
            ];
            assert!(
                known.iter().any(|head| block.starts_with(head)),
                "{page}: {block}"
            );
        }
    }
}
