//! Regression tests of validation. The differential test, which sends generated requests to the embedded server and to
//! kube-apiserver, found these cases.

use serde_json::{Value, json};

use crate::harness::definitions::{Kind, definition};
use crate::harness::objects::{Objects, ResponseStatus, deployment, map, status_of};
use crate::harness::server;
use crate::harness::server::TestServer;

/// Returns a collection in a new namespace. `version` is the path of the group and version.
async fn collection<'a>(server: &'a TestServer, version: &str, plural: &str) -> Objects<'a> {
    let namespace = server.namespace().await;
    Objects::at(server, format!("{version}/namespaces/{namespace}/{plural}"))
}

/// Checks that an invalid value of `dryRun` or `fieldManager` is refused, even after a valid value of the same option.
#[tokio::test]
async fn each_query_option_is_validated() {
    let server = server().await;
    let maps = Objects::maps(&server, &server.namespace().await);
    let object = map("a", Value::Null, Value::Null);
    let options = "CreateOptions.meta.k8s.io \"\" is invalid";
    for (query, why) in [
        (
            "dryRun=",
            "dryRun: Unsupported value: [\"\"]: supported values: \"All\"",
        ),
        (
            "dryRun=All&dryRun=x",
            "dryRun: Unsupported value: [\"All\",\"x\"]: supported values: \"All\"",
        ),
    ] {
        let refused = maps.post(&format!("?{query}"), &object).await;
        let why = format!("{options}: {why}");
        assert_eq!(status_of(&refused), (422, why.as_str()));
    }
    let refused = maps.post("?fieldManager=a%00b", &object).await;
    let ResponseStatus(code, message) = status_of(&refused);
    let end = "invalid character U+0000 (at position 1)";
    assert!(code == 422 && message.ends_with(end), "{code} {message}");
    assert_eq!(maps.post("?dryRun=All&dryRun=All", &object).await.code, 201);
    assert_eq!(maps.get("/a").await.code, 404);
}

/// Checks that updates and patches with resource version 0 succeed regardless of the version of the object.
#[tokio::test]
async fn version_zero_matches_any_version() {
    let server = server().await;
    let maps = Objects::maps(&server, &server.namespace().await);
    let mut object = maps.create(&map("a", Value::Null, Value::Null)).await;
    object["metadata"]["resourceVersion"] = json!("0");
    object["data"] = json!({"k": "v"});
    let put = maps.put("/a", &object).await;
    assert_eq!(put.json["data"], json!({"k": "v"}), "{}", put.text);
    let any = json!({"metadata": {"resourceVersion": "0"}, "data": {"k": "w"}});
    assert_eq!(maps.merge("/a", &any).await.code, 200);
}

/// Checks that a patch that removes the name of an object is refused. A patch of a missing object is refused with
/// status 404, even if the patch is invalid.
#[tokio::test]
async fn patches_cannot_remove_the_name() {
    let server = server().await;
    let maps = Objects::maps(&server, &server.namespace().await);
    maps.create(&map("a", Value::Null, Value::Null)).await;
    let why = "the name of the object (a based on URL) was undeterminable: name must be provided";
    for patch in [
        json!({"metadata": null}),
        json!({"metadata": {"name": null}}),
    ] {
        assert_eq!(status_of(&maps.merge("/a", &patch).await), (400, why));
    }
    let removed = maps
        .json_patch("/a", &json!([{"op": "remove", "path": "/metadata"}]))
        .await;
    assert_eq!(status_of(&removed), (400, why));
    // An apply patch needs no name if the object exists.
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
    let applied = maps.apply("a", "one", &nameless).await;
    assert_eq!(applied.json["data"], json!({"k": "v"}), "{}", applied.text);
    let why = "the name of the object (new based on URL) was undeterminable: name must be provided";
    assert_eq!(
        status_of(&maps.apply("new", "one", &nameless).await),
        (400, why)
    );
    for patched in [
        maps.merge("/missing", &json!([])).await,
        maps.strategic("/missing", &json!("x")).await,
        maps.json_patch("/missing", &json!({})).await,
    ] {
        assert_eq!(
            status_of(&patched),
            (404, "configmaps \"missing\" not found")
        );
    }
}

#[tokio::test]
async fn scopes_of_quotas_are_immutable() {
    let server = server().await;
    let quotas = collection(&server, "/api/v1", "resourcequotas").await;
    let quota = |scopes: Value| json!({"metadata": {"name": "a"}, "spec": {"hard": {"pods": "1"}, "scopes": scopes}});
    quotas.create(&quota(json!(["NotTerminating"]))).await;
    let why = "ResourceQuota \"a\" is invalid: spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable";
    let refused = quotas
        .merge("/a", &json!({"spec": {"scopes": ["BestEffort"]}}))
        .await;
    assert_eq!(status_of(&refused), (422, why));
}

#[tokio::test]
async fn selectors_of_replication_controllers_must_match_their_template() {
    let server = server().await;
    let controllers = collection(&server, "/api/v1", "replicationcontrollers").await;
    let controller = |spec: Value| {
        let mut object = deployment("a");
        let template = object["spec"]["template"].take();
        object = json!({"metadata": {"name": "a"}, "spec": {"template": template}});
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        object
    };
    let start = "ReplicationController \"a\" is invalid: ";
    let mut odd = controller(json!({}));
    odd["spec"]["template"]["spec"]["activeDeadlineSeconds"] = json!(3);
    let mut unlabelled = controller(json!({}));
    unlabelled["spec"]["template"]["metadata"] = json!({});
    for (object, why) in [
        (
            controller(json!({"selector": {"c": "d"}})),
            "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
        ),
        (unlabelled, "spec.selector: Required value"),
        (
            controller(json!({"selector": {"a": "b"}, "template": null})),
            "spec.template: Required value",
        ),
        (
            odd,
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not \
             Supported",
        ),
    ] {
        let refused = controllers.post("", &object).await;
        let why = format!("{start}{why}");
        assert_eq!(status_of(&refused), (422, why.as_str()));
    }
    assert_eq!(controllers.post("", &controller(json!({}))).await.code, 201);
}

/// Checks the messages about missing fields in objects of several kinds. A message that prints a missing value prints
/// `null`. Also checks the message about a changed role reference.
#[tokio::test]
async fn messages_show_missing_values_as_null() {
    let server = server().await;
    let mut web = deployment("a");
    web["spec"]["template"]["metadata"] = json!({});
    let why = "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`";
    let missing = "spec.selector: Required value";
    for (plural, kind, without) in [
        ("deployments", "Deployment", format!("[{missing}, {why}]")),
        ("daemonsets", "DaemonSet", why.to_owned()),
    ] {
        let objects = collection(&server, "/apis/apps/v1", plural).await;
        let mut object = web.clone();
        object["kind"] = json!(kind);
        object["spec"].as_object_mut().unwrap().remove("replicas");
        let start = format!("{kind}.apps \"a\" is invalid: ");
        let refused = objects.post("", &object).await;
        assert_eq!(status_of(&refused), (422, format!("{start}{why}").as_str()));
        object["spec"]["selector"] = Value::Null;
        let refused = objects.post("", &object).await;
        assert_eq!(
            status_of(&refused),
            (422, format!("{start}{without}").as_str())
        );
    }
    let jobs = collection(&server, "/apis/batch/v1", "cronjobs").await;
    let job = json!({"metadata": {"name": "a"}, "spec": {"schedule": "@daily", "jobTemplate": {}}});
    let why = "CronJob.batch \"a\" is invalid: [spec.jobTemplate.spec.template.spec.containers: Required value, \
               spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \
               \"Never\"]";
    assert_eq!(status_of(&jobs.post("", &job).await), (422, why));
    let bindings = collection(
        &server,
        "/apis/rbac.authorization.k8s.io/v1",
        "rolebindings",
    )
    .await;
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    bindings
        .create(&json!({"metadata": {"name": "a"}, "roleRef": role}))
        .await;
    let why = "RoleBinding.rbac.authorization.k8s.io \"a\" is invalid: roleRef: Invalid value: \
               {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\"Name\":\"edit\"}: cannot change \
               roleRef";
    let refused = bindings
        .merge("/a", &json!({"roleRef": {"name": "edit"}}))
        .await;
    assert_eq!(status_of(&refused), (422, why));
}

/// Checks that a Job with an invalid completion mode or pod failure policy is refused. The completions of an indexed
/// Job can change only together with its parallelism.
#[tokio::test]
async fn indexed_jobs_and_failure_policies_are_validated() {
    let server = server().await;
    let jobs = collection(&server, "/apis/batch/v1", "jobs").await;
    let job = |name: &str, spec: Value| {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        let mut object = json!({"metadata": {"name": name}, "spec": {"template": {"spec": pod}}});
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        object
    };
    let rule = |rule: Value| json!({"podFailurePolicy": {"rules": [rule]}});
    let conditions = json!([{"type": "DisruptionTarget", "status": "True"}]);
    for (spec, why) in [
        (
            json!({"completionMode": "Indexed", "parallelism": 3}),
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            rule(json!({"onPodConditions": conditions})),
            "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \
             \"Ignore\"]",
        ),
        (
            rule(json!({"action": "Ignore", "onExitCodes": {"operator": "Near", "values": [1]}})),
            "spec.podFailurePolicy.rules[0].onExitCodes.operator: Unsupported value: \"Near\": supported values: \
             \"In\", \"NotIn\"",
        ),
    ] {
        let why = format!("Job.batch \"a\" is invalid: {why}");
        assert_eq!(
            status_of(&jobs.post("", &job("a", spec)).await),
            (422, why.as_str())
        );
    }
    let counted = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3});
    jobs.create(&job("b", counted)).await;
    let why = "Job.batch \"b\" is invalid: spec.completions: Invalid value: 4: can only be modified in tandem with \
               spec.parallelism";
    let alone = jobs.merge("/b", &json!({"spec": {"completions": 4}})).await;
    assert_eq!(status_of(&alone), (422, why));
    let both = jobs
        .merge("/b", &json!({"spec": {"completions": 4, "parallelism": 4}}))
        .await;
    assert_eq!(both.code, 200, "{}", both.text);
}

/// Checks that a finalizer without a domain is accepted on a Lease and refused on a ConfigMap.
#[tokio::test]
async fn the_kind_decides_if_finalizers_need_a_domain() {
    let server = server().await;
    let leases = collection(&server, "/apis/coordination.k8s.io/v1", "leases").await;
    let named = json!({"metadata": {"name": "a", "finalizers": ["x"]}});
    assert_eq!(leases.post("?dryRun=All", &named).await.code, 201);
    let maps = Objects::maps(&server, &server.namespace().await);
    assert_eq!(maps.post("?dryRun=All", &named).await.code, 422);
}

/// Checks that a custom resource is refused if its metadata has a wrong type, or if an object embedded in its spec is
/// no map or has no `apiVersion` and `kind`.
#[tokio::test]
async fn metadata_of_custom_resources_is_typed() {
    let server = server().await;
    let inner = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"inner": inner}});
    let installed = Kind::install(&server, &definition(schema)).await;
    let objects = Objects::at(&server, installed.path("v1"));
    let (kind, version) = ("Thing", format!("{}/v1", installed.group));
    let object = |meta: Value| json!({"apiVersion": version, "kind": kind, "metadata": meta});
    let cannot = format!("{kind} in version \"v1\" cannot be handled as a {kind}");
    for (meta, why) in [
        (
            json!({"name": "a", "labels": ["x"]}),
            "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
        ),
        (
            json!({"name": "a", "generation": "x"}),
            "json: cannot unmarshal string into Go struct field ObjectMeta.generation of type int64",
        ),
        (
            json!("a"),
            "json: cannot unmarshal string into Go value of type v1.ObjectMeta",
        ),
    ] {
        let why = format!("{cannot}: {why}");
        assert_eq!(
            status_of(&objects.post("", &object(meta)).await),
            (400, why.as_str())
        );
    }
    let created = object(json!({"name": "a", "finalizers": ["q"]}));
    objects.create(&created).await;
    let listed = objects.get("").await.json;
    assert_eq!(listed["metadata"]["continue"], "", "{listed}");
    let mut applied = object(json!({"name": "c"}));
    applied["spec"] = json!({"inner": []});
    let refused = objects.apply("c", "one", &applied).await;
    let ResponseStatus(code, message) = status_of(&refused);
    assert!(
        code == 500 && message.contains(": .spec.inner: expected map"),
        "{code} {message}"
    );
    let mut nested = object(json!({"name": "b"}));
    nested["spec"] = json!({"inner": {}});
    let refused = objects.post("", &nested).await;
    let ResponseStatus(code, message) = status_of(&refused);
    let found = "spec.inner.apiVersion: Required value, spec.inner.kind: Required value";
    assert!(code == 422 && message.contains(found), "{code} {message}");
}

/// Checks that an empty list of scaling policies is refused, and that a null list gets the default policies.
#[tokio::test]
async fn an_empty_list_of_scaling_policies_is_refused() {
    let server = server().await;
    let namespace = server.namespace().await;
    let path = format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers");
    let autoscalers = Objects::at(&server, path);
    let with = |policies: Value| {
        json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 2, "behavior": {"scaleDown": {"policies": policies}},
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}})
    };
    let refused = autoscalers.post("", &with(json!([]))).await;
    let causes = ["spec.behavior.scaleDown.policies FieldValueRequired".to_owned()];
    assert_eq!((refused.code, refused.causes()), (422, causes.into()));
    let created = autoscalers.post("", &with(Value::Null)).await;
    let policies = &created.json["spec"]["behavior"]["scaleDown"]["policies"];
    assert_eq!(
        policies.as_array().map(Vec::len),
        Some(1),
        "{}",
        created.text
    );
}
