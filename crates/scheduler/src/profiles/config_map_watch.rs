//! A watch of the ConfigMap that `--config-map` names. The watch applies changes of the configuration while the
//! scheduler runs.
//!
//! A valid configuration replaces the previous configuration completely. An invalid configuration changes nothing. In
//! both cases the leader records an event on the ConfigMap. The event names the first active profile as its reporter.

use std::time::Duration;

use berth_apimachinery::namespaced_name::NamespacedName;
use berth_component_base::list_watch;
use berth_events::{EventRecorder, Note, Severity};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::Resource as _;
use kube::api::Api;
use kube::runtime::watcher::Event;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::builder::{ActiveConfig, FrameworkBuilder};
use crate::config::config_map::{declared_in, text_of};
use crate::config::{Effective, ProfileFlags};

/// Maximum pause after a failed request.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A new configuration that the scheduler must use.
#[derive(Debug)]
pub(crate) struct ConfigChange {
    pub(crate) config: Box<ActiveConfig>,
    /// Channel that is notified when the next decision will use the new configuration.
    pub(crate) applied: oneshot::Sender<()>,
}

/// The watch of the ConfigMap.
pub(crate) struct ConfigMapWatch {
    pub(crate) name: NamespacedName,
    pub(crate) flags: ProfileFlags,
    pub(crate) builder: FrameworkBuilder,
    pub(crate) recorder: EventRecorder,
    pub(crate) effective: Effective,
    /// True while this process is the leader. Only the leader records events.
    pub(crate) leading: tokio::sync::watch::Receiver<bool>,
    pub(crate) changes: mpsc::Sender<ConfigChange>,
    /// The last text that the watch read, valid or invalid.
    pub(crate) seen: Option<String>,
    /// Duration of each watch request.
    pub(crate) watch_timeout: Duration,
}

impl ConfigMapWatch {
    /// Watches the ConfigMap until the token is cancelled.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        let api: Api<ConfigMap> =
            Api::namespaced(self.builder.client.clone(), &self.name.namespace);
        let config = list_watch::Config {
            fields: Some(format!("metadata.name={}", self.name.name)),
            watch: self.watch_timeout,
            longest_pause: LONGEST_PAUSE,
            ..list_watch::Config::default()
        };
        let mut events = list_watch::events(api, config);
        loop {
            let event = tokio::select! {
                () = cancel.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                None => return,
                Some(Ok(Event::Apply(object) | Event::InitApply(object))) => {
                    tokio::select! {
                        () = cancel.cancelled() => return,
                        () = self.apply(&object) => {}
                    }
                }
                Some(Ok(Event::Delete(_))) => {
                    tracing::warn!(name = %self.name, "the ConfigMap was deleted; its last configuration stays in force");
                }
                Some(Ok(Event::Init | Event::InitDone) | Err(_)) => {}
            }
        }
    }

    /// Builds the configuration in the ConfigMap and sends it to the scheduler, if its text has changed.
    async fn apply(&mut self, object: &ConfigMap) {
        let text = text_of(object).map(str::to_owned);
        if text == self.seen {
            return;
        }
        self.seen = text;
        let built = declared_in(&self.name, object, &self.flags)
            .and_then(|declared| self.builder.build(&declared));
        let config = match built {
            Ok(config) => Box::new(config),
            Err(error) => {
                tracing::error!(%error, "the new configuration is invalid; the previous configuration stays in force");
                let scheduler_name = self.effective.first_name();
                self.note(
                    &scheduler_name,
                    object,
                    Severity::Warning,
                    "ConfigurationRefused",
                    format!("{error}; the previous configuration stays in force"),
                );
                return;
            }
        };
        let (profiles, extenders) = (
            config.profiles.clone(),
            config.declared.extenders().to_vec(),
        );
        let names: Vec<&str> = profiles
            .iter()
            .filter_map(|profile| profile.scheduler_name.as_deref())
            .collect();
        let names = names.join(", ");
        let (applied, is_applied) = oneshot::channel();
        let sent = self.changes.send(ConfigChange { config, applied }).await;
        if sent.is_err() || is_applied.await.is_err() {
            // The scheduler is shutting down.
            return;
        }
        self.effective.set(profiles, extenders);
        tracing::info!(
            profiles = names,
            "Using component config\n{}",
            self.effective.yaml()
        );
        let message = format!("the next decision uses the new configuration (profiles: {names})");
        let scheduler_name = self.effective.first_name();
        self.note(
            &scheduler_name,
            object,
            Severity::Normal,
            "ConfigurationReloaded",
            message,
        );
    }

    /// Records an event about the ConfigMap if this process is the leader. `scheduler_name` is the reporter of the
    /// event.
    fn note(
        &self,
        scheduler_name: &str,
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
            self.recorder
                .of(scheduler_name)
                .record(note.about(reference));
        }
    }
}
