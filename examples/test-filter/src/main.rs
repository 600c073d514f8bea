//! An example scheduler with its own plugin `TestFilter`, which rejects all clusters with a given label.

use std::process::ExitCode;
use std::sync::Arc;

use berth_engine::{BindingContext, BindingFilter, ClusterView, Reason};
use berth_scheduler::SchedulerCommand;
use berth_scheduler::framework::{Args, FactoryError, Handle, Plugin};
use serde::Deserialize;

/// The plugin. Its fields are the arguments in the configuration file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TestFilter {
    /// Clusters with this label get no workloads.
    label: String,
}

impl Default for TestFilter {
    fn default() -> Self {
        Self {
            label: "test-filter/closed".to_owned(),
        }
    }
}

impl TestFilter {
    const NAME: &str = "TestFilter";

    fn new(args: &Args, _handle: &Handle) -> Result<Plugin, FactoryError> {
        let filter: Self = args.parse()?;
        Ok(Plugin::new(Self::NAME).filter(Arc::new(filter)))
    }
}

impl BindingFilter for TestFilter {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn check(&self, _: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        match cluster.label(&self.label) {
            Some(_) => Err(format!("cluster(s) had the label {}", self.label).into()),
            None => Ok(()),
        }
    }
}

fn main() -> ExitCode {
    SchedulerCommand::new()
        .with_plugin(TestFilter::NAME, TestFilter::new)
        .run()
}
