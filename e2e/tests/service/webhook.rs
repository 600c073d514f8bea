//! Tests of `berth webhook` with an API server that calls it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_api::{FederatedResourceQuota, PropagationPolicy, ResourceBinding};
use berth_e2e::Program;
use berth_e2e::bare_control_plane::BareControlPlane;
use berth_e2e::eventually;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::process;

const ARGUMENTS: [&str; 6] = [
    "webhook",
    "--self-managed-certificates",
    "--bind-address=127.0.0.1",
    "--secure-port=0",
    "--metrics-bind-address=0",
    "--health-probe-bind-address=127.0.0.1:0",
];

fn start(bare: &BareControlPlane) -> Program {
    process::start_as("berth", bare.folder(), &bare.kubeconfig(), &ARGUMENTS)
}

/// Starts a webhook server that enforces quotas.
fn start_with_quotas(bare: &BareControlPlane) -> Program {
    let mut arguments = ARGUMENTS.to_vec();
    arguments.push("--feature-gates=FederatedQuotaEnforcement=true");
    process::start_as("berth", bare.folder(), &bare.kubeconfig(), &arguments)
}

/// Waits until the webhook server listens, and returns its address.
async fn address(program: &Program) -> String {
    let line = program.wait_for_log("serving admission webhooks").await;
    let address = line.trim().strip_prefix("address=").unwrap().to_owned();
    address.replace("127.0.0.1", "localhost")
}

/// Waits until the webhook server has a certificate.
async fn ready(program: &Program) {
    let probes = program.wait_for_log("serving health and metrics").await;
    let probes = probes.trim().strip_prefix("address=").unwrap().to_owned();
    eventually("the webhook server to be ready", async || {
        let config = kube::Config::new(format!("http://{probes}").parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let request = http::Request::get("/readyz").body(kube::client::Body::empty());
        let response = client.send(request.unwrap()).await;
        match response.map(|response| response.status().as_u16()) {
            Ok(200) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns the configuration of an admission webhook for PropagationPolicies. `call` is its `clientConfig`.
fn hook(name: &str, call: Value) -> Value {
    json!({
        "name": name, "clientConfig": call,
        "rules": [{ "operations": ["CREATE", "UPDATE"], "apiGroups": ["policy.karmada.io"],
                    "apiVersions": ["*"], "resources": ["propagationpolicies"] }],
        "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
    })
}

fn policy(name: &str, spec: Value) -> PropagationPolicy {
    object(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": { "name": name, "namespace": "default" }, "spec": spec,
    }))
}

/// Creates the namespace `karmada-system` unless it exists. The webhook server stores its certificate there.
async fn add_system_namespace(bare: &BareControlPlane) {
    let namespaces: Api<Namespace> = Api::all(bare.client.clone());
    if namespaces
        .get_opt("karmada-system")
        .await
        .unwrap()
        .is_none()
    {
        bare.add_namespaces(&["karmada-system".to_owned()]).await;
    }
}

/// Waits until the Secret with the certificates exists, and returns it.
async fn certificates(bare: &BareControlPlane) -> Secret {
    let secrets: Api<Secret> = Api::namespaced(bare.client.clone(), "karmada-system");
    eventually("the certificates", async || {
        let secret = secrets.get("berth-webhook-cert").await;
        secret.map_err(|error| error.to_string())
    })
    .await
}

/// The mutating webhook adds the permanent ID to a policy. The validating webhook refuses an invalid policy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_refuses_and_completes_policies_by_the_webhook() {
    let bare = BareControlPlane::start(&[]).await;
    add_system_namespace(&bare).await;
    let program = start(&bare);
    let address = address(&program).await;
    ready(&program).await;
    let secret = certificates(&bare).await;
    let authority = STANDARD.encode(&secret.data.unwrap()["ca.crt"].0);
    let call =
        |path: &str| json!({ "url": format!("https://{address}/{path}"), "caBundle": authority });
    let parameters = PostParams::default();
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(bare.client.clone());
    let configuration = json!({ "metadata": { "name": "policies" },
        "webhooks": [hook("mutate.policies.io", call("mutate-propagationpolicy"))] });
    mutating
        .create(&parameters, &object(configuration))
        .await
        .unwrap();
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(bare.client.clone());
    let configuration = json!({ "metadata": { "name": "policies" },
        "webhooks": [hook("validate.policies.io", call("validate-propagationpolicy"))] });
    validating
        .create(&parameters, &object(configuration))
        .await
        .unwrap();

    let policies: Api<PropagationPolicy> = Api::namespaced(bare.client.clone(), "default");
    let selectors = json!([{ "apiVersion": "apps/v1", "kind": "Deployment" }]);
    let valid = policy(
        "valid",
        json!({ "resourceSelectors": selectors, "placement": {} }),
    );
    let created = policies.create(&parameters, &valid).await.unwrap();
    let labels = created.metadata.labels.unwrap_or_default();
    assert!(
        labels.contains_key("propagationpolicy.karmada.io/permanent-id"),
        "{labels:?}"
    );

    // The schema permits a minimum above the maximum, so only the webhook refuses this policy.
    let constraints = json!([{ "spreadByField": "cluster", "minGroups": 3, "maxGroups": 2 }]);
    let placement = json!({ "spreadConstraints": constraints });
    let invalid = policy(
        "invalid",
        json!({ "resourceSelectors": selectors, "placement": placement }),
    );
    let refusal = policies
        .create(&parameters, &invalid)
        .await
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("validate.policies.io"), "{refusal}");
    assert!(refusal.contains("maxGroups"), "{refusal}");
    bare.stop().await;
}

/// The webhook server charges bindings to the quota of their namespace, and refuses the binding that exceeds the quota.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_refuses_bindings_beyond_a_quota_by_the_webhook() {
    let bare = BareControlPlane::start(&[]).await;
    add_system_namespace(&bare).await;
    let program = start_with_quotas(&bare);
    let address = address(&program).await;
    ready(&program).await;
    let secret = certificates(&bare).await;
    let authority = STANDARD.encode(&secret.data.unwrap()["ca.crt"].0);
    let url = format!("https://{address}/validate-resourcebinding");
    let hook = json!({
        "name": "resourcebinding.karmada.io",
        "clientConfig": { "url": url, "caBundle": authority },
        "rules": [{ "operations": ["CREATE", "UPDATE"], "apiGroups": ["work.karmada.io"],
                    "apiVersions": ["*"], "resources": ["resourcebindings"] }],
        "failurePolicy": "Fail", "sideEffects": "NoneOnDryRun", "admissionReviewVersions": ["v1"],
    });
    let parameters = PostParams::default();
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(bare.client.clone());
    let configuration = object(json!({ "metadata": { "name": "bindings" }, "webhooks": [hook] }));
    validating
        .create(&parameters, &configuration)
        .await
        .unwrap();

    let quotas: Api<FederatedResourceQuota> = Api::namespaced(bare.client.clone(), "default");
    let quota = object(json!({
        "metadata": { "name": "team" }, "spec": { "overall": { "cpu": "1" } },
    }));
    quotas.create(&parameters, &quota).await.unwrap();
    let bindings: Api<ResourceBinding> = Api::namespaced(bare.client.clone(), "default");
    let binding = |name: &str| -> ResourceBinding {
        object(json!({ "metadata": { "name": name }, "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "replicaRequirements": { "resourceRequest": { "cpu": "600m" } },
            "clusters": [{ "name": "m1", "replicas": 1 }],
        } }))
    };
    bindings.create(&parameters, &binding("web")).await.unwrap();
    let refusal = bindings.create(&parameters, &binding("api")).await;
    let Err(kube::Error::Api(status)) = refusal else {
        panic!("{refusal:?}");
    };
    assert_eq!((status.code, &*status.reason), (403, "QuotaExceeded"));
    let expected = "admission webhook \"resourcebinding.karmada.io\" denied the request: \
                    FederatedResourceQuota(default/team) exceeded for resource cpu: \
                    requested sum 1200m, limit 1.";
    assert_eq!(status.message, expected);
    let used = quotas
        .get("team")
        .await
        .unwrap()
        .status
        .unwrap()
        .overall_used;
    assert_eq!(used["cpu"].0, "600m");
    bare.stop().await;
}

/// Two replicas of the webhook server use one certificate from a Secret. The replicas write the authority of this
/// certificate into the webhook configurations for their own Service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_a_certificate_and_publish_its_authority() {
    let bare = BareControlPlane::start(&[]).await;
    add_system_namespace(&bare).await;
    let call = json!({ "service": { "namespace": "karmada-system", "name": "karmada-webhook",
                                    "path": "/validate-propagationpolicy" } });
    let other = json!({ "service": { "namespace": "other", "name": "other" } });
    let configuration = json!({ "metadata": { "name": "validating-config" },
        "webhooks": [hook("own.policies.io", call), hook("other.policies.io", other)] });
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(bare.client.clone());
    let parameters = PostParams::default();
    validating
        .create(&parameters, &object(configuration))
        .await
        .unwrap();
    let replicas = [start(&bare), start(&bare)];
    for replica in &replicas {
        address(replica).await;
    }
    let secret = certificates(&bare).await;
    let authority = secret.data.unwrap()["ca.crt"].clone();
    eventually("the CA bundle", async || {
        let written = validating.get("validating-config").await.unwrap();
        let bundles: Vec<_> = written.webhooks.into_iter().flatten().collect();
        let [own, other] = bundles.as_slice() else {
            return Err(format!("{bundles:?}"));
        };
        assert_eq!(
            other.client_config.ca_bundle, None,
            "the webhook of another Service must get no CA bundle"
        );
        if own.client_config.ca_bundle.as_ref() == Some(&authority) {
            Ok(())
        } else {
            Err(format!("{own:?}"))
        }
    })
    .await;
    // The replica that did not write the Secret serves with the certificate of the Secret, too.
    for replica in &replicas {
        ready(replica).await;
    }
    let logs: String = replicas.iter().map(Program::log).collect();
    assert_eq!(
        logs.matches("issued a new certificate").count(),
        1,
        "{logs}"
    );
    bare.stop().await;
}
