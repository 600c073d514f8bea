use serde_json::json;

use super::*;

fn review(resource: &str, request: Value) -> AdmissionReview {
    let group = match resource {
        "works" | "resourcebindings" | "clusterresourcebindings" => "work.karmada.io",
        "clusters" => "cluster.karmada.io",
        "deployments" => "apps",
        _ => "policy.karmada.io",
    };
    let mut whole = json!({
        "uid": "7f0b2891-916f-4ed6-b7cd-27bff1815a8c",
        "kind": { "group": group, "version": "v1alpha1", "kind": "Any" },
        "resource": { "group": group, "version": "v1alpha1", "resource": resource },
        "name": "web", "namespace": "default", "operation": "CREATE",
        "userInfo": { "username": "alice" }, "object": null, "oldObject": null, "dryRun": false,
        "options": { "apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions" }
    });
    for (name, value) in request.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let body = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole
    });
    AdmissionReview::parse(body.to_string().as_bytes()).unwrap()
}

fn policy() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "resourceSelectors": [{ "apiVersion": "apps/v1", "kind": "Deployment" }],
            "placement": { "spreadConstraints": [{ "maxGroups": 1, "minGroups": 2 }] } }
    })
}

fn response(path: &str, review: &AdmissionReview) -> Value {
    let endpoint = Endpoint::find(path).unwrap();
    let reviewed = decide(endpoint, NoExecuteTaints::default(), review);
    assert_eq!(reviewed["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(reviewed["kind"], "AdmissionReview");
    let response = &reviewed["response"];
    assert_eq!(response["uid"], "7f0b2891-916f-4ed6-b7cd-27bff1815a8c");
    response.clone()
}

/// Returns the object after the patch of a response.
fn patched(object: &Value, response: &Value) -> Value {
    use base64::Engine as _;
    let mut object = object.clone();
    if let Some(patch) = response["patch"].as_str() {
        assert_eq!(response["patchType"], "JSONPatch");
        let patch = base64::engine::general_purpose::STANDARD
            .decode(patch)
            .unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
    }
    object
}

#[test]
fn a_new_policy_gets_its_id_its_finalizer_and_the_defaults_as_a_patch() {
    let review = review("propagationpolicies", json!({ "object": policy() }));
    let response = response("/mutate-propagationpolicy", &review);
    assert_eq!(response["allowed"], true);
    assert_eq!(response["status"], json!({ "metadata": {}, "code": 200 }));
    let stored = patched(&policy(), &response);
    let labels = stored["metadata"]["labels"].as_object().unwrap();
    assert!(labels.contains_key("propagationpolicy.karmada.io/permanent-id"));
    assert_eq!(
        stored["metadata"]["finalizers"].as_array().unwrap().len(),
        1
    );
    assert_eq!(
        stored["spec"]["resourceSelectors"][0]["namespace"],
        "default"
    );
}

#[test]
fn an_object_without_changes_gets_no_patch() {
    let first = review("propagationpolicies", json!({ "object": policy() }));
    let stored = patched(&policy(), &response("/mutate-propagationpolicy", &first));
    let second = review(
        "propagationpolicies",
        json!({ "operation": "UPDATE", "object": stored, "oldObject": stored }),
    );
    let response = response("/mutate-propagationpolicy", &second);
    assert_eq!(response["allowed"], true);
    assert!(response.get("patch").is_none() && response.get("patchType").is_none());
}

#[test]
fn a_rejected_object_is_forbidden_with_a_cause_for_each_field() {
    let review = review("propagationpolicies", json!({ "object": policy() }));
    let response = response("/validate-propagationpolicy", &review);
    assert_eq!(response["allowed"], false);
    let status = &response["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(403), &json!("Forbidden"))
    );
    let causes = status["details"]["causes"].as_array().unwrap();
    assert!(causes.len() > 1, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with('[') && message.ends_with(']'),
        "{message}"
    );
    for cause in causes {
        assert!(
            message.contains(cause["field"].as_str().unwrap()),
            "{message}: {cause}"
        );
    }
    assert_eq!(status["details"]["kind"], "propagationpolicies");
}

#[test]
fn a_rejected_cluster_is_invalid() {
    let cluster = json!({ "metadata": { "name": "Upper" }, "spec": { "syncMode": "Push" } });
    let review = review("clusters", json!({ "object": cluster, "namespace": "" }));
    let response = response("/validate-cluster", &review);
    assert_eq!(response["status"]["code"], 422, "{response}");
    assert_eq!(response["status"]["reason"], "Invalid");
}

#[test]
fn protected_objects_of_any_kind_cannot_be_deleted() {
    let protected = |value: &str| {
        json!({ "kind": "Deployment", "metadata": { "name": "web",
            "labels": { "resourcetemplate.karmada.io/deletion-protected": value } } })
    };
    for (operation, value, denied) in [
        ("DELETE", "Always", true),
        ("DELETE", "Never", false),
        ("UPDATE", "Always", false),
    ] {
        let request = json!({ "operation": operation, "oldObject": protected(value) });
        let response = response(
            "/validate-resourcedeletionprotection",
            &review("deployments", request),
        );
        assert_eq!(response["allowed"] == false, denied, "{operation} {value}");
        if denied {
            assert_eq!(response["status"]["code"], 403);
            assert_eq!(
                response["status"]["message"],
                "This resource is protected, please make sure to remove the label: \
                 resourcetemplate.karmada.io/deletion-protected"
            );
        }
    }
}

#[test]
fn no_execute_taints_are_denied_unless_allowed() {
    let policy = json!({ "metadata": { "name": "web" },
        "spec": { "taints": [{ "key": "a", "effect": "NoExecute" }] } });
    let review = review("clustertaintpolicies", json!({ "object": policy }));
    let endpoint = Endpoint::find("/validate-clustertaintpolicy").unwrap();
    for (taints, allowed) in [
        (NoExecuteTaints::Denied, false),
        (NoExecuteTaints::Allowed, true),
    ] {
        let reviewed = decide(endpoint, taints, &review);
        assert_eq!(reviewed["response"]["allowed"], allowed);
    }
}

#[test]
fn writes_that_no_rule_covers_are_allowed() {
    for request in [
        json!({ "operation": "DELETE", "oldObject": policy() }),
        json!({ "operation": "CONNECT" }),
        json!({ "operation": "UPDATE", "subResource": "status", "object": policy() }),
    ] {
        let review = review("propagationpolicies", request.clone());
        for path in ["/mutate-propagationpolicy", "/validate-propagationpolicy"] {
            assert_eq!(response(path, &review)["allowed"], true, "{path} {request}");
        }
    }
}

#[test]
fn reviews_that_do_not_fit_the_webhook_are_bad_requests() {
    for (path, resource, request, expected) in [
        (
            "/mutate-work",
            "propagationpolicies",
            json!({ "object": policy() }),
            "/mutate-work does not review the resource \"propagationpolicies\"",
        ),
        (
            "/mutate-work",
            "works",
            json!({ "object": null }),
            "the request of the AdmissionReview has no object",
        ),
        (
            "/validate-propagationpolicy",
            "propagationpolicies",
            json!({ "object": 7 }),
            "the request of the AdmissionReview has no object",
        ),
        (
            "/validate-propagationpolicy",
            "propagationpolicies",
            json!({ "operation": "UPDATE", "object": policy() }),
            "the request of the AdmissionReview has no oldObject",
        ),
        (
            "/validate-resourcedeletionprotection",
            "deployments",
            json!({ "operation": "DELETE" }),
            "the request of the AdmissionReview has no oldObject",
        ),
    ] {
        let response = response(path, &review(resource, request));
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 400);
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.starts_with(expected), "{message}");
    }
}
