//! Tests of the manifests in deploy/ that hack/local-up.sh applies, and of the second scheduler that it suggests.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::machine::{repository, stderr};

/// Returns the documents of these manifests, each with the path of its file.
fn manifests() -> Vec<(PathBuf, Value)> {
    let deploy = repository().join("deploy");
    let mut found = Vec::new();
    for folder in [
        deploy.clone(),
        deploy.join("scheduler"),
        deploy.join("controllers"),
        deploy.join("second-scheduler"),
    ] {
        for entry in fs::read_dir(folder).expect("the folder") {
            let path = entry.expect("an entry").path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                let text = fs::read_to_string(&path).expect("the text of the manifest");
                let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
                found.extend(
                    documents
                        .into_iter()
                        .map(|document| (path.clone(), document)),
                );
            }
        }
    }
    found
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn deployments_use_commands_and_flags_that_exist() {
    let mut deployments = Vec::new();
    for (path, manifest) in manifests() {
        if manifest["kind"] != "Deployment" {
            continue;
        }
        let command = words(&manifest["spec"]["template"]["spec"]["containers"][0]["command"]);
        assert_eq!(command[0], "berth", "{}", path.display());
        // The program prints its help only if the flags before --help are valid.
        let output = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(&command[1..])
            .arg("--help")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            path.display(),
            stderr(&output)
        );
        deployments.push(manifest["metadata"]["name"].as_str().unwrap().to_owned());
    }
    deployments.sort();
    assert_eq!(
        deployments,
        [
            "berth-controllers",
            "karmada-scheduler",
            "my-karmada-scheduler"
        ]
    );

    let unknown = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["scheduler", "--no-such-flag", "--help"])
        .output()
        .unwrap();
    assert!(!unknown.status.success());
}

#[test]
fn deployments_are_valid_and_use_only_leases_that_rbac_rules_allow() {
    let manifests = manifests();
    let leases: Vec<&str> = manifests
        .iter()
        .filter(|(_, manifest)| manifest["kind"] == "Role")
        .flat_map(|(_, role)| role["rules"].as_array().into_iter().flatten())
        .flat_map(|rule| words(&rule["resourceNames"]))
        .collect();
    for (path, manifest) in manifests
        .iter()
        .filter(|(_, manifest)| manifest["kind"] == "Deployment")
    {
        let path = path.display();
        let pod = &manifest["spec"]["template"]["spec"];
        assert_eq!(
            manifest["spec"]["selector"]["matchLabels"],
            manifest["spec"]["template"]["metadata"]["labels"],
            "{path}"
        );
        assert_eq!(pod["containers"][0]["image"], "berth:latest", "{path}");
        assert_eq!(
            pod["containers"][0]["securityContext"]["runAsNonRoot"], true,
            "{path}"
        );
        let command = words(&pod["containers"][0]["command"]);
        let flag = |name: &str| command.iter().find_map(|word| word.strip_prefix(name));
        assert_eq!(
            flag("--kubeconfig="),
            Some("/etc/karmada/config/karmada.config"),
            "{path}"
        );
        if command[1] == "scheduler" {
            let lease = flag("--leader-elect-resource-name=").unwrap_or("karmada-scheduler");
            assert!(
                leases.contains(&lease),
                "{path}: no right to the lease {lease:?}: {leases:?}"
            );
            let name = flag("--scheduler-name=").unwrap_or("default-scheduler");
            assert_eq!(
                name == "default-scheduler",
                lease == "karmada-scheduler",
                "{path}: only the default scheduler must use the lease karmada-scheduler"
            );
        }
    }
}
