//! A parser of the ConfigMap that `--config-map` names. The ConfigMap declares profiles and extenders in the format of
//! the configuration file.

use berth_apimachinery::api_error::api_error_message;
use berth_apimachinery::namespaced_name::NamespacedName;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;

use super::configuration::{ClientConnection, LeaderElection};
use super::declared_profiles::{DeclaredProfiles, ProfileFlags};
use super::document::{ConfigError, Document};
use super::kube_scheduler;

/// The key of the configuration in the ConfigMap.
const KEY: &str = "config.yaml";

/// The reason why the scheduler cannot start with a ConfigMap.
#[derive(Debug, thiserror::Error)]
pub enum ConfigMapError {
    /// The ConfigMap cannot be read.
    #[error("--config-map {name}: {}", describe(source))]
    Unreadable {
        /// The name of the ConfigMap.
        name: NamespacedName,
        /// The error of the request.
        source: Box<kube::Error>,
    },
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Describes a failed request. If permissions are missing, the description names the manifest that grants them.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => format!(
            "{}: grant it as deploy/scheduler/optional/config-map.yaml does",
            status.message
        ),
        other => api_error_message(other),
    }
}

/// Reads the ConfigMap once. Returns the declared profiles and extenders, and the text of the configuration.
///
/// # Errors
/// If the ConfigMap is missing or its content is invalid.
pub(crate) async fn read(
    client: &kube::Client,
    name: &NamespacedName,
    flags: &ProfileFlags,
) -> Result<(DeclaredProfiles, Option<String>), ConfigMapError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &name.namespace);
    let object = api
        .get(&name.name)
        .await
        .map_err(|source| ConfigMapError::Unreadable {
            name: name.clone(),
            source: Box::new(source),
        })?;
    let declared = declared_in(name, &object, flags)?;
    Ok((declared, text_of(&object).map(str::to_owned)))
}

/// Parses the profiles and extenders that a ConfigMap declares. `flags` override the ConfigMap.
pub(crate) fn declared_in(
    name: &NamespacedName,
    object: &ConfigMap,
    flags: &ProfileFlags,
) -> Result<DeclaredProfiles, ConfigError> {
    let source_name = format!("ConfigMap {name}, {KEY}");
    let Some(text) = text_of(object) else {
        return Err(ConfigError {
            source_name: format!("ConfigMap {name}"),
            position: None,
            path: String::new(),
            message: format!("it has no key {KEY}"),
        });
    };
    let document = Document::read(&source_name, text)?;
    let configuration = kube_scheduler::read(&document)?;
    for (field, is_set) in [
        (
            "leaderElection",
            configuration.leader_election != LeaderElection::default(),
        ),
        (
            "clientConnection",
            configuration.client_connection != ClientConnection::default(),
        ),
        (
            "healthProbeBindAddress",
            configuration.health_probe_bind_address.is_some(),
        ),
        (
            "metricsBindAddress",
            configuration.metrics_bind_address.is_some(),
        ),
    ] {
        if is_set {
            let message = "cannot change while the scheduler runs: move it to the file of --config, or use flags";
            return Err(document.error(field, message));
        }
    }
    DeclaredProfiles::from_document(document, configuration, flags.clone())
}

pub(crate) fn text_of(object: &ConfigMap) -> Option<&str> {
    object.data.as_ref()?.get(KEY).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rejection(text: &str) -> String {
        let object: ConfigMap = serde_json::from_value(json!({ "data": { KEY: text } })).unwrap();
        let name = "berth/config".parse().unwrap();
        declared_in(&name, &object, &ProfileFlags::default())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn invalid_config_maps_are_rejected() {
        let head = "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\n";
        let error = rejection(&format!("{head}leaderElection:\n  leaderElect: false\n"));
        assert!(
            error.starts_with(
                "ConfigMap berth/config, config.yaml:3:1: leaderElection: cannot change"
            ),
            "{error}"
        );
        let error = rejection(&format!("{head}profile: []\n"));
        assert!(
            error.starts_with(
                "ConfigMap berth/config, config.yaml:3:1: profile: unknown field `profile`"
            ),
            "{error}"
        );
        let name = "berth/config".parse().unwrap();
        let error =
            declared_in(&name, &ConfigMap::default(), &ProfileFlags::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ConfigMap berth/config: it has no key config.yaml"
        );
    }
}
