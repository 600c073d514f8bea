//! Tests of in-process admission hooks.

use std::sync::Arc;

use berth_apiserver::{
    Admission, AdmissionRequest, Denial, GroupResource, Operation, ServerConfig,
};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{Harness, TIMEOUT, widget};

/// An admission hook for widgets. It adds a default color and a part, and denies color changes and deletions.
struct Colors;

impl Admission for Colors {
    fn handles(&self, resource: &GroupResource<'_>) -> bool {
        resource.group == "test.example.com" && resource.resource == "widgets"
    }

    fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Denial> {
        if request.operation == Operation::Create && object["spec"]["color"].is_null() {
            object["spec"]["color"] = json!("grey");
        }
        object["spec"]["parts"] = json!([{"name": "added"}]);
        Ok(())
    }

    fn validate(&self, request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Denial> {
        if request.operation == Operation::Delete {
            return Err(Denial::forbidden("widgets must not be deleted"));
        }
        // The server has set the defaults of the part that `mutate` added.
        assert_eq!(object["spec"]["parts"][0]["weight"], 1);
        let old = request.old_object.map(|o| &o["spec"]["color"]);
        match old {
            Some(old) if *old != object["spec"]["color"] => {
                Err(Denial::invalid("spec.color", "may not change"))
            }
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn hooks_change_objects_and_deny_writes() {
    let h = Harness::with(ServerConfig {
        admission: vec![Arc::new(Colors)],
        ..ServerConfig::default()
    })
    .await;
    let api = h.install_widgets().await;
    let created = api
        .create(&PostParams::default(), &widget("a", &json!({})))
        .await
        .unwrap();
    assert_eq!(created.data["spec"]["color"], "grey");
    let repaint = Patch::Merge(json!({"spec": {"color": "red"}}));
    let kube::Error::Api(refused) = api
        .patch("a", &PatchParams::default(), &repaint)
        .await
        .unwrap_err()
    else {
        panic!("not an API error")
    };
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        refused.message,
        "Widget.test.example.com \"a\" is invalid: spec.color: may not change"
    );
    let kube::Error::Api(refused) = api.delete("a", &DeleteParams::default()).await.unwrap_err()
    else {
        panic!("not an API error")
    };
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
}

/// An admission hook that denies the deletion of ConfigMaps with the label `protected`.
struct Protection;

impl Admission for Protection {
    fn handles(&self, resource: &GroupResource<'_>) -> bool {
        resource.resource == "configmaps"
    }

    fn validate(&self, request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Denial> {
        let protected = object["metadata"]["labels"]["protected"] == "true";
        if request.operation == Operation::Delete && protected {
            return Err(Denial::forbidden("it is protected"));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_protected_dependent_is_collected_after_the_protection_ends() {
    let h = Harness::with(ServerConfig {
        admission: vec![Arc::new(Protection)],
        ..ServerConfig::default()
    })
    .await;
    let api = h.api("", "v1", "ConfigMap", "configmaps");
    let make = |object: Value| serde_json::from_value(object).unwrap();
    let owner = json!({"metadata": {"name": "owner"}});
    let owner = api
        .create(&PostParams::default(), &make(owner))
        .await
        .unwrap();
    let dependent = json!({"metadata": {"name": "dependent", "labels": {"protected": "true"}, "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}]}});
    api.create(&PostParams::default(), &make(dependent))
        .await
        .unwrap();
    let bystander = json!({"metadata": {"name": "bystander", "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}]}});
    api.create(&PostParams::default(), &make(bystander))
        .await
        .unwrap();
    api.delete("owner", &DeleteParams::default()).await.unwrap();
    let gone = async |name: &str| {
        let until = tokio::time::Instant::now() + TIMEOUT;
        while api.get_opt(name).await.unwrap().is_some() {
            assert!(tokio::time::Instant::now() < until, "{name} still exists");
            tokio::task::yield_now().await;
        }
    };
    // The deletion of `bystander` shows that the garbage collector has run.
    gone("bystander").await;
    assert!(api.get_opt("dependent").await.unwrap().is_some());
    let release = Patch::Merge(json!({"metadata": {"labels": {"protected": null}}}));
    api.patch("dependent", &PatchParams::default(), &release)
        .await
        .unwrap();
    gone("dependent").await;
}
