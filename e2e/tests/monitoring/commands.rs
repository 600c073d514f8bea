//! A test of the commands in the runbooks, in the troubleshooting page, and in the README of `deploy/monitoring`. The
//! test runs all blocks marked `sh` on a control plane of `berth up`. Blocks marked `bash` contain commands for other
//! clusters, and the test skips them.

use std::path::Path;
use std::process::Command;

use berth::up::{ControlPlane, UpArgs};
use berth_e2e::eventually;
use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::rules::{RULES, text};
use crate::{files, in_repository, read};

/// Returns a CustomResourceDefinition of the kind PrometheusRule, whose schema permits all fields.
fn rule_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "prometheusrules.monitoring.coreos.com" },
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": { "kind": "PrometheusRule", "plural": "prometheusrules", "singular": "prometheusrule" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    })
}

/// Returns the code blocks of a page with this language. Removes the indentation of blocks in lists.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let (mut blocks, mut block) = (Vec::new(), None::<(usize, String)>);
    for line in page.lines() {
        let indent = line.len() - line.trim_start().len();
        match &mut block {
            None if line.trim() == format!("```{language}") => {
                block = Some((indent, String::new()));
            }
            None => {}
            Some(_) if line.trim() == "```" => blocks.extend(block.take().map(|(_, text)| text)),
            Some((indent, text)) => {
                text.push_str(line.get(*indent..).unwrap_or_default());
                text.push('\n');
            }
        }
    }
    assert!(block.is_none(), "the last code block does not end");
    blocks
}

/// Runs a script in the root of the repository, and returns its output. `folder` contains the kubeconfig.
fn run(script: &str, folder: &Path) -> Result<String, String> {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(in_repository(""))
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .env("KUBECACHEDIR", folder.join("cache"))
        .env("NAMESPACE", "default")
        .env("BINDING", "nginx-deployment")
        .env("CLUSTER", "member1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(out)
    } else {
        Err(format!("{script}\n{out}{err}"))
    }
}

/// Checks that all commands succeed, and that they install the alert rules and the dashboards.
#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_the_pages_succeed() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = UpArgs {
        port: 0,
        ..UpArgs::default()
    };
    let plane = ControlPlane::start(&arguments).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("kubeconfig"), plane.kubeconfig()).unwrap();
    std::fs::write(folder.join("rules"), rule_definition().to_string()).unwrap();
    let definition = folder.join("rules");
    let prepare = format!(
        "kubectl apply -f {} -f examples/nginx.yaml\n\
         kubectl create namespace monitoring\n\
         kubectl wait --for=condition=Established crd/prometheusrules.monitoring.coreos.com",
        definition.display()
    );
    run(&prepare, folder).unwrap();
    eventually("the binding to be applied", async || {
        run(
            "kubectl wait --for=condition=FullyApplied --timeout=1s rb nginx-deployment",
            folder,
        )
    })
    .await;

    let mut pages = files("docs/runbooks", "md");
    pages.push(in_repository("docs/troubleshooting.md"));
    pages.push(in_repository("deploy/monitoring/README.md"));
    let mut count = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in blocks(&text, "sh") {
            assert!(
                !block.contains("--context"),
                "{}: a `sh` block must not select a context: {block}",
                page.display()
            );
            run(&block, folder).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
            count += 1;
        }
    }
    assert!(count > 10, "found {count} blocks");

    let rule = run(
        "kubectl -n monitoring get prometheusrule berth -o json",
        folder,
    )
    .unwrap();
    let rule: Value = serde_json::from_str(&rule).unwrap();
    let mut file: Value = serde_saphyr::from_str(&read(RULES)).unwrap();
    for rule in file["groups"][0]["rules"].as_array_mut().unwrap() {
        let url = text(rule, "/annotations/runbook_url");
        let url = format!("https://git.example.org/berth/blob/main/{url}");
        rule["annotations"]["runbook_url"] = json!(url);
    }
    assert_eq!(rule["spec"], file);
    let names =
        "kubectl -n monitoring get configmap berth-dashboards -o json | grep -c '\\.json\": '";
    assert_eq!(run(names, folder).unwrap().trim(), "3");
    plane.stop().await;
}
