//! Generates load and prints measurements as JSON.
//!
//! `docs/performance.md` describes its use. As `load scheduler …` and `load up …` it runs that command of `berth`: the
//! generator starts itself as the process to measure.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_e2e::load::{
    self, Burst, Expressions, LoadError, Members, Propagation, Scale, ServerLoad, Starvation,
    Steady, Storage,
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
    /// Bindings created beforehand, compared with a plain writer
    Burst(Burst),
    /// A stream of bindings: time from creation to Scheduled
    Steady(Steady),
    /// New bindings while thousands wait and a cluster flaps
    Starvation(Starvation),
    /// Thousands of clusters, tens of thousands of bindings
    Scale(Scale),
    /// Propagation of Deployments to members, then changes of replicas: `berth up` in a separate process
    Propagation(Propagation),
    /// Idle members: `berth up` in a separate process
    Members(Members),
    /// Decisions with an expression as a filter: the engine alone
    Expressions(Expressions),
    /// The API server alone, in a separate process
    Server(ServerLoad),
    /// The API server itself, for `load server`
    #[command(hide = true)]
    Serve {
        /// File for the kubeconfig
        kubeconfig: PathBuf,
        #[command(flatten)]
        storage: Storage,
    },
}

fn main() -> ExitCode {
    if matches!(std::env::args().nth(1).as_deref(), Some("scheduler" | "up")) {
        return berth::cli::main();
    }
    let arguments = Arguments::parse();
    berth::open_files::raise_limit();
    match run(&arguments.scenario) {
        Ok(report) => {
            println!("{report:#}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(scenario: &Scenario) -> Result<Value, LoadError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| LoadError::Unexpected(error.to_string()))?;
    runtime.block_on(async {
        match scenario {
            Scenario::Burst(burst) => load::burst(burst).await,
            Scenario::Steady(steady) => load::steady(steady).await,
            Scenario::Starvation(starvation) => load::starvation(starvation).await,
            Scenario::Scale(scale) => load::scale(scale).await,
            Scenario::Propagation(load) => load::propagation(load).await,
            Scenario::Members(load) => load::members(load).await,
            Scenario::Expressions(load) => load::expressions(load),
            Scenario::Server(server) => load::server(server).await,
            Scenario::Serve {
                kubeconfig,
                storage,
            } => load::serve(kubeconfig, storage).await.map(|()| Value::Null),
        }
    })
}
