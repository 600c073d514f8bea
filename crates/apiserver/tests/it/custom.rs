//! Custom resources: schema, defaults, strictness, columns.

use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::{Harness, widget};

#[tokio::test]
async fn objects_are_defaulted_pruned_and_checked() {
    let h = Harness::start().await;
    let api = h.install_widgets().await;
    let spec = json!({"color": "red", "unknown": 1, "parts": [{"name": "a"}], "free": {"any": {"thing": 1}}});
    let created = api
        .create(&PostParams::default(), &widget("a", &spec))
        .await
        .unwrap();
    let expected = json!({"color": "red", "size": "S", "parts": [{"name": "a", "weight": 1}], "free": {"any": {"thing": 1}}});
    assert_eq!(created.data["spec"], expected);
    let refused = api
        .create(&PostParams::default(), &widget("b", &json!({"size": "XL"})))
        .await
        .unwrap_err();
    let kube::Error::Api(status) = refused else {
        panic!("{refused}")
    };
    assert_eq!(status.code, 422);
    assert_eq!(
        status.message,
        "Widget.test.example.com \"b\" is invalid: [spec.size: Unsupported value: \"XL\": supported values: \"S\", \"L\", spec.color: Required value]"
    );
    assert_eq!(status.details.map(|d| d.causes.len()), Some(2));
}

#[tokio::test]
async fn strictness_is_up_to_the_client() {
    let h = Harness::start().await;
    h.install_widgets().await;
    let path = "/apis/test.example.com/v1/namespaces/default/widgets";
    let body = br#"{"apiVersion":"test.example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red","color":"red","nope":1}}"#;
    let strict = format!("{path}?fieldValidation=Strict");
    let (code, status) = h
        .raw("POST", &strict, "application/json", body.to_vec())
        .await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.nope\", duplicate field \"spec.color\""
    );
    let (code, _) = h.raw("POST", path, "application/json", body.to_vec()).await;
    assert_eq!(code, 201);
}

#[tokio::test]
async fn appliers_share_keyed_lists() {
    let h = Harness::start().await;
    let api = h.install_widgets().await;
    let config = |parts: Value| json!({"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"color": "red", "parts": parts}});
    api.patch(
        "a",
        &PatchParams::apply("one"),
        &Patch::Apply(config(json!([{"name": "x"}]))),
    )
    .await
    .unwrap();
    api.patch(
        "a",
        &PatchParams::apply("two"),
        &Patch::Apply(config(json!([{"name": "y"}]))),
    )
    .await
    .unwrap();
    let after = api
        .patch(
            "a",
            &PatchParams::apply("one"),
            &Patch::Apply(config(json!([]))),
        )
        .await
        .unwrap();
    assert_eq!(
        after.data["spec"]["parts"],
        json!([{"name": "y", "weight": 1}])
    );
}

#[tokio::test]
async fn selectable_fields_select_and_status_is_apart() {
    let h = Harness::start().await;
    let api = h.install_widgets().await;
    for (name, color) in [("a", "red"), ("b", "blue")] {
        api.create(
            &PostParams::default(),
            &widget(name, &json!({"color": color})),
        )
        .await
        .unwrap();
    }
    let red = api
        .list(&ListParams::default().fields("spec.color=red"))
        .await
        .unwrap();
    assert_eq!(red.items.len(), 1);
    let ready = Patch::Merge(json!({"spec": {"color": "green"}, "status": {"phase": "Ready"}}));
    let patched = api
        .patch_status("a", &PatchParams::default(), &ready)
        .await
        .unwrap();
    assert_eq!(
        (
            &patched.data["spec"]["color"],
            &patched.data["status"]["phase"]
        ),
        (&json!("red"), &json!("Ready"))
    );
    assert_eq!(patched.metadata.generation, Some(1));
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects() {
    let h = Harness::start().await;
    let api = h.install_widgets().await;
    api.create(
        &PostParams::default(),
        &widget("a", &json!({"color": "red"})),
    )
    .await
    .unwrap();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.test.example.com";
    h.raw("DELETE", crds, "application/json", Vec::new()).await;
    tokio::time::timeout(crate::harness::PATIENCE, async {
        while h.raw("GET", crds, "", Vec::new()).await.0 != 404 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert!(api.list(&ListParams::default()).await.is_err());
}
