//! Tests of custom resources: defaults, pruning, printer columns, selectable fields, status, scale and deletion.

use berth_e2e::eventually;
use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::harness::content_type::JSON;
use crate::harness::definitions::{Kind, causes, definition};
use crate::harness::objects::{Objects, names, status_of};
use crate::harness::server;
use crate::harness::server::TestServer;

/// Returns a definition of a custom kind with a unique group. The short name of the kind is a part of its group,
/// because tests that share a server must not use the same short name.
fn widgets() -> Value {
    let mut definition = definition(
        json!({"type": "object", "required": ["color"], "properties": {
        "color": {"type": "string", "minLength": 2, "description": "What it looks like."},
        "size": {"type": "string", "enum": ["S", "L"], "default": "S"},
        "hidden": {"type": "string"},
        "replicas": {"type": "integer", "minimum": 0},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "weight": {"type": "integer", "default": 1}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}),
    );
    let group = definition["spec"]["group"].as_str().unwrap().to_owned();
    let short = group.split('.').next().unwrap();
    definition["spec"]["names"]["shortNames"] = json!([short]);
    definition["spec"]["names"]["categories"] = json!([format!("all-{short}")]);
    let version = &mut definition["spec"]["versions"][0];
    version["subresources"] = json!({"status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    version["additionalPrinterColumns"] = json!([
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
        {"name": "Secret", "type": "string", "jsonPath": ".spec.hidden", "priority": 1}]);
    version["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    definition
}

async fn installed(server: &TestServer) -> (Kind<'_>, Objects<'_>) {
    let kind = Kind::install(server, &widgets()).await;
    let things = Objects::at(server, kind.path("v1"));
    (kind, things)
}

/// Checks that a created object gets default values and loses unknown fields, and that an invalid object gets 422. With
/// strict field validation, an unknown field gets 400.
#[tokio::test]
async fn objects_are_defaulted_pruned_and_validated() {
    let server = server().await;
    let (kind, _) = installed(&server).await;
    let spec = json!({"color": "red", "unknown": 1, "parts": [{"name": "a"}], "free": {"any": {"thing": 1}}});
    let created = kind.create("a", &spec).await;
    let expected = json!({"color": "red", "size": "S", "parts": [{"name": "a", "weight": 1}],
        "free": {"any": {"thing": 1}}});
    assert_eq!(created.json["spec"], expected, "{}", created.text);
    let refused = kind.create("b", &json!({"size": "XL"})).await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        causes(&refused),
        [
            "spec.color: Required value",
            "spec.size: Unsupported value: \"XL\": supported values: \"S\", \"L\""
        ]
    );
    let with_unknown_field = json!({"apiVersion": format!("{}/v1", kind.group), "kind": "Thing", "metadata": {"name": "c"},
        "spec": {"color": "red", "nope": 1}});
    let path = format!("{}?fieldValidation=Strict", kind.path("v1"));
    let strict = server
        .raw("POST", &path, &[JSON], with_unknown_field.to_string())
        .await;
    let why = "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown field \"spec.nope\"";
    assert_eq!(status_of(&strict), (400, why));
}

/// Checks that two field managers can apply different items of a keyed list, and that an apply without an item removes
/// only the manager's own item. Also checks selectors of the selectable fields.
#[tokio::test]
async fn appliers_share_keyed_lists_and_field_selectors_work() {
    let server = server().await;
    let (kind, things) = installed(&server).await;
    let config = |parts: Value| {
        json!({"apiVersion": format!("{}/v1", kind.group), "kind": "Thing", "metadata": {"name": "a"},
            "spec": {"color": "red", "parts": parts}})
    };
    things
        .apply("a", "one", &config(json!([{"name": "x"}])))
        .await;
    things
        .apply("a", "two", &config(json!([{"name": "y"}])))
        .await;
    let after = things.apply("a", "one", &config(json!([]))).await.json;
    assert_eq!(after["spec"]["parts"], json!([{"name": "y", "weight": 1}]));
    kind.create("b", &json!({"color": "blue"})).await;
    assert_eq!(
        names(&things.get("?fieldSelector=spec.color%3Dred").await),
        ["a"]
    );
    assert_eq!(
        names(&things.get("?fieldSelector=spec.color!%3Dred").await),
        ["b"]
    );
    assert_eq!(things.get("?fieldSelector=spec.size%3DS").await.code, 400);
}

/// Checks that a write of the subresource `status` changes only the status, and that a write of the subresource `scale`
/// changes only the replicas. A write of the object leaves its status unchanged.
#[tokio::test]
async fn status_and_scale_updates_change_nothing_else() {
    let server = server().await;
    let (kind, things) = installed(&server).await;
    kind.create("a", &json!({"color": "red", "replicas": 2}))
        .await;
    let patch = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"color": "green"}, "status": {"phase": "Ready"}});
    let found = things.merge("/a/status", &patch).await.json;
    assert_eq!(
        (
            &found["spec"]["color"],
            &found["status"]["phase"],
            found["metadata"].get("labels")
        ),
        (&json!("red"), &json!("Ready"), None)
    );
    assert_eq!(found["metadata"]["generation"], 1);
    let main = things
        .merge(
            "/a",
            &json!({"status": {"phase": "Gone"}, "spec": {"size": "L"}}),
        )
        .await
        .json;
    assert_eq!(
        (&main["status"]["phase"], &main["metadata"]["generation"]),
        (&json!("Ready"), &json!(2))
    );
    let scaled = things
        .merge(
            "/a/scale",
            &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 5}}),
        )
        .await
        .json;
    assert_eq!(
        (&scaled["kind"], &scaled["spec"]),
        (&json!("Scale"), &json!({"replicas": 5}))
    );
    let mut expected = main["spec"].clone();
    expected["replicas"] = json!(5);
    let stored = things.get("/a").await.json;
    assert_eq!(
        (&stored["spec"], stored["metadata"].get("labels")),
        (&expected, None)
    );
    // A replacement must contain the resource version.
    let mut unversioned = main.clone();
    unversioned["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let unversioned = things.put("/a", &unversioned).await;
    let why = format!(
        "things.{} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        kind.group
    );
    assert_eq!(status_of(&unversioned), (422, why.as_str()));
}

/// Checks that kubectl finds a custom kind by its short name and category, and prints the columns of the definition.
#[needs(kubectl)]
#[tokio::test]
async fn kubectl_uses_columns_and_names_of_the_definition() {
    let server = server().await;
    let (kind, _) = installed(&server).await;
    kind.create("a", &json!({"color": "red", "hidden": "x"}))
        .await;
    let short = kind.group.split('.').next().unwrap().to_owned();
    let category = format!("all-{short}");
    let crd = format!("crd/{}", kind.name);
    let one = format!("{short}/a");
    let field = format!("{short}.spec.color");
    let cases: [(&[&str], &str); 11] = [
        (&["get", &short], "NAME   COLOR\na      red\n"),
        (
            &["get", &short, "-o", "wide"],
            "NAME   COLOR   SECRET\na      red     x\n",
        ),
        (&["get", &category, "-o", "name"], "/a\n"),
        (&["get", &short, "a", "-o", "jsonpath={.spec.size}"], "S"),
        (&["get", &short, "-w", "--request-timeout=1s"], "red"),
        (&["explain", &field], "What it looks like."),
        (&["scale", &one, "--replicas=4"], "scaled"),
        (
            &[
                "patch",
                &one,
                "--subresource=status",
                "--type=merge",
                "-p",
                r#"{"status":{"phase":"Up"}}"#,
            ],
            "patched",
        ),
        (
            &[
                "wait",
                &one,
                "--for=jsonpath={.status.phase}=Up",
                "--timeout=30s",
            ],
            "condition met",
        ),
        (
            &["wait", &crd, "--for=condition=Established", "--timeout=30s"],
            "condition met",
        ),
        (&["delete", &one, "--timeout=30s"], "deleted"),
    ];
    for (arguments, part) in cases {
        // The server may serve the schema of a new kind with a delay.
        eventually("kubectl to recognise the kind", async || {
            let output = server.kubectl(arguments).await;
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            if text.contains(part) {
                Ok(())
            } else {
                Err(format!(
                    "kubectl {arguments:?}: expected {part:?} in\n{text}"
                ))
            }
        })
        .await;
    }
}

/// Checks that the deletion of a definition also deletes the objects of its kind: they do not exist after the kind is
/// defined again.
#[tokio::test]
async fn deleting_a_definition_deletes_its_objects() {
    let server = server().await;
    let definition = widgets();
    let kind = Kind::install(&server, &definition).await;
    let things = Objects::at(&server, kind.path("v1"));
    kind.create("a", &json!({"color": "red"})).await;
    let definitions = Objects::at(
        &server,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    );
    let rest = format!("/{}", kind.name);
    assert_eq!(definitions.delete(&rest, &Value::Null).await.code, 200);
    for (objects, rest) in [(&definitions, rest.as_str()), (&things, "")] {
        eventually("the definition to be deleted", async || {
            let response = objects.get(rest).await;
            if response.code == 404 {
                Ok(())
            } else {
                Err(response.text)
            }
        })
        .await;
    }
    Kind::install(&server, &definition).await;
    assert_eq!(names(&things.get("").await), [""; 0]);
}

/// Checks that a default that is added to a definition appears in responses about older objects. The object is stored
/// with the default only when it is written again.
#[tokio::test]
async fn later_defaults_are_filled_in_on_read() {
    let server = server().await;
    let (kind, things) = installed(&server).await;
    let created = kind.create("a", &json!({"color": "red"})).await;
    assert_eq!(created.code, 201, "{}", created.text);
    let from = created.json["metadata"]["resourceVersion"].clone();
    let definitions = Objects::at(&server, crate::harness::definitions::DEFINITIONS);
    let hidden =
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/hidden/default";
    let defaulted = json!([{"op": "add", "path": hidden, "value": "later"}]);
    let response = definitions
        .json_patch(&format!("/{}", kind.name), &defaulted)
        .await;
    assert_eq!(response.code, 200, "{}", response.text);
    let spec = json!({"color": "red", "size": "S", "hidden": "later"});
    eventually("the new schema", async || {
        let found = things.get("/a").await;
        if found.json["spec"] == spec {
            assert_eq!(
                found.json["metadata"]["resourceVersion"], from,
                "reading does not write"
            );
            return Ok(());
        }
        Err(found.text)
    })
    .await;
    let listed = things.get("").await;
    assert_eq!(listed.json["items"][0]["spec"], spec);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let shown = things.get_as("/a?includeObject=Object", table).await;
    assert_eq!(shown.json["rows"][0]["cells"][2], "later", "{}", shown.text);
    assert_eq!(shown.json["rows"][0]["object"]["spec"], spec);
    let watched = things.get("?watch=true&timeoutSeconds=1").await;
    let event: Value = serde_json::from_str(watched.text.lines().next().unwrap()).unwrap();
    assert_eq!(event["object"]["spec"], spec);
    // Any later write also stores the defaults.
    let labelled = things
        .merge("/a", &json!({"metadata": {"labels": {"l": "1"}}}))
        .await;
    assert_eq!(labelled.json["spec"], spec);
}
