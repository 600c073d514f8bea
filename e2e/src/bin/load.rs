//! Puts load on a scheduler and prints what it achieves, as JSON.
//!
//! `docs/performance.md` says how to run it. Called as `load scheduler …` or `load up …` it is that command of `berth`
//! itself: the generator starts itself again in this form.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_e2e::load::{
    self, Burst, Expressions, Herd, Hostile, Keeping, LoadError, Members, Propagation, Scale,
    ServerLoad, Steady,
};
use clap::{Parser, Subcommand};
use serde_json::Value;

/// Puts load on a scheduler and prints what it achieves, as JSON.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// Bindings created beforehand, against a writer that only writes
    Burst(Burst),
    /// A stream of bindings: from created to Scheduled
    Steady(Steady),
    /// Thousands of bindings that wait while a cluster flaps
    Herd(Herd),
    /// Thousands of clusters, tens of thousands of bindings
    Scale(Scale),
    /// Deployments on their way into members, and changes of replicas after them: `berth up` as a process of its own
    Propagation(Propagation),
    /// Idle members: `berth up` as a process of its own
    Members(Members),
    /// Decisions with an expression as a filter: the engine alone
    Expressions(Expressions),
    /// The API server alone, as a process of its own
    Server(ServerLoad),
    /// Hostile connections to the API server, and how long others wait meanwhile
    Hostile(Hostile),
    /// The API server itself, for `load server`
    #[command(hide = true)]
    Serve {
        /// Where its kubeconfig appears.
        kubeconfig: PathBuf,
        #[command(flatten)]
        keeping: Keeping,
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
        .map_err(|error| LoadError::Wrong(error.to_string()))?;
    runtime.block_on(async {
        match scenario {
            Scenario::Burst(burst) => load::burst(burst).await,
            Scenario::Steady(steady) => load::steady(steady).await,
            Scenario::Herd(herd) => load::herd(herd).await,
            Scenario::Scale(scale) => load::scale(scale).await,
            Scenario::Propagation(load) => load::propagation(load).await,
            Scenario::Members(load) => load::members(load).await,
            Scenario::Expressions(load) => load::expressions(load),
            Scenario::Server(server) => load::server(server).await,
            Scenario::Hostile(hostile) => load::hostile(hostile).await,
            Scenario::Serve {
                kubeconfig,
                keeping,
            } => load::serve(kubeconfig, keeping).await.map(|()| Value::Null),
        }
    })
}
