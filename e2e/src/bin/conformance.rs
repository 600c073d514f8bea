//! A program that compares the decisions of Berth's scheduling engine with recorded decisions of Karmada's scheduler,
//! or measures the speed of the engine's decisions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use berth_e2e::conformance::{Corpus, bench, decide, judge, read_lines};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// Compares decisions of the scheduling engine with decisions of Karmada, or measures the speed of the engine.
#[derive(Debug, Parser)]
struct Arguments {
    /// Scenarios to schedule: one JSON document per line, plain or compressed with gzip
    #[arg(long, value_name = "FILE")]
    scenarios: Option<PathBuf>,
    /// Expected decisions of Karmada: one JSON document per line, plain or compressed with gzip
    #[arg(long, value_name = "FILE")]
    expected: Option<PathBuf>,
    /// Measure the speed of each scenario for this many seconds, instead of comparing decisions
    #[arg(long, value_name = "SECONDS", conflicts_with = "expected")]
    bench: Option<f64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let default = |file: &str| data.join(file);
    let result = if let Some(seconds) = arguments.bench {
        let scenarios = arguments
            .scenarios
            .unwrap_or_else(|| default("bench/decisions.jsonl.gz"));
        measure(&scenarios, seconds)
    } else {
        let scenarios = arguments
            .scenarios
            .unwrap_or_else(|| default("conformance/scenarios.jsonl.gz"));
        let expected = arguments
            .expected
            .unwrap_or_else(|| default("conformance/expected.jsonl.gz"));
        compare(&scenarios, &expected)
    };
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

fn compare(scenarios: &Path, expected: &Path) -> Result<ExitCode, String> {
    let corpus = Corpus::read(scenarios, expected).map_err(|error| error.to_string())?;
    let mut families: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut mismatches = Vec::new();
    for (scenario, expected) in &corpus.cases {
        let (cases, equal) = families
            .entry(family(&scenario.family, &scenario.id))
            .or_default();
        *cases += 1;
        match judge(expected, &decide(scenario)) {
            Ok(()) => *equal += 1,
            Err(mismatch) => mismatches.push(mismatch),
        }
    }
    for mismatch in &mismatches {
        println!("mismatch {mismatch}");
    }
    for (family, (cases, equal)) in &families {
        println!("{family}: {equal} of {cases} equal");
    }
    let cases = corpus.cases.len();
    println!("all: {} of {cases} equal", cases - mismatches.len());
    Ok(if mismatches.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the family of a scenario, or the prefix of its id if the family is empty.
fn family<'a>(family: &'a str, id: &'a str) -> &'a str {
    if family.is_empty() {
        id.rsplit_once('-').map_or(id, |(prefix, _)| prefix)
    } else {
        family
    }
}

fn measure(scenarios: &Path, seconds: f64) -> Result<ExitCode, String> {
    let mut code = ExitCode::SUCCESS;
    for scenario in read_lines(scenarios).map_err(|error| error.to_string())? {
        let (measured, agrees) = bench::measure(&scenario, seconds, &memory)?;
        println!(
            "{}",
            serde_json::to_string(&measured).map_err(|error| error.to_string())?
        );
        if !agrees {
            eprintln!(
                "{}: the engine makes different decisions without its cache",
                scenario.id
            );
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn memory() -> bench::Memory {
    let stats = ALLOCATOR.stats();
    bench::Memory {
        allocations: stats.allocations + stats.reallocations,
        allocated: stats.bytes_allocated,
        freed: stats.bytes_deallocated,
    }
}
