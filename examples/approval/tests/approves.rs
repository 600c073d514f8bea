//! The example with the command of its Deployment, on a control plane.

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

/// The program, killed with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The ConfigMap and the Deployment.
fn manifests() -> (ConfigMap, Deployment) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deployment.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let (config, deployment) = text.split_once("\n---\n").unwrap();
    (
        serde_saphyr::from_str(config).unwrap(),
        serde_saphyr::from_str(deployment).unwrap(),
    )
}

/// Runs the command of the Deployment, with the files mounted there.
fn start(bare: &BareControlPlane) -> Running {
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
        // Its own ports; flags take precedence over the file.
        .args([
            "--health-probe-bind-address=127.0.0.1:0",
            "--metrics-bind-address=0",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Running(child)
}

/// Waits until the condition of a binding has this reason and message.
async fn stands(bare: &BareControlPlane, name: &str, reason: &str, message: &str) {
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

async fn is_placed(bare: &BareControlPlane, name: &str) {
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
    let running = start(&bare);
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
    stands(
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
    stands(
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
    is_placed(&bare, "web").await;

    // The ticket is valid for one binding until the binding is deleted.
    let mut second = binding("second");
    second["metadata"]["annotations"] = json!({ "example.com/ticket": "T-1" });
    bare.bind(&serde_json::from_value(second).unwrap()).await;
    stands(
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
    is_placed(&bare, "second").await;

    // One of several concurrent bindings gets it: the others see the decision before it is stored.
    let together: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| {
            let mut one = binding(name);
            one["metadata"]["annotations"] = json!({ "example.com/ticket": "T-2" });
            serde_json::from_value(one).unwrap()
        })
        .collect();
    bare.bind_all(&together).await;
    eventually("all four to be looked at", async || {
        let (mut placed, mut refused) = (0, 0);
        for name in ["a", "b", "c", "d"] {
            let one = bare.bindings("default").get(name).await.unwrap();
            placed += usize::from(!one.spec.clusters.is_empty());
            let conditions = one.status.unwrap_or_default().conditions;
            refused += conditions
                .iter()
                .filter(|c| c.reason == "Unschedulable")
                .count();
        }
        assert!(placed <= 1, "{placed} of them have the ticket");
        ((placed, refused) == (1, 3))
            .then_some(())
            .ok_or(format!("{placed} placed, {refused} refused"))
    })
    .await;
    let leases: Api<Lease> = Api::namespaced(bare.client.clone(), "karmada-system");
    let lease = leases.get("approving-scheduler").await.unwrap();
    assert!(lease.spec.unwrap().holder_identity.is_some());
    drop(running);
    bare.stop().await;
}
