//! What people type. Skipped where kubectl is not installed.

use crate::harness::Harness;

const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx, ports: [{containerPort: 80}]}]}
";

/// Runs kubectl and expects `needle` in what it prints.
async fn expect(h: &Harness, arguments: &[&str], needle: &str) {
    let output = h.kubectl(arguments).await.unwrap();
    let all = format!("{}{}", output.out, output.err);
    assert!(
        output.ok && all.contains(needle),
        "kubectl {arguments:?}: expected {needle:?} in\n{all}"
    );
}

async fn refuse(h: &Harness, arguments: &[&str], needle: &str) {
    let output = h.kubectl(arguments).await.unwrap();
    assert!(
        !output.ok && output.err.contains(needle),
        "kubectl {arguments:?}: expected {needle:?} in {output:?}"
    );
}

async fn start() -> Option<Harness> {
    let h = Harness::start().await;
    let found = h.kubectl(&["version", "--client"]).await.is_some();
    found.then_some(h)
}

#[tokio::test]
async fn manifests_are_applied_shown_and_changed() {
    let Some(h) = start().await else { return };
    h.file("d.yaml", DEPLOYMENT);
    expect(
        &h,
        &["apply", "-f", "d.yaml", "--dry-run=server"],
        "created (server dry run)",
    )
    .await;
    expect(&h, &["apply", "-f", "d.yaml"], "created").await;
    expect(&h, &["apply", "-f", "d.yaml"], "unchanged").await;
    expect(&h, &["diff", "-f", "d.yaml"], "").await;
    expect(&h, &["get", "deploy"], "0/2     0            0").await;
    expect(&h, &["get", "deploy", "web", "-o", "wide"], "app=web").await;
    expect(&h, &["get", "all"], "deployment.apps/web").await;
    expect(&h, &["describe", "deploy", "web"], "2 desired").await;
    expect(&h, &["scale", "deploy", "web", "--replicas=3"], "scaled").await;
    expect(
        &h,
        &["set", "image", "deploy/web", "c=nginx:2"],
        "image updated",
    )
    .await;
    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"e"}]}}}}"#;
    expect(&h, &["patch", "deploy", "web", "-p", strategic], "patched").await;
    expect(
        &h,
        &[
            "patch",
            "deploy",
            "web",
            "--type=merge",
            "-p",
            r#"{"metadata":{"labels":{"x":"y"}}}"#,
        ],
        "patched",
    )
    .await;
    let json = r#"[{"op":"replace","path":"/spec/replicas","value":5}]"#;
    expect(
        &h,
        &["patch", "deploy", "web", "--type=json", "-p", json],
        "patched",
    )
    .await;
    let path =
        "jsonpath={.spec.replicas}/{.spec.template.spec.containers[*].name}/{.metadata.labels.x}";
    // Strategic merge puts new list items before those that are there.
    expect(&h, &["get", "deploy", "web", "-o", path], "5/d c/y").await;
    expect(&h, &["label", "deploy", "web", "x-"], "unlabeled").await;
    expect(&h, &["annotate", "deploy", "web", "a=b"], "annotated").await;
    expect(
        &h,
        &[
            "wait",
            "deploy/web",
            "--for=jsonpath={.spec.replicas}=5",
            "--timeout=5s",
        ],
        "condition met",
    )
    .await;
    expect(
        &h,
        &[
            "apply",
            "--server-side",
            "--force-conflicts",
            "-f",
            "d.yaml",
        ],
        "serverside-applied",
    )
    .await;
    expect(&h, &["replace", "-f", "d.yaml"], "replaced").await;
    expect(
        &h,
        &["explain", "deploy.spec.replicas"],
        "Number of desired pods",
    )
    .await;
    expect(&h, &["api-resources"], "horizontalpodautoscalers").await;
    expect(&h, &["delete", "-f", "d.yaml", "--timeout=5s"], "deleted").await;
    h.file(
        "bad.yaml",
        &DEPLOYMENT.replace("replicas: 2", "replicaz: 2"),
    );
    refuse(
        &h,
        &["apply", "-f", "bad.yaml"],
        "strict decoding error: unknown field \"spec.replicaz\"",
    )
    .await;
    h.file(
        "bad.yaml",
        &DEPLOYMENT.replace("matchLabels: {app: web}", "matchLabels: {app: other}"),
    );
    refuse(
        &h,
        &["apply", "-f", "bad.yaml"],
        "`selector` does not match template `labels`",
    )
    .await;
}

#[tokio::test]
async fn imperative_commands_work() {
    let Some(h) = start().await else { return };
    expect(
        &h,
        &["create", "namespace", "work"],
        "namespace/work created",
    )
    .await;
    expect(
        &h,
        &["create", "configmap", "c", "--from-literal=k=v"],
        "created",
    )
    .await;
    expect(
        &h,
        &["create", "secret", "generic", "s", "--from-literal=k=v"],
        "created",
    )
    .await;
    expect(
        &h,
        &["get", "secret", "s", "-o", "jsonpath={.data.k}"],
        "dg==",
    )
    .await;
    expect(
        &h,
        &[
            "create",
            "deployment",
            "d",
            "--image=nginx",
            "--replicas=2",
            "--port=80",
        ],
        "created",
    )
    .await;
    expect(
        &h,
        &[
            "get",
            "deploy",
            "d",
            "-o",
            "jsonpath={.spec.template.spec.containers[0].image}",
        ],
        "nginx",
    )
    .await;
    expect(&h, &["create", "serviceaccount", "sa"], "created").await;
    expect(
        &h,
        &["create", "quota", "q", "--hard=secrets=20,pods=3"],
        "created",
    )
    .await;
    expect(
        &h,
        &["create", "role", "r", "--verb=get", "--resource=pods"],
        "created",
    )
    .await;
    expect(
        &h,
        &[
            "create",
            "rolebinding",
            "rb",
            "--role=r",
            "--serviceaccount=default:sa",
        ],
        "created",
    )
    .await;
    expect(&h, &["create", "job", "j", "--image=busybox"], "created").await;
    expect(
        &h,
        &["create", "service", "clusterip", "svc", "--tcp=80:8080"],
        "created",
    )
    .await;
    expect(
        &h,
        &["create", "priorityclass", "p", "--value=10"],
        "created",
    )
    .await;
    expect(&h, &["auth", "can-i", "create", "pods"], "yes").await;
    expect(&h, &["auth", "whoami"], "system:masters").await;
    expect(&h, &["run", "p", "--image=nginx"], "created").await;
    expect(&h, &["delete", "pod", "p", "--timeout=5s"], "deleted").await;
    expect(&h, &["delete", "ns", "work", "--timeout=5s"], "deleted").await;
    expect(&h, &["get", "priorityclass"], "system-node-critical").await;
}

#[tokio::test]
async fn custom_resources_look_like_their_definition_says() {
    let Some(h) = start().await else { return };
    h.install_widgets().await;
    h.file(
        "w.yaml",
        "apiVersion: test.example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {color: red, hidden: x}\n",
    );
    expect(&h, &["apply", "-f", "w.yaml"], "created").await;
    expect(&h, &["apply", "-f", "w.yaml"], "unchanged").await;
    expect(&h, &["get", "wd"], "NAME   COLOR\na      red").await;
    expect(&h, &["get", "wd", "-o", "wide"], "SECRET").await;
    expect(&h, &["get", "wd", "a", "-w", "--request-timeout=1s"], "red").await;
    expect(&h, &["scale", "wd", "a", "--replicas=4"], "scaled").await;
    expect(&h, &["explain", "wd.spec.color"], "What it looks like.").await;
    expect(
        &h,
        &[
            "patch",
            "wd",
            "a",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"phase":"Up"}}"#,
        ],
        "patched",
    )
    .await;
    expect(
        &h,
        &[
            "wait",
            "wd/a",
            "--for=jsonpath={.status.phase}=Up",
            "--timeout=5s",
        ],
        "condition met",
    )
    .await;
    expect(
        &h,
        &[
            "wait",
            "crd/widgets.test.example.com",
            "--for=condition=Established",
            "--timeout=5s",
        ],
        "met",
    )
    .await;
    refuse(
        &h,
        &[
            "patch",
            "wd",
            "a",
            "--type=merge",
            "-p",
            r#"{"spec":{"size":"XL"}}"#,
        ],
        "Unsupported value: \"XL\"",
    )
    .await;
    expect(&h, &["delete", "wd", "a", "--timeout=5s"], "deleted").await;
    expect(&h, &["get", "events"], "No resources found").await;
}
