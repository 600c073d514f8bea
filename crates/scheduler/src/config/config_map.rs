//! The ConfigMap that declares profiles and extenders. It is read at start and watched.
//!
//! A valid change is applied as a whole; an invalid one is ignored. Either way the first profile in force records an event on
//! the ConfigMap.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use berth_apimachinery::api_error::{api_error_message, is_unreachable};
use berth_events::{EventRecorder, Note, Severity};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::Resource as _;
use kube::api::Api;
use kube::runtime::watcher::{self, watcher};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::configuration::{ClientConnection, LeaderElection};
use super::declared::{Declared, ProfileFlags};
use super::document::{ConfigError, Document};
use super::effective::Effective;
use super::kube_scheduler;
use crate::framework::assembly::{Assembly, Lineup};

/// The key of the configuration in the ConfigMap.
const KEY: &str = "config.yaml";
/// The pause after the watch broke.
const PAUSE: Duration = Duration::from_secs(1);

/// The name of a ConfigMap, in the form `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapName {
    namespace: String,
    name: String,
}

impl FromStr for ConfigMapName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("must be NAMESPACE/NAME".to_owned()),
        }
    }
}

impl fmt::Display for ConfigMapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The reason why a ConfigMap cannot be used at start.
#[derive(Debug, thiserror::Error)]
pub enum ConfigMapError {
    /// The ConfigMap cannot be read.
    #[error("--config-map {name}: {}", describe(source))]
    Unreadable {
        /// Its name.
        name: ConfigMapName,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Describes an error. For missing permissions, names the manifest that grants them.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => format!(
            "{}: grant it as deploy/scheduler/optional/config-map.yaml does",
            status.message
        ),
        other => api_error_message(other),
    }
}

/// A new configuration for the owner of the state to take over.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) lineup: Box<Lineup>,
    /// To be told when the next decision is made by it.
    pub(crate) taken: oneshot::Sender<()>,
}

/// Reads the ConfigMap once. Returns what it declares, and its text.
///
/// # Errors
/// If it is missing or invalid.
pub(crate) async fn read(
    client: &kube::Client,
    name: &ConfigMapName,
    flags: &ProfileFlags,
) -> Result<(Declared, Option<String>), ConfigMapError> {
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

/// Parses what a ConfigMap declares.
fn declared_in(
    name: &ConfigMapName,
    object: &ConfigMap,
    flags: &ProfileFlags,
) -> Result<Declared, ConfigError> {
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
    Declared::from_document(document, configuration, flags.clone())
}

fn text_of(object: &ConfigMap) -> Option<&str> {
    object.data.as_ref()?.get(KEY).map(String::as_str)
}

/// Watches the ConfigMap.
pub(crate) struct Reload {
    pub(crate) name: ConfigMapName,
    pub(crate) flags: ProfileFlags,
    pub(crate) assembly: Assembly,
    pub(crate) recorder: EventRecorder,
    pub(crate) effective: Effective,
    /// Only the leader speaks of changes.
    pub(crate) leading: tokio::sync::watch::Receiver<bool>,
    pub(crate) changes: mpsc::Sender<Change>,
    /// What was read last, right or wrong.
    pub(crate) seen: Option<String>,
    /// How long a watch lasts.
    pub(crate) lasts: Duration,
}

impl Reload {
    /// Watches until the token is cancelled or nobody takes changes any more.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        let api: Api<ConfigMap> =
            Api::namespaced(self.assembly.client.clone(), &self.name.namespace);
        let seconds = u32::try_from(self.lasts.as_secs()).unwrap_or(u32::MAX);
        let config = watcher::Config::default()
            .fields(&format!("metadata.name={}", self.name.name))
            .timeout(seconds);
        let mut events = watcher(api, config).boxed();
        loop {
            let event = tokio::select! {
                () = cancel.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                None => return,
                Some(Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object))) => {
                    tokio::select! {
                        () = cancel.cancelled() => return,
                        () = self.take(&object) => {}
                    }
                }
                Some(Ok(watcher::Event::Delete(_))) => {
                    tracing::warn!(name = %self.name, "the ConfigMap is gone; its last configuration stays in force");
                }
                Some(Ok(watcher::Event::Init | watcher::Event::InitDone)) => {}
                Some(Err(error)) => {
                    if is_unreachable(&error) {
                        tracing::debug!(name = %self.name, %error, "the watch of the ConfigMap broke; trying again");
                    } else {
                        tracing::warn!(name = %self.name, %error, "the watch of the ConfigMap broke; trying again");
                    }
                    tokio::select! {
                        () = cancel.cancelled() => return,
                        () = tokio::time::sleep(PAUSE) => {}
                    }
                }
            }
        }
    }

    async fn take(&mut self, object: &ConfigMap) {
        let text = text_of(object).map(str::to_owned);
        if text == self.seen {
            return;
        }
        self.seen = text;
        let made = declared_in(&self.name, object, &self.flags)
            .and_then(|declared| self.assembly.assemble(&declared));
        let lineup = match made {
            Ok(lineup) => Box::new(lineup),
            Err(error) => {
                tracing::error!(%error, "the configuration was refused; the one before stays in force");
                let speaker = self.effective.first_name();
                self.note(
                    &speaker,
                    object,
                    Severity::Warning,
                    "ConfigurationRefused",
                    format!("{error}; the configuration before stays in force"),
                );
                return;
            }
        };
        let (profiles, extenders) = (
            lineup.profiles.clone(),
            lineup.declared.extenders().to_vec(),
        );
        let names: Vec<&str> = profiles
            .iter()
            .filter_map(|profile| profile.scheduler_name.as_deref())
            .collect();
        let names = names.join(", ");
        let (taken, is_taken) = oneshot::channel();
        let sent = self.changes.send(Change { lineup, taken }).await;
        if sent.is_err() || is_taken.await.is_err() {
            // The service ends.
            return;
        }
        self.effective.set(profiles, extenders);
        tracing::info!(
            profiles = names,
            "Using component config\n{}",
            self.effective.yaml()
        );
        let message =
            format!("the next decision is made by the new configuration (profiles: {names})");
        let speaker = self.effective.first_name();
        self.note(
            &speaker,
            object,
            Severity::Normal,
            "ConfigurationReloaded",
            message,
        );
    }

    /// Records an event in the name of a profile.
    fn note(
        &self,
        speaker: &str,
        object: &ConfigMap,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        if *self.leading.borrow() {
            let reference: ObjectReference = object.object_ref(&());
            let note = Note {
                severity,
                reason,
                message,
            };
            self.recorder.of(speaker).record(note.about(reference));
        }
    }
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
    fn names_have_a_namespace() {
        let name: ConfigMapName = "a/b".parse().unwrap();
        assert_eq!(name.to_string(), "a/b");
        for invalid in ["a", "/a", "a/", "a/b/c", ""] {
            assert!(invalid.parse::<ConfigMapName>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn fields_that_cannot_change_are_rejected() {
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
