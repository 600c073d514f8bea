//! Marker objects, with which a test waits until the detector has handled all objects that were created earlier.
//!
//! The detector receives the objects of a kind in the order of creation. For each kind of template, a test creates a
//! marker, which is an object of this kind, and a policy for the marker. When the detector has claimed all markers for
//! their policies, it has received all earlier objects and policies.

use std::collections::BTreeMap;

use berth_e2e::detector_cases::{Case, create, create_namespace, get};
use berth_e2e::eventually;
use serde_json::{Value, json};

/// Namespace of the markers.
const NAMESPACE: &str = "markers";

/// Creates the namespace of the markers.
pub async fn prepare(client: &kube::Client) {
    create_namespace(client, NAMESPACE).await;
}

/// Creates a marker with a policy for each kind of template, and waits until the detector has claimed all markers.
pub async fn wait_until_handled(client: &kube::Client, cases: &[Case], round: &str) {
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

/// Returns a policy that selects a marker.
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
