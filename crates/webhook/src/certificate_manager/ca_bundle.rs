//! The writer of the CA bundle in the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

use std::fmt::Debug;

use berth_apimachinery::namespaced_name::NamespacedName;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration.
pub(super) trait WebhookConfiguration:
    Clone
    + Debug
    + DeserializeOwned
    + Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
{
    /// Returns the name and the client configuration of each webhook.
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)>;
}

impl WebhookConfiguration for MutatingWebhookConfiguration {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let all = self.webhooks.iter().flatten();
        all.map(|webhook| (webhook.name.as_str(), &webhook.client_config))
            .collect()
    }
}

impl WebhookConfiguration for ValidatingWebhookConfiguration {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let all = self.webhooks.iter().flatten();
        all.map(|webhook| (webhook.name.as_str(), &webhook.client_config))
            .collect()
    }
}

/// Writes a CA bundle into each webhook of a configuration that calls the Service. Does nothing if the configuration is
/// not installed.
pub(super) async fn write_ca_bundle<K: WebhookConfiguration>(
    client: &Client,
    name: &str,
    service: &NamespacedName,
    bundle: &str,
) -> Result<(), kube::Error> {
    let configurations: Api<K> = Api::all(client.clone());
    let Some(configuration) = configurations.get_opt(name).await? else {
        tracing::debug!(
            configuration = name,
            "the webhook configuration is not installed"
        );
        return Ok(());
    };
    let Some(patch) = patch(&configuration.webhooks(), service, bundle) else {
        return Ok(());
    };
    configurations
        .patch(name, &PatchParams::default(), &Patch::Strategic(patch))
        .await?;
    tracing::info!(configuration = name, "wrote the CA bundle");
    Ok(())
}

/// Returns a strategic merge patch, or `None` if nothing changes. The API server merges the webhooks of the patch by
/// name.
fn patch(
    webhooks: &[(&str, &WebhookClientConfig)],
    service: &NamespacedName,
    bundle: &str,
) -> Option<Value> {
    let bundle = ByteString(bundle.as_bytes().to_vec());
    let changed: Vec<Value> = webhooks
        .iter()
        .filter(|(_, call)| calls(call, service) && call.ca_bundle.as_ref() != Some(&bundle))
        .map(|(name, _)| json!({ "name": name, "clientConfig": { "caBundle": bundle } }))
        .collect();
    (!changed.is_empty()).then(|| json!({ "webhooks": changed }))
}

/// Reports whether a webhook calls a Service, by reference or by the DNS name in its URL.
fn calls(call: &WebhookClientConfig, service: &NamespacedName) -> bool {
    let NamespacedName { namespace, name } = service;
    if let Some(reference) = &call.service {
        return reference.namespace == *namespace && reference.name == *name;
    }
    let host = call.url.as_deref().and_then(|url| {
        let authority = url.strip_prefix("https://")?.split('/').next()?;
        authority.split(':').next()
    });
    let full = format!("{name}.{namespace}.svc");
    host.is_some_and(|host| {
        host.strip_prefix(&full)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_webhooks_that_call_the_service_get_the_bundle() {
        let service = NamespacedName {
            namespace: "karmada-system".to_owned(),
            name: "karmada-webhook".to_owned(),
        };
        let reference = |namespace: &str, name: &str| json!({ "service": { "namespace": namespace, "name": name } });
        for (call, expected) in [
            (reference("karmada-system", "karmada-webhook"), true),
            (reference("karmada-system", "other"), false),
            (reference("other", "karmada-webhook"), false),
            (
                json!({ "url": "https://karmada-webhook.karmada-system.svc:443/mutate-work" }),
                true,
            ),
            (
                json!({ "url": "https://karmada-webhook.karmada-system.svc.cluster.local/mutate-work" }),
                true,
            ),
            (
                json!({ "url": "https://karmada-webhook.karmada-system.svcx/mutate-work" }),
                false,
            ),
            (json!({ "url": "https://example.org/mutate-work" }), false),
        ] {
            let call: WebhookClientConfig = serde_json::from_value(call).unwrap();
            let patch = patch(&[("a", &call)], &service, "bundle");
            assert_eq!(patch.is_some(), expected, "{call:?}");
            let written = WebhookClientConfig {
                ca_bundle: Some(ByteString(b"bundle".to_vec())),
                ..call
            };
            assert_eq!(super::patch(&[("a", &written)], &service, "bundle"), None);
        }
    }
}
