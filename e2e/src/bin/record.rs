//! A program that records the evidence about Karmada in the data files of the tests.

use std::process::ExitCode;

use berth_e2e::record::{
    Definitions, Programs, RecordError, Report, decisions, definitions, detector, interpreter,
    objects, writes,
};
use clap::{Parser, Subcommand};

/// Records the behaviour of Karmada's programs in the data files of the tests.
///
/// A recording runs Karmada's programs on the inputs in a data file, writes the results into the file, and prints the
/// entries that differ from the previous recording. With the same version of Karmada, only the version and the date
/// change. e2e/data/README.md describes the files.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    evidence: Evidence,
}

const EXAMPLES: &str = "\
Examples:
  export BERTH_E2E_KARMADA=FOLDER KUBEBUILDER_ASSETS=FOLDER
  cargo run -p berth-e2e --bin record writes
  cargo run -p berth-e2e --bin record detector --definitions crds
  cargo run -p berth-e2e --bin record definitions --definitions crds --release v1.19.0";

#[derive(Debug, Subcommand)]
enum Evidence {
    /// Writes of karmada-scheduler to bindings, and its events; needs kube-apiserver and etcd in KUBEBUILDER_ASSETS
    Writes(Programs),
    /// Admission by karmada-webhook and bindings of karmada-controller-manager; needs KUBEBUILDER_ASSETS, too
    Detector {
        #[command(flatten)]
        programs: Programs,
        #[command(flatten)]
        definitions: Definitions,
    },
    /// Objects that karmada-scheduler and karmada-controller-manager write beside Berth's programs
    Objects(Programs),
    /// Decisions of Karmada's scheduling algorithm, from a program around Karmada's library
    Decisions(decisions::Program),
    /// Results of Karmada's customizations for kinds of other projects, from karmadactl interpret
    Interpreter {
        #[command(flatten)]
        programs: Programs,
        #[command(flatten)]
        customizations: interpreter::Customizations,
    },
    /// Structure of Karmada's CustomResourceDefinitions
    Definitions(definitions::Release),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = tokio::runtime::Runtime::new()
        .map_err(|error| RecordError::Api(error.to_string()))
        .and_then(|runtime| runtime.block_on(record(&arguments.evidence)));
    match result {
        Ok(reports) => {
            for report in &reports {
                println!("{report}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn record(evidence: &Evidence) -> Result<Vec<Report>, RecordError> {
    Ok(match evidence {
        Evidence::Writes(programs) => vec![writes::record(programs).await?],
        Evidence::Detector {
            programs,
            definitions,
        } => vec![Box::pin(detector::record(programs, definitions)).await?],
        Evidence::Objects(programs) => objects::record(programs)?,
        Evidence::Decisions(program) => vec![decisions::record(program)?],
        Evidence::Interpreter {
            programs,
            customizations,
        } => interpreter::record(programs, customizations)?,
        Evidence::Definitions(release) => vec![definitions::record(release)?],
    })
}
