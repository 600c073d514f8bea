//! Test of kubectl with a custom kind: its names, columns, schema, status and scale.

use berth_e2e::eventually;
use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::definitions::{Kind, definition};
use crate::harness::server;

/// Returns a definition of a custom kind with a unique group. The short name of the kind is a part of its group,
/// because tests that share a server must not use the same short name.
fn widgets() -> Value {
    let mut definition = definition(
        json!({"type": "object", "required": ["color"], "properties": {
        "color": {"type": "string", "minLength": 2, "description": "What it looks like."},
        "size": {"type": "string", "enum": ["S", "L"], "default": "S"},
        "hidden": {"type": "string"},
        "replicas": {"type": "integer", "minimum": 0},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "weight": {"type": "integer", "default": 1}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}),
    );
    let group = definition["spec"]["group"].as_str().unwrap().to_owned();
    let short = group.split('.').next().unwrap();
    definition["spec"]["names"]["shortNames"] = json!([short]);
    definition["spec"]["names"]["categories"] = json!([format!("all-{short}")]);
    let version = &mut definition["spec"]["versions"][0];
    version["subresources"] = json!({"status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    version["additionalPrinterColumns"] = json!([
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
        {"name": "Secret", "type": "string", "jsonPath": ".spec.hidden", "priority": 1}]);
    version["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    definition
}

/// Checks that kubectl finds a custom kind by its short name and category, and prints the columns of the definition.
#[needs(kubectl)]
#[tokio::test]
async fn kubectl_uses_columns_and_names_of_the_definition() {
    let server = server().await;
    let kind = Kind::install(&server, &widgets()).await;
    kind.create("a", &json!({"color": "red", "hidden": "x"}))
        .await;
    let short = kind.group.split('.').next().unwrap().to_owned();
    let category = format!("all-{short}");
    let crd = format!("crd/{}", kind.name);
    let one = format!("{short}/a");
    let field = format!("{short}.spec.color");
    let cases: [(&[&str], &str); 11] = [
        (&["get", &short], "NAME   COLOR\na      red\n"),
        (
            &["get", &short, "-o", "wide"],
            "NAME   COLOR   SECRET\na      red     x\n",
        ),
        (&["get", &category, "-o", "name"], "/a\n"),
        (&["get", &short, "a", "-o", "jsonpath={.spec.size}"], "S"),
        (&["get", &short, "-w", "--request-timeout=1s"], "red"),
        (&["explain", &field], "What it looks like."),
        (&["scale", &one, "--replicas=4"], "scaled"),
        (
            &[
                "patch",
                &one,
                "--subresource=status",
                "--type=merge",
                "-p",
                r#"{"status":{"phase":"Up"}}"#,
            ],
            "patched",
        ),
        (
            &[
                "wait",
                &one,
                "--for=jsonpath={.status.phase}=Up",
                "--timeout=30s",
            ],
            "condition met",
        ),
        (
            &["wait", &crd, "--for=condition=Established", "--timeout=30s"],
            "condition met",
        ),
        (&["delete", &one, "--timeout=30s"], "deleted"),
    ];
    for (arguments, part) in cases {
        // The server may serve the schema of a new kind with a delay.
        eventually("kubectl to recognise the kind", async || {
            let output = server.kubectl(arguments).await;
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            if text.contains(part) {
                Ok(())
            } else {
                Err(format!(
                    "kubectl {arguments:?}: expected {part:?} in\n{text}"
                ))
            }
        })
        .await;
    }
}
