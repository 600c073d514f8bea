//! In-process admission.

use std::sync::Arc;

use berth_apiserver::{
    Admission, AdmissionRequest, Denial, GroupResource, Operation, ServerConfig,
};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{Harness, widget};

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
            return Err(Denial::forbidden("widgets are forever"));
        }
        // Defaults of what mutation added are there by now.
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
async fn hooks_change_and_refuse() {
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
