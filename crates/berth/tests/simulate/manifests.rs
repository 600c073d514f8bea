//! Tests of `berth simulate` with invalid manifests and flags, and of the error messages.

use crate::program::{Files, app, deployment, policy, simulate, simulate_with_input};

fn refused(text: &str) -> String {
    simulate_with_input(&["-f", "examples/fleet.yaml", "-f", "-"], text).refusal()
}

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
    let folder = files.folder();
    let error = simulate(&["-f", &folder, "-f", "missing.yaml"]).refusal();
    let lines: Vec<&str> = error.lines().collect();
    for (start, end) in [
        ("a.yaml, document 1: cannot be parsed: ", ""),
        ("b.yaml, document 2: apiVersion is missing", ""),
        ("b.yaml, document 3: expected a manifest, found a list", ""),
        (
            "c.yaml, document 1: Deployment shop/web is already defined in ",
            "b.yaml, document 1",
        ),
        ("c.yaml, document 2: metadata.name is missing", ""),
        (
            "d.json, document 1, item 1: unknown kind PropogationPolicy in policy.karmada.io/v1alpha1",
            "",
        ),
        ("e.yaml, document 1: unknown kind Deploymnt in apps/v1", ""),
        (
            "e.yaml, document 2: unknown kind PropagationPolicy in policy.karmada.io/v1: it is served as policy.karmada.io/v1alpha1",
            "",
        ),
    ] {
        let expected = format!("error: {folder}/{start}");
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with(&expected) && line.ends_with(end)),
            "{start}\n{error}"
        );
    }
    assert!(
        error.contains("error: missing.yaml: No such file"),
        "{error}"
    );
    assert_eq!(lines.len(), 9, "{error}");
}

#[test]
fn a_folder_without_manifests_is_refused() {
    let files = Files::new(&[("README.md", "")]);
    let error = simulate(&["-f", &files.folder()]).refusal();
    assert!(
        error.contains("has no *.yaml, *.yml or *.json file"),
        "{error}"
    );
}

#[test]
fn an_invalid_command_line_has_exit_code_2() {
    for arguments in [
        &[][..],
        &["-f", "x.yaml", "-o", "xml"],
        &["-f", "x.yaml", "--taint", "member1"],
        &["-f", "x.yaml", "--taint", "member1=key:PreferNoSchedule"],
        &["-f", "x.yaml", "--feature-gates", "Nonsense=true"],
        &["-f", "x.yaml", "--kubeconfig", "k"],
    ] {
        let output = simulate(arguments);
        assert_eq!(output.code, 2, "{arguments:?}: {output:?}");
    }
    let output = simulate(&["-f", "examples/fleet.yaml", "--without", "member9"]);
    assert_eq!(
        output.refusal(),
        "error: --without member9: there is no such cluster; there are member1, member2, member3\n"
    );
}

#[test]
fn errors_about_invalid_objects_contain_the_field_and_the_document() {
    let text = app(
        "web",
        1,
        "{spreadConstraints: [{spreadByField: cluster, minGroups: 3, maxGroups: 2}]}",
    );
    let error = refused(&text);
    assert!(
        error.starts_with("error: standard input, document 2: PropagationPolicy")
            && error.contains("spec.placement.spreadConstraints[0]"),
        "{error}"
    );
    let error = refused(&policy("web", "{clusterAffinty: {}}"));
    assert!(
        error.contains("document 1: ")
            && error.contains("unknown field \"spec.placement.clusterAffinty\""),
        "{error}"
    );
    let error = refused(
        "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m1}\nspec: {syncMode: Shove}\n",
    );
    assert!(
        error.contains("document 1: ") && error.contains("spec.syncMode"),
        "{error}"
    );
    let error = refused(
        "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m1}\nspec: {syncMode: Push}\nstatus: {apiEnablements: [{}]}\n",
    );
    assert!(
        error.contains("status.apiEnablements[0].groupVersion"),
        "{error}"
    );
    let error = refused(
        &deployment("web", 1).replace("app: web}}\n  template", "app: other}}\n  template"),
    );
    assert!(
        error.contains("document 1: Deployment") && error.contains("selector"),
        "{error}"
    );
}

#[test]
fn without_validation_defaults_are_still_filled_in() {
    let fleet = ["-f", "examples/fleet.yaml", "-f", "-", "-o", "json"];
    let by_zone = app(
        "web",
        6,
        "{replicaScheduling: {weightPreference: {dynamicWeight: AvailableReplicas}}, spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}]}",
    );
    let refusal = simulate_with_input(&fleet, &by_zone).refusal();
    assert!(
        refusal.contains("spec.placement.spreadConstraints"),
        "{refusal}"
    );
    let output = simulate_with_input(&[&fleet[..], &["--no-validate"]].concat(), &by_zone).json();
    let clusters = output[0]["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 2, "{output}");
    let total: i64 = clusters
        .iter()
        .map(|cluster| cluster["replicas"].as_i64().unwrap())
        .sum();
    assert_eq!(
        total, 6,
        "the replicas are not divided by default: {output}"
    );
}

#[test]
fn objects_of_unknown_api_groups_are_accepted() {
    let text = "apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: shop}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: w, namespace: shop}
spec: {resourceSelectors: [{apiVersion: example.com/v1, kind: Widget}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: FederatedResourceQuota
metadata: {name: q, namespace: shop}
";
    let output = simulate_with_input(&["-f", "examples/fleet.yaml", "-f", "-"], text).out();
    assert!(
        output.contains("w-widget   -          -          0/3 clusters are available: 3 cluster(s) did not have the API resource"),
        "{output}"
    );
    assert!(
        output.contains("note: standard input, document 3: a FederatedResourceQuota has no effect"),
        "{output}"
    );
}
