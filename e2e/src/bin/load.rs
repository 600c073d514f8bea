//! The load generator: a program with one subcommand for each load scenario. A scenario prints its measurements as
//! JSON.
//!
//! `docs/performance.md` describes the scenarios. A scenario that measures `berth scheduler` or `berth up` starts this
//! program again, with a subcommand of `berth` such as `up`. The program then does the same as `berth`.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_e2e::load::{
    self, Burst, Estimators, Expressions, LoadError, Members, Propagation, Scale, ServerLoad,
    SideBySide, Starvation, Steady, Storage,
};
use clap::{Parser, Subcommand};
use serde_json::Value;

/// Generates load and prints measurements as JSON.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// Throughput for bindings that exist before the scheduler starts, compared with a client that only writes
    Burst(Burst),
    /// Time from creation to the condition Scheduled, for bindings created at a steady rate
    Steady(Steady),
    /// Latency of new bindings while thousands of bindings wait for capacity and the capacity of a cluster changes
    Starvation(Starvation),
    /// Throughput with thousands of clusters and tens of thousands of bindings
    Scale(Scale),
    /// Time to propagate Deployments to the members of `berth up`, and then changes of their replicas
    Propagation(Propagation),
    /// Time until the members of `berth up` are ready, and its processor time and memory while they are idle
    Members(Members),
    /// Time of the engine's decisions with an expression as a filter, without a server
    Expressions(Expressions),
    /// Sets of programs propagate the same Deployments on a kube-apiserver of their own, in turns. Prints one table
    SideBySide(SideBySide),
    /// Times and memory of estimators of one cluster with thousands of nodes, which answer the same requests
    Estimators(Estimators),
    /// Writes, lists, watches and memory of an API server without other components
    Server(ServerLoad),
    /// API server in a separate process, which `load server` starts and measures
    #[command(hide = true)]
    ApiServer {
        /// File to which the kubeconfig is written
        kubeconfig: PathBuf,
        #[command(flatten)]
        storage: Storage,
    },
}

fn main() -> ExitCode {
    if matches!(
        std::env::args().nth(1).as_deref(),
        Some("controllers" | "estimator" | "join" | "scheduler" | "up" | "webhook")
    ) {
        return berth::cli::main();
    }
    let arguments = Arguments::parse();
    berth_up::open_files::raise_limit();
    match run(&arguments.scenario) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a scenario and returns its report: JSON, or the table of `side-by-side`.
fn run(scenario: &Scenario) -> Result<String, LoadError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| LoadError::Unexpected(error.to_string()))?;
    runtime.block_on(async {
        let report = match scenario {
            Scenario::SideBySide(load) => return load::side_by_side(load).await,
            Scenario::Burst(burst) => load::burst(burst).await,
            Scenario::Steady(steady) => load::steady(steady).await,
            Scenario::Starvation(starvation) => load::starvation(starvation).await,
            Scenario::Scale(scale) => load::scale(scale).await,
            Scenario::Propagation(load) => load::propagation(load).await,
            Scenario::Members(load) => load::members(load).await,
            Scenario::Expressions(load) => load::expressions(load),
            Scenario::Estimators(load) => load::estimators(load).await,
            Scenario::Server(server) => load::server(server).await,
            Scenario::ApiServer {
                kubeconfig,
                storage,
            } => load::run_api_server(kubeconfig, storage)
                .await
                .map(|()| Value::Null),
        };
        report.map(|report| format!("{report:#}"))
    })
}
