//! Dependencies of templates. A pod depends on its ConfigMaps, Secrets, ServiceAccount and volume claims. An Ingress
//! depends on its certificates, and a ServiceImport on its Service and EndpointSlices.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::dependency::DependentObjectReference;
use berth_api::label_selector::LabelSelector;
use berth_apimachinery::json_fields::{kind_of, text_at};
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, PodSpec, Volume};
use serde_json::Value;

use super::workloads::Workload;
use crate::InterpretError;

/// The ConfigMap with the cluster's CA certificate, which exists in every namespace.
const ROOT_CA: &str = "kube-root-ca.crt";
/// The ServiceAccount that exists in every namespace.
const DEFAULT_ACCOUNT: &str = "default";
/// The label of an EndpointSlice that contains the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The names that a pod references, by kind.
#[derive(Debug, Default)]
struct References {
    config_maps: BTreeSet<String>,
    secrets: BTreeSet<String>,
    service_accounts: BTreeSet<String>,
    claims: BTreeSet<String>,
}

/// Returns the dependencies of a pod template in a namespace.
///
/// # Errors
/// When the template is malformed.
pub(crate) fn pod_dependencies(
    template: &Value,
    namespace: &str,
) -> Result<Vec<DependentObjectReference>, InterpretError> {
    let pod = pod_spec(template.get("spec"), "PodTemplateSpec")?;
    Ok(References::of(pod).into_list(namespace))
}

fn pod_spec(pod: Option<&Value>, kind: &str) -> Result<PodSpec, InterpretError> {
    match pod {
        None | Some(Value::Null) => Ok(PodSpec::default()),
        Some(pod) => serde_json::from_value(pod.clone()).map_err(|source| InterpretError::Shape {
            kind: kind.to_owned(),
            source,
        }),
    }
}

/// Returns the dependencies of a template, grouped by kind and sorted by name. Returns `None` for kinds without a rule.
///
/// # Errors
/// When the template is malformed.
pub(crate) fn dependencies(
    template: &Value,
) -> Result<Option<Vec<DependentObjectReference>>, InterpretError> {
    let (api_version, kind) = kind_of(template);
    let namespace = text_at(template, "/metadata/namespace");
    let Some(workload) = Workload::of(api_version, kind) else {
        return Ok(match (api_version, kind) {
            ("networking.k8s.io/v1", "Ingress") => Some(certificates(template, namespace)),
            ("multicluster.x-k8s.io/v1alpha1", "ServiceImport") => {
                let name = text_at(template, "/metadata/name");
                Some(imported_service(name, namespace))
            }
            _ => None,
        });
    };
    let pod = pod_spec(template.pointer(workload.pod_spec), kind)?;
    let mut references = References::of(pod);
    if kind == "StatefulSet" {
        // The StatefulSet controller of the member creates these claims for each replica.
        let templates = template.pointer("/spec/volumeClaimTemplates");
        for claim in templates.and_then(Value::as_array).into_iter().flatten() {
            let name = claim.pointer("/metadata/name").and_then(Value::as_str);
            references.claims.remove(name.unwrap_or_default());
        }
    }
    Ok(Some(references.into_list(namespace)))
}

impl References {
    fn of(pod: PodSpec) -> Self {
        let mut references = Self::default();
        for reference in pod.image_pull_secrets.into_iter().flatten() {
            references.secrets.insert(reference.name);
        }
        for container in pod
            .containers
            .into_iter()
            .chain(pod.init_containers.into_iter().flatten())
        {
            references.add_environment(container.env_from, container.env);
        }
        for container in pod.ephemeral_containers.into_iter().flatten() {
            references.add_environment(container.env_from, container.env);
        }
        for volume in pod.volumes.into_iter().flatten() {
            references.add_volume(volume);
        }
        // Every namespace of a member has its own `kube-root-ca.crt`.
        references.config_maps.remove(ROOT_CA);
        let account = pod.service_account_name;
        references
            .service_accounts
            .extend(account.filter(|name| name != DEFAULT_ACCOUNT));
        for names in [
            &mut references.config_maps,
            &mut references.secrets,
            &mut references.service_accounts,
            &mut references.claims,
        ] {
            names.remove("");
        }
        references
    }

    fn add_environment(
        &mut self,
        sources: Option<Vec<EnvFromSource>>,
        variables: Option<Vec<EnvVar>>,
    ) {
        for source in sources.into_iter().flatten() {
            self.config_maps
                .extend(source.config_map_ref.map(|reference| reference.name));
            self.secrets
                .extend(source.secret_ref.map(|reference| reference.name));
        }
        for source in variables.into_iter().flatten().filter_map(|v| v.value_from) {
            self.config_maps
                .extend(source.config_map_key_ref.map(|key| key.name));
            self.secrets
                .extend(source.secret_key_ref.map(|key| key.name));
        }
    }

    fn add_volume(&mut self, volume: Volume) {
        self.config_maps
            .extend(volume.config_map.map(|source| source.name));
        self.claims.extend(
            volume
                .persistent_volume_claim
                .map(|source| source.claim_name),
        );
        for source in volume.projected.and_then(|p| p.sources).unwrap_or_default() {
            self.config_maps
                .extend(source.config_map.map(|source| source.name));
            self.secrets.extend(source.secret.map(|source| source.name));
        }
        let references = [
            volume.cephfs.and_then(|source| source.secret_ref),
            volume.cinder.and_then(|source| source.secret_ref),
            volume.flex_volume.and_then(|source| source.secret_ref),
            volume.rbd.and_then(|source| source.secret_ref),
            volume.scale_io.map(|source| source.secret_ref),
            volume.iscsi.and_then(|source| source.secret_ref),
            volume.storageos.and_then(|source| source.secret_ref),
            volume.csi.and_then(|source| source.node_publish_secret_ref),
        ];
        self.secrets
            .extend(references.into_iter().flatten().map(|found| found.name));
        self.secrets
            .extend(volume.azure_file.map(|source| source.secret_name));
        self.secrets
            .extend(volume.secret.and_then(|source| source.secret_name));
    }

    fn into_list(self, namespace: &str) -> Vec<DependentObjectReference> {
        let kinds = [
            ("ConfigMap", self.config_maps),
            ("Secret", self.secrets),
            ("ServiceAccount", self.service_accounts),
            ("PersistentVolumeClaim", self.claims),
        ];
        kinds
            .into_iter()
            .flat_map(|(kind, names)| {
                names
                    .into_iter()
                    .map(|name| reference_to("v1", kind, namespace, name))
            })
            .collect()
    }
}

fn reference_to(
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: String,
) -> DependentObjectReference {
    DependentObjectReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name,
        label_selector: None,
    }
}

/// Returns the Secrets that contain the certificates of an Ingress.
fn certificates(ingress: &Value, namespace: &str) -> Vec<DependentObjectReference> {
    let entries = ingress.pointer("/spec/tls").and_then(Value::as_array);
    let names: BTreeSet<&str> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["secretName"].as_str())
        .filter(|name| !name.is_empty())
        .collect();
    names
        .into_iter()
        .map(|name| reference_to("v1", "Secret", namespace, name.to_owned()))
        .collect()
}

/// Returns the Service that is derived from a ServiceImport, and the EndpointSlices of this Service.
fn imported_service(name: &str, namespace: &str) -> Vec<DependentObjectReference> {
    let service = format!("derived-{name}");
    let slices = DependentObjectReference {
        label_selector: Some(LabelSelector {
            match_labels: BTreeMap::from([(SERVICE_NAME.to_owned(), service.clone())]),
            match_expressions: Vec::new(),
        }),
        ..reference_to(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            namespace,
            String::new(),
        )
    };
    vec![reference_to("v1", "Service", namespace, service), slices]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(api_version: &str, kind: &str, spec: Value) -> Vec<String> {
        let template = json!({ "apiVersion": api_version, "kind": kind,
            "metadata": { "name": "web", "namespace": "shop" }, "spec": spec });
        let found = dependencies(&template).unwrap().unwrap();
        found
            .into_iter()
            .map(|reference| {
                assert_eq!(reference.namespace, "shop");
                format!("{} {}", reference.kind, reference.name)
            })
            .collect()
    }

    fn pod() -> Value {
        json!({
            "imagePullSecrets": [{ "name": "pull" }],
            "serviceAccountName": "robot",
            "initContainers": [{ "name": "i", "envFrom": [{ "secretRef": { "name": "init" } }] }],
            "containers": [{ "name": "c",
                "envFrom": [{ "configMapRef": { "name": "env" } }],
                "env": [
                    { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "key", "key": "a" } } },
                    { "name": "B", "valueFrom": { "secretKeyRef": { "name": "password", "key": "b" } } },
                    { "name": "C", "value": "plain" }] }],
            "ephemeralContainers": [{ "name": "e", "envFrom": [{ "configMapRef": { "name": "debug" } }] }],
            "volumes": [
                { "name": "a", "configMap": { "name": "files" } },
                { "name": "b", "secret": { "secretName": "tls" } },
                { "name": "c", "projected": { "sources": [
                    { "configMap": { "name": "kube-root-ca.crt" } },
                    { "configMap": { "name": "projected" } }, { "secret": { "name": "shown" } }] } },
                { "name": "d", "persistentVolumeClaim": { "claimName": "data" } },
                { "name": "e", "csi": { "driver": "d", "nodePublishSecretRef": { "name": "publish" } } },
                { "name": "f", "azureFile": { "secretName": "azure", "shareName": "s" } },
                { "name": "g", "emptyDir": {} }],
        })
    }

    #[test]
    fn every_reference_of_a_pod_is_found_once() {
        let mut twice = pod();
        twice["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "again", "envFrom": [{ "configMapRef": { "name": "env" } }] }));
        let expected = [
            "ConfigMap debug",
            "ConfigMap env",
            "ConfigMap files",
            "ConfigMap key",
            "ConfigMap projected",
            "Secret azure",
            "Secret init",
            "Secret password",
            "Secret publish",
            "Secret pull",
            "Secret shown",
            "Secret tls",
            "ServiceAccount robot",
            "PersistentVolumeClaim data",
        ];
        assert_eq!(of("v1", "Pod", twice), expected);
        let template = json!({ "template": { "spec": pod() } });
        for (api_version, kind) in [
            ("apps/v1", "Deployment"),
            ("apps/v1", "ReplicaSet"),
            ("apps/v1", "StatefulSet"),
            ("apps/v1", "DaemonSet"),
            ("batch/v1", "Job"),
        ] {
            assert_eq!(of(api_version, kind, template.clone()), expected, "{kind}");
        }
        let nested = json!({ "jobTemplate": { "spec": template } });
        assert_eq!(of("batch/v1", "CronJob", nested), expected);
    }

    #[test]
    fn objects_that_the_member_creates_are_left_out() {
        let claims = json!({
            "template": { "spec": { "containers": [], "serviceAccountName": "default", "volumes": [
                { "name": "a", "persistentVolumeClaim": { "claimName": "each" } },
                { "name": "b", "persistentVolumeClaim": { "claimName": "shared" } }] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "each" } }] });
        assert_eq!(
            of("apps/v1", "StatefulSet", claims),
            ["PersistentVolumeClaim shared"]
        );
        assert_eq!(of("apps/v1", "Deployment", json!({})), Vec::<String>::new());
    }

    #[test]
    fn ingresses_depend_on_certificates_and_imports_on_services() {
        let tls =
            json!({ "tls": [{ "secretName": "b" }, { "hosts": ["x"] }, { "secretName": "a" }] });
        assert_eq!(
            of("networking.k8s.io/v1", "Ingress", tls),
            ["Secret a", "Secret b"]
        );
        let import = json!({ "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
            "metadata": { "name": "web", "namespace": "shop" } });
        let found = dependencies(&import).unwrap().unwrap();
        assert_eq!(found[0].name, "derived-web");
        let slices = found[1].label_selector.as_ref().unwrap();
        assert_eq!(slices.match_labels[SERVICE_NAME], "derived-web");
    }

    #[test]
    fn other_kinds_have_no_rule_and_malformed_templates_are_errors() {
        let custom = json!({ "apiVersion": "example.io/v1", "kind": "Deployment" });
        assert!(dependencies(&custom).unwrap().is_none());
        let odd = json!({ "apiVersion": "v1", "kind": "Pod", "spec": { "containers": 7 } });
        assert!(dependencies(&odd).is_err());
    }
}
