//! Validation of objects of built-in kinds: invalid values of fields, and changes of immutable fields.

use serde_json::{Value, json};

use crate::harness::content_type::{JSON, MERGE};
use crate::harness::objects::message_outline;
use crate::harness::server;

/// Returns a valid object of each tested kind, with the path of its collection. The path has the placeholder `NS` for
/// the namespace.
fn valid_objects() -> Vec<(&'static str, Value)> {
    let containers = json!([{"name": "c", "image": "i"}]);
    let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": containers}}});
    vec![
        (
            "/apis/apps/v1/namespaces/NS/deployments",
            json!({"metadata": {"name": "deployment"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}}}),
        ),
        (
            "/api/v1/namespaces/NS/services",
            json!({"metadata": {"name": "service"}, "spec": {"ports": [{"port": 80}]}}),
        ),
        (
            "/api/v1/namespaces/NS/secrets",
            json!({"metadata": {"name": "secret"}, "data": {"a": "Yg=="}}),
        ),
        (
            "/api/v1/namespaces/NS/persistentvolumeclaims",
            json!({"metadata": {"name": "claim"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        (
            "/apis/batch/v1/namespaces/NS/jobs",
            json!({"metadata": {"name": "job"}, "spec": job}),
        ),
        (
            "/apis/batch/v1/namespaces/NS/cronjobs",
            json!({"metadata": {"name": "cron"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}}),
        ),
    ]
}

/// The name of a valid object, the field to change, an invalid value, and the expected message.
type Case = (&'static str, &'static str, Value, &'static str);

fn invalid_cases() -> Vec<Case> {
    let container = |more: Value| {
        let mut container = json!({"name": "c", "image": "i"});
        for (name, value) in more.as_object().unwrap() {
            container[name.as_str()] = value.clone();
        }
        json!([container])
    };
    let containers = "/spec/template/spec/containers";
    vec![
        (
            "deployment",
            "/spec/selector/matchLabels",
            json!({}),
            "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
        ),
        (
            "deployment",
            "/spec/replicas",
            json!(-1),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "deployment",
            "/spec/minReadySeconds",
            json!(-1),
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "deployment",
            "/spec/strategy",
            json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "deployment",
            "/spec/strategy",
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            "deployment",
            containers,
            json!([]),
            "spec.template.spec.containers: Required value",
        ),
        (
            "deployment",
            containers,
            container(json!({"name": "C_"})),
            "spec.template.spec.containers[0].name: Invalid value: \"C_\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        ),
        (
            "deployment",
            containers,
            container(json!({"ports": [{"containerPort": 70000}]})),
            "spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            "deployment",
            containers,
            container(json!({"ports": [{"containerPort": 80, "protocol": "X"}]})),
            "spec.template.spec.containers[0].ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ),
        (
            "deployment",
            containers,
            container(json!({"imagePullPolicy": "Sometimes"})),
            "spec.template.spec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ),
        (
            "deployment",
            containers,
            container(json!({"env": [{"name": "1="}]})),
            "spec.template.spec.containers[0].env[0].name: Invalid value: \"1=\": a valid environment variable name must consist only of printable ASCII characters other than '='",
        ),
        (
            "deployment",
            containers,
            container(json!({"volumeMounts": [{"name": "v", "mountPath": "/x"}]})),
            "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            "service",
            "/spec/ports",
            json!([]),
            "spec.ports: Required value",
        ),
        (
            "service",
            "/spec/ports",
            json!([{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
            "spec.ports[1].name: Duplicate value: \"a\"",
        ),
        (
            "service",
            "/spec/ports",
            json!([{"port": 80, "nodePort": 30000}]),
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        (
            "service",
            "/spec/type",
            json!("X"),
            "spec.type: Unsupported value: \"X\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ),
        (
            "service",
            "/spec/type",
            json!("ExternalName"),
            "spec.externalName: Required value",
        ),
        (
            "service",
            "/spec/sessionAffinity",
            json!("X"),
            "spec.sessionAffinity: Unsupported value: \"X\": supported values: \"ClientIP\", \"None\"",
        ),
        (
            "service",
            "/spec/externalIPs",
            json!(["x"]),
            "spec.externalIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        (
            "secret",
            "/type",
            json!("kubernetes.io/dockerconfigjson"),
            "data[.dockerconfigjson]: Required value",
        ),
        (
            "secret",
            "/type",
            json!("kubernetes.io/tls"),
            "[data[tls.crt]: Required value, data[tls.key]: Required value]",
        ),
        (
            "secret",
            "/type",
            json!("kubernetes.io/basic-auth"),
            "[data[username]: Required value, data[password]: Required value]",
        ),
        (
            "secret",
            "/type",
            json!("kubernetes.io/service-account-token"),
            "metadata.annotations[kubernetes.io/service-account.name]: Required value",
        ),
        (
            "claim",
            "/spec/accessModes",
            json!([]),
            "spec.accessModes: Required value: at least 1 access mode is required",
        ),
        (
            "claim",
            "/spec/accessModes",
            json!(["X"]),
            "spec.accessModes: Unsupported value: \"X\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
        ),
        (
            "claim",
            "/spec/resources",
            json!({}),
            "spec.resources[storage]: Required value",
        ),
        (
            "claim",
            "/spec/resources/requests/storage",
            json!("0"),
            "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
        ),
        (
            "job",
            "/spec/template/spec/restartPolicy",
            json!("Always"),
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            "job",
            "/spec/parallelism",
            json!(-1),
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "job",
            "/spec/completionMode",
            json!("X"),
            "spec.completionMode: Unsupported value: \"X\": supported values: \"NonIndexed\", \"Indexed\"",
        ),
        (
            "cron",
            "/spec/schedule",
            json!("x"),
            "spec.schedule: Invalid value: \"x\": expected exactly 5 fields, found 1: [x]",
        ),
        (
            "cron",
            "/spec/schedule",
            json!("TZ=UTC * * * * *"),
            "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        ),
        (
            "cron",
            "/spec/timeZone",
            json!(""),
            "spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string",
        ),
        (
            "cron",
            "/spec/concurrencyPolicy",
            json!("X"),
            "spec.concurrencyPolicy: Unsupported value: \"X\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
        ),
    ]
}

fn put(object: &mut Value, field: &str, value: Value) {
    let (parent, field) = field.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    parent[field] = value;
}

/// Checks that the message about an invalid object names the invalid field and the reason.
#[tokio::test]
async fn invalid_fields_are_named() {
    let server = server().await;
    let namespace = server.namespace().await;
    let valid = valid_objects();
    let mut different = Vec::new();
    for (name, field, value, expected) in invalid_cases() {
        let (path, object) = valid
            .iter()
            .find(|(_, o)| o["metadata"]["name"] == name)
            .unwrap();
        let mut object = object.clone();
        put(&mut object, field, value);
        let path = format!("{}?dryRun=All", path.replace("NS", &namespace));
        let response = server.raw("POST", &path, &[JSON], object.to_string()).await;
        let message = response.json["message"].as_str().unwrap_or_default();
        if (response.code, message_outline(message)) != (422, message_outline(expected)) {
            different.push(format!(
                "{name} {field}: {} {message}\n  expected: {expected}",
                response.code
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[tokio::test]
async fn immutable_fields_cannot_change() {
    let server = server().await;
    let namespace = server.namespace().await;
    let other = json!({"matchLabels": {"q": "r"}});
    let changes = [
        (
            "deployment",
            json!({"spec": {"selector": other, "template": {"metadata": {"labels": {"q": "r"}}}}}),
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"q\":\"r\"}}: field is immutable",
        ),
        (
            "service",
            json!({"spec": {"clusterIP": "10.0.0.250", "clusterIPs": null}}),
            "spec.clusterIPs[0]: Invalid value",
        ),
        (
            "secret",
            json!({"type": "other"}),
            "type: Invalid value: \"other\": field is immutable",
        ),
        (
            "claim",
            json!({"spec": {"accessModes": ["ReadWriteMany"]}}),
            "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ),
        (
            "job",
            json!({"spec": {"completions": 5}}),
            "spec.completions: Invalid value: 5: field is immutable",
        ),
        (
            "job",
            json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}}),
            "spec.template: Invalid value",
        ),
    ];
    for (path, object) in valid_objects() {
        let path = path.replace("NS", &namespace);
        let name = object["metadata"]["name"].as_str().unwrap();
        let created = server.raw("POST", &path, &[JSON], object.to_string()).await;
        assert_eq!(created.code, 201, "{}", created.text);
        for (_, change, expected) in changes.iter().filter(|(of, ..)| *of == name) {
            let path = format!("{path}/{name}");
            let response = server
                .raw("PATCH", &path, &[MERGE], change.to_string())
                .await;
            let message = response.json["message"].as_str().unwrap_or_default();
            assert!(
                response.code == 422
                    && message_outline(message).contains(&message_outline(expected)),
                "{name}: {}",
                response.text
            );
        }
    }
}
