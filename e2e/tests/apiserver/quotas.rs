//! ResourceQuotas and LimitRanges: the defaults that they set, the objects that they refuse, and the messages of the
//! refusals.

use berth_e2e::eventually;
use serde_json::{Value, json};

use crate::harness::content_type::{JSON, MERGE};
use crate::harness::objects::status_of;
use crate::harness::server;
use crate::harness::server::{ApiResponse, TestServer};

async fn create(server: &TestServer, namespace: &str, plural: &str, object: Value) -> ApiResponse {
    let base = if plural == "deployments" {
        "/apis/apps/v1"
    } else {
        "/api/v1"
    };
    let path = format!("{base}/namespaces/{namespace}/{plural}");
    server.raw("POST", &path, &[JSON], object.to_string()).await
}

async fn merge(server: &TestServer, path: &str, changes: Value) -> ApiResponse {
    server
        .raw("PATCH", path, &[MERGE], changes.to_string())
        .await
}

/// Returns a pod with two containers. `first` and `second` are the resources of the containers.
fn pod(name: &str, first: Value, second: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": first}, {"name": "d", "image": "i", "resources": second}]}})
}

fn claim(storage: &str) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage}}}})
}

#[tokio::test]
async fn limit_ranges_set_defaults_and_refuse_violations() {
    let server = server().await;
    let namespace = server.namespace().await;
    let range = json!({"metadata": {"name": "lr"}, "spec": {"limits": [
        {"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "min": {"cpu": "100m"},
            "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "200m", "memory": "64Mi"},
            "maxLimitRequestRatio": {"cpu": "4"}},
        {"type": "Pod", "max": {"cpu": "3"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}}]}});
    assert_eq!(
        create(&server, &namespace, "limitranges", range).await.code,
        201
    );

    // kube-apiserver may notice the new LimitRange with a delay.
    let created = eventually("the range to apply", async || {
        let created = create(&server, &namespace, "pods", pod("a", json!({}), json!({}))).await;
        if created.json["metadata"]["annotations"].is_object() {
            return Ok(created.json);
        }
        let path = format!("/api/v1/namespaces/{namespace}/pods/a?gracePeriodSeconds=0");
        server.raw("DELETE", &path, &[], "").await;
        Err(created.text)
    })
    .await;
    let filled = json!({"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "200m", "memory": "64Mi"}});
    for container in created["spec"]["containers"].as_array().unwrap() {
        assert_eq!(container["resources"], filled);
    }
    assert_eq!(
        created["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c; \
         cpu, memory request for container d; cpu, memory limit for container d"
    );
    assert_eq!(created["status"]["qosClass"], "Burstable");

    for (plural, object, why) in [
        (
            "pods",
            pod("b", json!({"limits": {"cpu": "3"}}), json!({})),
            "pods \"b\" is forbidden: [maximum cpu usage per Container is 2, but limit is 3, maximum cpu usage per \
             Pod is 3, but limit is 3500m]",
        ),
        (
            "pods",
            pod("c", json!({"requests": {"cpu": "50m"}}), json!({})),
            "pods \"c\" is forbidden: [minimum cpu usage per Container is 100m, but request is 50m, cpu max limit \
             to request ratio per Container is 4, but provided ratio is 10.000000]",
        ),
        (
            "pods",
            pod(
                "d",
                json!({"limits": {"cpu": "2"}, "requests": {"cpu": "100m"}}),
                json!({}),
            ),
            "pods \"d\" is forbidden: cpu max limit to request ratio per Container is 4, but provided ratio is \
             20.000000",
        ),
        (
            "persistentvolumeclaims",
            claim("5Gi"),
            "persistentvolumeclaims \"p\" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but \
             request is 5Gi",
        ),
        (
            "persistentvolumeclaims",
            claim("5Mi"),
            "persistentvolumeclaims \"p\" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, but \
             request is 5Mi",
        ),
    ] {
        let response = create(&server, &namespace, plural, object).await;
        assert_eq!(status_of(&response), (403, why));
    }
    let greedy = pod("g", json!({"requests": {"cpu": "1500m"}}), json!({}));
    let response = create(&server, &namespace, "pods", greedy).await;
    let cause = "spec.containers[0].resources.requests FieldValueInvalid";
    assert_eq!(
        (response.code, response.causes()),
        (422, vec![cause.to_owned()])
    );
}

/// Checks that a quota refuses an object that would exceed one of its limits, and that the status of the quota counts
/// the accepted objects.
#[tokio::test]
async fn exceeded_quotas_refuse_objects() {
    let server = server().await;
    let namespace = server.namespace().await;
    let maps = (2 + server.initial_maps()).to_string();
    let hard = json!({"pods": "1", "requests.cpu": "1", "limits.memory": "1Gi", "configmaps": maps,
        "count/deployments.apps": "1", "services": "1", "services.nodeports": "0", "cpu": "1"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    assert_eq!(
        create(&server, &namespace, "resourcequotas", quota)
            .await
            .code,
        201
    );
    let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/q");
    if server.is_kube_apiserver() {
        // No kube-controller-manager runs beside kube-apiserver, so the test writes the status of the quota.
        let mut used = hard.clone();
        for amount in used.as_object_mut().unwrap().values_mut() {
            *amount = json!("0");
        }
        let status = json!({"status": {"hard": hard, "used": used}}).to_string();
        let path = format!("{path}/status");
        assert_eq!(server.raw("PATCH", &path, &[MERGE], status).await.code, 200);
        // kube-apiserver may notice the status of the quota with a delay.
        eventually("the quota to be visible", async || {
            let trial = pod("a", json!({}), json!({}));
            let pods = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
            let response = server.raw("POST", &pods, &[JSON], trial.to_string()).await;
            if response.code == 403 {
                Ok(())
            } else {
                Err(response.text)
            }
        })
        .await;
    }

    let resources =
        |memory: &str, cpu: &str| json!({"limits": {"memory": memory}, "requests": {"cpu": cpu}});
    let container = |name: &str, one: Value, two: Value| ("pods", pod(name, one, two));
    let map = |name: &str| ("configmaps", json!({"metadata": {"name": name}}));
    let deployment = |name: &str| {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
        (
            "deployments",
            json!({"metadata": {"name": name}, "spec": spec}),
        )
    };
    let service = |name: &str, kind: &str| {
        let spec = json!({"type": kind, "ports": [{"port": 80}]});
        (
            "services",
            json!({"metadata": {"name": name}, "spec": spec}),
        )
    };
    let steps = [
        (
            container("a", json!({}), json!({})),
            Some(
                "pods \"a\" is forbidden: failed quota: q: must specify cpu for: c,d; limits.memory for: c,d; requests.cpu for: c,d",
            ),
        ),
        (
            container("b", resources("1Gi", "1"), json!({})),
            Some(
                "pods \"b\" is forbidden: failed quota: q: must specify cpu for: d; limits.memory for: d; requests.cpu for: d",
            ),
        ),
        (
            container("c", resources("2Gi", "1500m"), resources("1", "1")),
            Some(
                "pods \"c\" is forbidden: exceeded quota: q, requested: cpu=2500m,limits.memory=2147483649,requests.cpu=2500m, used: cpu=0,limits.memory=0,requests.cpu=0, limited: cpu=1,limits.memory=1Gi,requests.cpu=1",
            ),
        ),
        (
            container("d", resources("512Mi", "500m"), resources("1", "100m")),
            None,
        ),
        (
            container("e", resources("512Mi", "100m"), resources("1", "100m")),
            Some(
                "pods \"e\" is forbidden: exceeded quota: q, requested: limits.memory=536870913,pods=1, used: limits.memory=536870913,pods=1, limited: limits.memory=1Gi,pods=1",
            ),
        ),
        (map("one"), None),
        (map("two"), None),
        (
            map("three"),
            Some(
                "configmaps \"three\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2",
            ),
        ),
        (deployment("one"), None),
        (
            deployment("two"),
            Some(
                "deployments.apps \"two\" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=1, limited: count/deployments.apps=1",
            ),
        ),
        (
            service("open", "NodePort"),
            Some(
                "services \"open\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0",
            ),
        ),
        (service("one", "ClusterIP"), None),
        (
            service("two", "ClusterIP"),
            Some(
                "services \"two\" is forbidden: exceeded quota: q, requested: services=1, used: services=1, limited: services=1",
            ),
        ),
    ];
    for ((plural, object), refused) in steps {
        let name = object["metadata"]["name"].clone();
        let response = create(&server, &namespace, plural, object).await;
        match refused {
            None => assert_eq!(response.code, 201, "{name}: {}", response.text),
            Some(why) => {
                let why = why.replace("configmaps=2", &format!("configmaps={maps}"));
                assert_eq!(status_of(&response), (403, &*why));
            }
        }
    }
    let used = json!({"pods": "1", "requests.cpu": "600m", "limits.memory": "536870913", "configmaps": maps,
        "count/deployments.apps": "1", "services": "1", "services.nodeports": "0", "cpu": "600m"});
    eventually("the usage to be recorded", async || {
        let quota = server.raw("GET", &path, &[], "").await.json;
        if quota["status"]["used"] == used && quota["status"]["hard"] == hard {
            Ok(())
        } else {
            Err(quota["status"].to_string())
        }
    })
    .await;
}

/// Checks that a quota with a scope selector for a PriorityClass refuses only pods of this class.
#[tokio::test]
async fn quotas_can_be_scoped_to_priority_classes() {
    let server = server().await;
    let namespace = server.namespace().await;
    let class = format!("class-{namespace}");
    let object = json!({"metadata": {"name": class}, "value": 3}).to_string();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    assert_eq!(server.raw("POST", classes, &[JSON], object).await.code, 201);
    let selector = json!({"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": [class]}]});
    let hard = json!({"pods": "0"});
    let quota =
        json!({"metadata": {"name": "q"}, "spec": {"hard": hard, "scopeSelector": selector}});
    let created = create(&server, &namespace, "resourcequotas", quota).await;
    assert_eq!(created.code, 201, "{}", created.text);
    if server.is_kube_apiserver() {
        // No kube-controller-manager runs beside kube-apiserver, so the test writes the status of the quota.
        let status = json!({"status": {"hard": hard, "used": hard}}).to_string();
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/q/status");
        assert_eq!(server.raw("PATCH", &path, &[MERGE], status).await.code, 200);
    }
    let pod = |name: &str, class: Option<&str>| {
        let mut pod = pod(name, json!({}), json!({}));
        pod["spec"]["priorityClassName"] = json!(class);
        pod
    };
    // kube-apiserver may notice the new quota and the new PriorityClass with a delay.
    let why = "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0";
    eventually("the quota to apply", async || {
        let trial = pod("a", Some(&class)).to_string();
        let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
        let response = server.raw("POST", &path, &[JSON], trial).await;
        if (response.code, &response.json["message"]) == (403, &json!(why)) {
            Ok(())
        } else {
            Err(response.text)
        }
    })
    .await;
    let others = create(&server, &namespace, "pods", pod("b", None)).await;
    assert_eq!(others.code, 201, "{}", others.text);
}

/// Checks that an update of a Service is refused if its additional node ports exceed the quota.
#[tokio::test]
async fn service_updates_count_against_quotas() {
    let server = server().await;
    let namespace = format!("/api/v1/namespaces/{}", server.namespace().await);
    let hard = json!({"services.nodeports": "2"});
    server
        .create(
            &format!("{namespace}/resourcequotas"),
            json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}),
        )
        .await;
    if server.is_kube_apiserver() {
        // No kube-controller-manager runs beside kube-apiserver, so the test writes the status of the quota.
        let path = format!("{namespace}/resourcequotas/q/status");
        let status = json!({"status": {"hard": hard, "used": {"services.nodeports": "0"}}});
        assert_eq!(merge(&server, &path, status).await.code, 200);
    }
    let ports =
        json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}, {"name": "c", "port": 3}]);
    server
        .create(
            &format!("{namespace}/services"),
            json!({"metadata": {"name": "s"}, "spec": {"ports": ports}}),
        )
        .await;
    let path = format!("{namespace}/services/s");
    let why = "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=3, used: \
               services.nodeports=0, limited: services.nodeports=2";
    // kube-apiserver may notice the new quota with a delay.
    eventually("the quota to apply", async || {
        let open = json!({"spec": {"type": "NodePort"}});
        let response = merge(&server, &format!("{path}?dryRun=All"), open).await;
        if (response.code, &response.json["message"]) == (403, &json!(why)) {
            Ok(())
        } else {
            Err(response.text)
        }
    })
    .await;
    let fewer = json!({"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 1}]}});
    assert_eq!(merge(&server, &path, fewer).await.code, 200);
    let more = merge(&server, &path, json!({"spec": {"ports": ports}})).await;
    assert_eq!(
        (more.code, more.json["message"].as_str()),
        (
            403,
            Some(
                "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: \
                 services.nodeports=1, limited: services.nodeports=2"
            )
        )
    );
}
