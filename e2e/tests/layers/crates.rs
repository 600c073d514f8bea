//! Checks of the dependencies between crates: a crate depends only on crates of lower layers, and no crate in `crates/`
//! except the program `berth` depends on a crate in `trial/`.
//!
//! Development dependencies are free, because tests may use the trial and the program. The end-to-end tests, the examples
//! and the fuzz targets are above all layers.

use std::fs;
use std::path::Path;

use crate::source_files::crate_folders;

/// The layers of all crates from low to high. Crates of one layer do not depend on each other.
const LAYERS: &[&[&str]] = &[
    &[
        "berth-apimachinery",
        "berth-heap-trim",
        "berth-https-client",
        "berth-metrics",
    ],
    &["berth-api", "berth-cel", "berth-events", "berth-telemetry"],
    &[
        "berth-apiserver",
        "berth-component-base",
        "berth-diagnosis",
        "berth-engine",
        "berth-estimator-protocol",
        "berth-interpreter",
    ],
    &[
        "berth-controllers",
        "berth-estimator",
        "berth-explain",
        "berth-expression",
        "berth-webhook",
        "berth-workloads",
    ],
    &["berth-scheduler"],
    &["berth-plan"],
    &["berth-dashboard", "berth-up"],
    &[PROGRAM],
];

/// The crate that combines production and trial.
const PROGRAM: &str = "berth";

/// Folder of the crates for trial and tests.
const TRIAL: &str = "trial";

/// The parts of a crate's manifest that the rules are about.
#[derive(Debug, PartialEq, Eq)]
struct Crate {
    name: String,
    /// Name of the folder that contains the folder of the crate.
    group: String,
    /// Names of the crates of Berth that the crate depends on, without development dependencies.
    dependencies: Vec<String>,
}

impl Crate {
    /// Parses the text of a manifest.
    fn parse(group: &str, manifest: &str) -> Self {
        let mut parsed = Self {
            name: String::new(),
            group: group.to_owned(),
            dependencies: Vec::new(),
        };
        let mut section = String::new();
        for line in manifest.lines().map(str::trim) {
            if let Some(header) = line.strip_prefix('[') {
                header.trim_end_matches(']').clone_into(&mut section);
                // The section `[dependencies.NAME]` describes one dependency.
                if let Some((table, name)) = section.rsplit_once('.')
                    && is_dependency_table(table)
                {
                    parsed.dependencies.push(name.to_owned());
                }
            } else if section == "package" && line.starts_with("name =") {
                quoted(line).clone_into(&mut parsed.name);
            } else if is_dependency_table(&section) && !line.starts_with('#') && !line.is_empty() {
                let alias = line.split(['.', '=', ' ']).next().unwrap_or_default();
                let package = line.split_once("package =").map(|(_, rest)| quoted(rest));
                parsed
                    .dependencies
                    .push(package.unwrap_or(alias).to_owned());
            }
        }
        parsed
            .dependencies
            .retain(|name| name == PROGRAM || name.starts_with("berth-"));
        parsed
    }
}

/// Returns the text between the first two quotation marks.
fn quoted(text: &str) -> &str {
    text.split('"').nth(1).unwrap_or_default()
}

/// Reports whether a section of a manifest lists dependencies of the crate's sources or of its build script.
fn is_dependency_table(section: &str) -> bool {
    ["dependencies", "build-dependencies"]
        .iter()
        .any(|table| section == *table || section.ends_with(&format!(".{table}")))
}

/// Returns a line for each dependency that breaks a rule, and for each crate without a layer.
fn violations(crates: &[Crate]) -> Vec<String> {
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let is_trial = |name: &str| crates.iter().any(|of| of.name == name && of.group == TRIAL);
    let mut violations = Vec::new();
    for Crate {
        name,
        group,
        dependencies,
    } in crates
    {
        let Some(own) = layer(name) else {
            violations.push(format!("{name} has no layer: add it to LAYERS"));
            continue;
        };
        for dependency in dependencies {
            if layer(dependency).is_none_or(|other| other >= own) {
                violations.push(format!(
                    "{name} depends on {dependency}, which is not in a lower layer"
                ));
            }
            if is_trial(dependency) && group != TRIAL && name != PROGRAM {
                violations.push(format!(
                    "{name} depends on {dependency}, which is for trial and tests"
                ));
            }
        }
    }
    violations
}

#[test]
fn crates_depend_on_lower_layers_and_not_on_the_trial() {
    let crates: Vec<Crate> = crate_folders()
        .iter()
        .map(|folder| {
            let group = folder.parent().and_then(Path::file_name).unwrap();
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            Crate::parse(group.to_str().unwrap(), &manifest)
        })
        .collect();
    let of_trial = crates.iter().filter(|of| of.group == TRIAL);
    assert!(of_trial.count() > 0, "{TRIAL} contains no crate");
    let violations = violations(&crates);
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn dependencies_are_found_in_all_tables_except_those_of_tests() {
    let manifest = r#"
[package]
name = "berth-plan"
description = "Depends on berth-webhook = not at all."

[dependencies]
# berth-cel.workspace = true
berth-api.workspace = true
berth-apimachinery = { workspace = true, features = ["api-error"] }
engine = { package = "berth-engine", path = "../engine" }
serde.workspace = true

[dependencies.berth-explain]
workspace = true

[build-dependencies]
berth-events.workspace = true

[target.'cfg(unix)'.dependencies]
berth-heap-trim.workspace = true

[dev-dependencies]
berth-apiserver.workspace = true

[target.'cfg(unix)'.dev-dependencies]
berth-up.workspace = true
"#;
    let expected = Crate {
        name: "berth-plan".to_owned(),
        group: "crates".to_owned(),
        dependencies: [
            "berth-api",
            "berth-apimachinery",
            "berth-engine",
            "berth-explain",
            "berth-events",
            "berth-heap-trim",
        ]
        .map(str::to_owned)
        .into(),
    };
    assert_eq!(Crate::parse("crates", manifest), expected);
}

#[test]
fn upward_dependencies_and_dependencies_on_the_trial_are_refused() {
    let depends = |group: &str, name: &str, dependency: &str| Crate {
        name: name.to_owned(),
        group: group.to_owned(),
        dependencies: vec![dependency.to_owned()],
    };
    for (of, expected) in [
        (depends("crates", "berth-plan", "berth-scheduler"), vec![]),
        (depends("crates", "berth", "berth-up"), vec![]),
        (depends("trial", "berth-workloads", "berth-api"), vec![]),
        (
            depends("crates", "berth-api", "berth-plan"),
            vec!["berth-api depends on berth-plan, which is not in a lower layer"],
        ),
        (
            depends("crates", "berth-cel", "berth-api"),
            vec!["berth-cel depends on berth-api, which is not in a lower layer"],
        ),
        (
            depends("crates", "berth-plan", "berth-apiserver"),
            vec!["berth-plan depends on berth-apiserver, which is for trial and tests"],
        ),
        (
            depends("crates", "berth-plan", "berth-unknown"),
            vec!["berth-plan depends on berth-unknown, which is not in a lower layer"],
        ),
        (
            depends("crates", "berth-new", "berth-api"),
            vec!["berth-new has no layer: add it to LAYERS"],
        ),
    ] {
        let trial = depends("trial", "berth-apiserver", "berth-cel");
        let up = depends("trial", "berth-up", "berth-apiserver");
        assert_eq!(violations(&[of, trial, up]), expected);
    }
}
