//! Waits until the detector has seen what was created, without a clock.
//!
//! The detector watches each kind in order. So when it has claimed an object that was created later than
//! all others of its kind, by a policy that was created later than all others, it has seen the others.

use std::collections::BTreeMap;

use berth_e2e::eventually;
use serde_json::{Value, json};

use super::case::{Case, create, create_namespace, get};

/// Where the markers live.
const NAMESPACE: &str = "settle";

pub async fn prepare(client: &kube::Client) {
    create_namespace(client, NAMESPACE).await;
}

pub async fn until_seen(client: &kube::Client, cases: &[Case], round: &str) {
    let mut kinds: BTreeMap<&str, &Value> = BTreeMap::new();
    for case in cases {
        let template = case.template();
        kinds.insert(template["kind"].as_str().unwrap(), template);
    }
    let mut markers = Vec::new();
    for (kind, template) in kinds {
        let mut marker = template.clone();
        let namespaced = marker["metadata"].get("namespace").is_some();
        let name = format!("{round}-{}", kind.to_lowercase());
        marker["metadata"] = json!({ "name": name });
        if namespaced {
            marker["metadata"]["namespace"] = json!(NAMESPACE);
        }
        create(client, &marker).await.unwrap();
        create(client, &policy_for(&marker, &name, namespaced))
            .await
            .unwrap();
        markers.push(marker);
    }
    for marker in &markers {
        eventually(
            &format!("the claim of {}", marker["metadata"]),
            async || {
                let stored = get(client, marker).await.unwrap_or_default();
                let annotations = &stored["metadata"]["annotations"];
                let claimed = annotations.to_string();
                if claimed.contains("propagationpolicy.karmada.io/name") {
                    Ok(())
                } else {
                    Err("it is not claimed")
                }
            },
        )
        .await;
    }
}

fn policy_for(marker: &Value, name: &str, namespaced: bool) -> Value {
    let kind = if namespaced {
        "PropagationPolicy"
    } else {
        "ClusterPropagationPolicy"
    };
    let mut policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": { "name": name },
        "spec": { "resourceSelectors": [{
            "apiVersion": marker["apiVersion"], "kind": marker["kind"], "name": name,
        }] },
    });
    if namespaced {
        policy["metadata"]["namespace"] = json!(NAMESPACE);
    }
    policy
}
