//! Tests of a program that is built from the `berth` crate with an additional scheduler plugin.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::process::ExitCode;
use std::sync::Arc;

use berth::cli::BerthCommand;
use berth_engine::{BindingContext, BindingFilter, ClusterView, Reason};
use berth_scheduler::framework::{Args, FactoryError, Handle, Plugin};

const CONFIGURATION: &str = "apiVersion: scheduler.config.berth/v1alpha1
kind: SchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Closed}]
";

/// A filter plugin that rejects every cluster.
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

#[expect(
    clippy::unnecessary_wraps,
    reason = "the type of factories, which may fail"
)]
fn closed(_: &Args, _: &Handle) -> Result<Plugin, FactoryError> {
    Ok(Plugin::new("Closed").filter(Arc::new(Closed)))
}

/// Runs `simulate` with a configuration that enables the plugin. The exit code is 1 if a workload is not placed.
fn simulate(program: BerthCommand) -> ExitCode {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let folder = tempfile::tempdir().unwrap();
    let configuration = folder.path().join("config.yaml");
    std::fs::write(&configuration, CONFIGURATION).unwrap();
    let (fleet, workload) = (
        format!("{root}/examples/fleet.yaml"),
        format!("{root}/examples/nginx.yaml"),
    );
    let words = ["berth", "simulate", "--fail-on-unscheduled"];
    let files = ["-f", &fleet, "-f", &workload, "--config"];
    let words = words.iter().chain(&files).map(Into::into);
    program.run_with(words.chain([configuration.into()]).collect())
}

#[test]
fn a_simulation_runs_the_plugins_of_the_program() {
    let mine = BerthCommand::new().with_plugin("Closed", closed);
    assert_eq!(simulate(mine), ExitCode::from(1));
    // A program without this plugin ignores the plugin in the configuration, and prints a note.
    assert_eq!(simulate(BerthCommand::new()), ExitCode::SUCCESS);
}

#[test]
fn two_plugins_with_the_same_name_are_refused() {
    let program = BerthCommand::new()
        .with_plugin("Closed", closed)
        .with_plugin("Closed", closed);
    assert_eq!(simulate(program), ExitCode::from(2));
}
