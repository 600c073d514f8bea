//! Tests of `berth simulate` with invalid manifests and flags, and of the error messages.

use berth_test_transcripts::assert_snapshot;

use crate::program::{Files, app, deployment, policy, simulated};

const FLEET: &str = "-f examples/fleet.yaml -f -";

#[test]
fn every_error_contains_the_file_the_document_and_the_reason() {
    let files = Files::new(&[
        ("a.yaml", "apiVersion: v1\nkind: [\n"),
        (
            "b.yaml",
            &format!(
                "{}---\nkind: Deployment\nmetadata: {{name: x}}\n---\n- 1\n",
                deployment("web", 1)
            ),
        ),
        (
            "c.yaml",
            &format!(
                "# again\n---\n{}---\napiVersion: v1\nkind: ConfigMap\n",
                deployment("web", 2)
            ),
        ),
        (
            "d.json",
            r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "policy.karmada.io/v1alpha1",
                "kind": "PropogationPolicy", "metadata": {"name": "p"}}]}"#,
        ),
        (
            "e.yaml",
            "apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: x}\n---\napiVersion: policy.karmada.io/v1\nkind: PropagationPolicy\nmetadata: {name: x}\n",
        ),
    ]);
    let empty = Files::new(&[("README.md", "")]);
    let every = format!("-f {} -f missing.yaml", files.folder());
    assert_snapshot!(simulated(&[
        ("one error a document", &every, ""),
        ("no manifest", &format!("-f {}", empty.folder()), ""),
    ]));
}

#[test]
fn an_invalid_command_line_has_exit_code_2() {
    assert_snapshot!(simulated(&[
        ("no manifests", "", ""),
        ("an unknown format", "-f x.yaml -o xml", ""),
        ("no taint", "-f x.yaml --taint member1", ""),
        (
            "an unknown effect",
            "-f x.yaml --taint member1=key:PreferNoSchedule",
            "",
        ),
        (
            "an unknown feature gate",
            "-f x.yaml --feature-gates Nonsense=true",
            "",
        ),
        ("a flag without another", "-f x.yaml --kubeconfig k", ""),
    ]));
}

#[test]
fn errors_about_invalid_objects_contain_the_field_and_the_document() {
    let cluster = |spec: &str| {
        format!(
            "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: m1}}\n{spec}"
        )
    };
    let spread = "{spreadConstraints: [{spreadByField: cluster, minGroups: 3, maxGroups: 2}]}";
    let unselected =
        deployment("web", 1).replace("app: web}}\n  template", "app: other}}\n  template");
    assert_snapshot!(simulated(&[
        ("a rule of Karmada's webhook", FLEET, &app("web", 1, spread)),
        (
            "an unknown field",
            FLEET,
            &policy("web", "{clusterAffinty: {}}"),
        ),
        (
            "an unknown value",
            FLEET,
            &cluster("spec: {syncMode: Shove}\n"),
        ),
        (
            "a missing field of a status",
            FLEET,
            &cluster("spec: {syncMode: Push}\nstatus: {apiEnablements: [{}]}\n"),
        ),
        ("a rule of Kubernetes", FLEET, &unselected),
    ]));
}

#[test]
fn without_validation_defaults_are_still_filled_in() {
    let by_region = app(
        "web",
        6,
        "{replicaScheduling: {weightPreference: {dynamicWeight: AvailableReplicas}}, spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}]}",
    );
    assert_snapshot!(simulated(&[
        ("an invalid policy", FLEET, &by_region),
        (
            "the replicas are divided by default",
            "-f examples/fleet.yaml -f - --no-validate",
            &by_region,
        ),
    ]));
}

#[test]
fn objects_of_unknown_api_groups_are_accepted() {
    let text = include_str!("manifests/kinds_without_effect.yaml");
    assert_snapshot!(simulated(&[(
        "a kind without a definition, and a kind without effect",
        FLEET,
        text
    )]));
}
