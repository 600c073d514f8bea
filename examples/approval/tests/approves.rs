//! A test that runs the example scheduler with the command of its Deployment, against a control plane.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use berth_api::well_known::CONDITION_SCHEDULED;
use berth_e2e::{BareControlPlane, eventually};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

/// A process of the example scheduler, which is killed when this value is dropped.
struct SchedulerProcess(Child);

impl Drop for SchedulerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the ConfigMap and the Deployment of the example.
fn manifests() -> (ConfigMap, Deployment) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deployment.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let (config, deployment) = text.split_once("\n---\n").unwrap();
    (
        serde_saphyr::from_str(config).unwrap(),
        serde_saphyr::from_str(deployment).unwrap(),
    )
}

/// Runs the command of the Deployment, with the paths of its mounted files replaced by local paths.
fn start(bare: &BareControlPlane) -> SchedulerProcess {
    let (config, deployment) = manifests();
    let file = bare.folder().join("config.yaml");
    std::fs::write(&file, &config.data.unwrap()["config.yaml"]).unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let command = pod.containers[0].command.clone().unwrap();
    assert_eq!(command[0], env!("CARGO_PKG_NAME"));
    let arguments = command[1..].iter().map(|argument| {
        argument
            .replace("/etc/approval/config.yaml", &file.display().to_string())
            .replace(
                "/etc/karmada/config/karmada.config",
                &bare.kubeconfig().display().to_string(),
            )
    });
    let child = Command::new(env!("CARGO_BIN_EXE_approval"))
        .args(arguments)
        // These flags avoid port conflicts. They take precedence over the configuration file.
        .args([
            "--health-probe-bind-address=127.0.0.1:0",
            "--metrics-bind-address=0",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    SchedulerProcess(child)
}

/// Waits until the condition `Scheduled` of a binding has this reason and message.
async fn wait_for_condition(bare: &BareControlPlane, name: &str, reason: &str, message: &str) {
    eventually(message, async || {
        let binding = bare.bindings("default").get(name).await.unwrap();
        let conditions = binding.status.unwrap_or_default().conditions;
        let scheduled = conditions.iter().find(|c| c.type_ == CONDITION_SCHEDULED);
        match scheduled {
            Some(c) if c.reason == reason && c.message == message => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

async fn wait_until_placed(bare: &BareControlPlane, name: &str) {
    eventually(&format!("{name} to be placed"), async || {
        let stored = bare.bindings("default").get(name).await.unwrap();
        let names: Vec<_> = stored.spec.clusters.iter().map(|c| &*c.name).collect();
        if names == ["member"] {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    })
    .await;
}

/// A binding waits for a ticket, and then for the approval of the ticket. Only one binding can use a ticket at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_stored_once_its_ticket_is_approved() {
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "reason": "Ok", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let member = json!({
        "metadata": { "name": "member" },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [{ "groupVersion": "apps/v1",
                                 "resources": [{ "name": "deployments", "kind": "Deployment" }] }],
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
        },
    });
    let bare = BareControlPlane::start(&[serde_json::from_value(member).unwrap()]).await;
    let scheduler = start(&bare);
    let binding = |name: &str| {
        json!({
            "metadata": { "name": name, "namespace": "default",
                          "labels": { "propagationpolicy.karmada.io/permanent-id": "id" } },
            "spec": {
                "schedulerName": "approving-scheduler",
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": "default" },
                "replicas": 1,
                "placement": {},
            },
        })
    };
    bare.bind(&serde_json::from_value(binding("web")).unwrap())
        .await;
    wait_for_condition(
        &bare,
        "web",
        "Unschedulable",
        "plugin \"Approval\" refuses the binding at PreFilter: the annotation example.com/ticket names no ticket",
    )
    .await;

    let ticket = json!({ "metadata": { "annotations": { "example.com/ticket": "T-1" } } });
    bare.bindings("default")
        .patch("web", &PatchParams::default(), &Patch::Merge(ticket))
        .await
        .unwrap();
    wait_for_condition(
        &bare,
        "web",
        "SchedulerError",
        "plugin \"Approval\" failed at PreBind: T-1 is not approved yet",
    )
    .await;

    let tickets = json!({ "T-1": "yes", "T-2": "yes" });
    let approved = json!({ "metadata": { "name": "approved-tickets" }, "data": tickets });
    Api::<ConfigMap>::namespaced(bare.client.clone(), "default")
        .create(
            &PostParams::default(),
            &serde_json::from_value(approved).unwrap(),
        )
        .await
        .unwrap();
    wait_until_placed(&bare, "web").await;

    // The ticket is valid for one binding until this binding is deleted.
    let mut second = binding("second");
    second["metadata"]["annotations"] = json!({ "example.com/ticket": "T-1" });
    bare.bind(&serde_json::from_value(second).unwrap()).await;
    wait_for_condition(
        &bare,
        "second",
        "Unschedulable",
        "plugin \"Approval\" refuses the binding at PreFilter: T-1 is used by default/web",
    )
    .await;
    bare.bindings("default")
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_placed(&bare, "second").await;

    // Four bindings with one ticket are scheduled concurrently. Only one binding is placed: its decision is in the
    // scheduler's state before the decision is stored, so the plugin refuses the other bindings.
    let together: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| {
            let mut with_ticket = binding(name);
            with_ticket["metadata"]["annotations"] = json!({ "example.com/ticket": "T-2" });
            serde_json::from_value(with_ticket).unwrap()
        })
        .collect();
    bare.bind_all(&together).await;
    eventually("all four bindings to be scheduled or refused", async || {
        let (mut placed, mut refused) = (0, 0);
        for name in ["a", "b", "c", "d"] {
            let stored = bare.bindings("default").get(name).await.unwrap();
            placed += usize::from(!stored.spec.clusters.is_empty());
            let conditions = stored.status.unwrap_or_default().conditions;
            refused += conditions
                .iter()
                .filter(|c| c.reason == "Unschedulable")
                .count();
        }
        assert!(placed <= 1, "{placed} bindings use the ticket");
        ((placed, refused) == (1, 3))
            .then_some(())
            .ok_or(format!("{placed} placed, {refused} refused"))
    })
    .await;
    let leases: Api<Lease> = Api::namespaced(bare.client.clone(), "karmada-system");
    let lease = leases.get("approving-scheduler").await.unwrap();
    assert!(lease.spec.unwrap().holder_identity.is_some());
    drop(scheduler);
    bare.stop().await;
}
