//! The watch of all templates of one kind. It sends updates to the cache of templates.

use std::collections::HashMap;
use std::time::Duration;

use berth_apimachinery::api_error::is_unreachable;
use futures::StreamExt as _;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, watcher};

use super::qos::QosClass;
use super::{LABELS, Source, TemplateKey, TemplateProperties, Templates, Update};

/// Pause after the first failure. Each further failure doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Watches the templates of one kind until the token is cancelled.
pub(super) async fn run(templates: Templates, source: Source, gvk: GroupVersionKind) {
    let stopping = source.stopping.clone();
    tokio::select! {
        () = stopping.cancelled() => {}
        () = watch(&templates, &source, &gvk) => {}
    }
}

async fn watch(templates: &Templates, source: &Source, gvk: &GroupVersionKind) {
    let mut failure = Failure::of(gvk);
    let resource = loop {
        match kube::discovery::pinned_kind(&source.client, gvk).await {
            Ok((resource, _)) => break resource,
            Err(error) => {
                let why = error.to_string();
                failure
                    .report(templates, &why, is_unreachable(&error))
                    .await;
            }
        }
    };
    let api: Api<DynamicObject> = Api::all_with(source.client.clone(), &resource);
    let mut stream = watcher(api, watcher::Config::default()).boxed();
    let mut list: HashMap<TemplateKey, TemplateProperties> = HashMap::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                // A list that has started may still fail.
                if !matches!(event, watcher::Event::Init) {
                    failure.reset();
                }
                match event {
                    watcher::Event::Init => list.clear(),
                    watcher::Event::InitApply(object) => {
                        list.insert(key_of(&object), properties_of(&object));
                    }
                    watcher::Event::InitDone => {
                        templates.update(gvk, Update::All(std::mem::take(&mut list)));
                    }
                    watcher::Event::Apply(object) => {
                        templates.update(
                            gvk,
                            Update::One(key_of(&object), Some(properties_of(&object))),
                        );
                    }
                    watcher::Event::Delete(object) => {
                        templates.update(gvk, Update::One(key_of(&object), None));
                    }
                }
            }
            Err(error) => {
                let why = describe(&error, &resource);
                failure
                    .report(templates, &why, is_unreachable(&error))
                    .await;
            }
        }
    }
}

/// The failures of one watch. An error that repeats is logged only once.
struct Failure<'a> {
    gvk: &'a GroupVersionKind,
    pause: Duration,
    logged: String,
}

impl<'a> Failure<'a> {
    fn of(gvk: &'a GroupVersionKind) -> Self {
        Self {
            gvk,
            pause: FIRST_PAUSE,
            logged: String::new(),
        }
    }

    /// Logs a new failure and reports it to the cache. Then pauses.
    async fn report(&mut self, templates: &Templates, why: &str, unreachable: bool) {
        if self.logged != why {
            let kind = &self.gvk.kind;
            if unreachable {
                tracing::debug!(kind, error = why, "cannot read templates; trying again");
            } else {
                tracing::warn!(kind, error = why, "cannot read templates; trying again");
            }
            templates.update(self.gvk, Update::Failed(why.to_owned()));
            why.clone_into(&mut self.logged);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn reset(&mut self) {
        *self = Self::of(self.gvk);
    }
}

/// Describes a watch error. If the scheduler lacks a permission, the text names the manifest that grants it.
fn describe(error: &watcher::Error, resource: &ApiResource) -> String {
    let verb = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 403 => "list",
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 403 => "watch",
        watcher::Error::WatchError(status) if status.code == 403 => "watch",
        other => return other.to_string(),
    };
    let ApiResource { group, plural, .. } = resource;
    let dot = if group.is_empty() { "" } else { "." };
    format!(
        "the scheduler may not {verb} {plural}{dot}{group}: grant it as \
         deploy/scheduler/optional/templates.yaml does"
    )
}

fn key_of(object: &DynamicObject) -> TemplateKey {
    let metadata = &object.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

fn properties_of(object: &DynamicObject) -> TemplateProperties {
    let labels = object.metadata.labels.as_ref();
    TemplateProperties {
        labels: LABELS
            .into_iter()
            .filter_map(|name| Some((name, labels?.get(name)?.clone())))
            .collect(),
        qos: QosClass::of_template(&object.data),
    }
}
