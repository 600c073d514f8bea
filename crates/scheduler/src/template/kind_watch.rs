//! The watch of all templates of one kind. It sends updates to the cache of templates.

use std::collections::HashMap;
use std::time::Duration;

use berth_apimachinery::api_error::is_unreachable;
use berth_component_base::list_watch::{self, Config};
use futures::StreamExt as _;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::Event;

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
                if failure.report(templates, &why) && !is_unreachable(&error) {
                    let kind = &gvk.kind;
                    tracing::warn!(kind, error = why, "cannot read templates; trying again");
                }
                tokio::time::sleep(failure.pause()).await;
            }
        }
    };
    let api: Api<DynamicObject> = Api::all_with(source.client.clone(), &resource);
    let config = Config {
        longest_pause: LONGEST_PAUSE,
        ..Config::default()
    };
    let mut events = list_watch::events(api, config);
    let mut list: HashMap<TemplateKey, TemplateProperties> = HashMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                failure = Failure::of(gvk);
                match event {
                    Event::Init => list.clear(),
                    Event::InitApply(object) => {
                        list.insert(key_of(&object), properties_of(&object));
                    }
                    Event::InitDone => {
                        templates.update(gvk, Update::All(std::mem::take(&mut list)));
                    }
                    Event::Apply(object) => {
                        templates.update(
                            gvk,
                            Update::One(key_of(&object), Some(properties_of(&object))),
                        );
                    }
                    Event::Delete(object) => {
                        templates.update(gvk, Update::One(key_of(&object), None));
                    }
                }
            }
            Err(error) => {
                let why = describe(&error, &resource);
                if failure.report(templates, &why) && error.refused_verb(403).is_some() {
                    let kind = &gvk.kind;
                    tracing::warn!(kind, error = why, "cannot read templates; trying again");
                }
            }
        }
    }
}

/// The failures of one watch. An error that repeats is reported only once.
struct Failure<'a> {
    gvk: &'a GroupVersionKind,
    pause: Duration,
    reported: String,
}

impl<'a> Failure<'a> {
    fn of(gvk: &'a GroupVersionKind) -> Self {
        Self {
            gvk,
            pause: FIRST_PAUSE,
            reported: String::new(),
        }
    }

    /// Reports a failure to the cache. Returns true if the failure is new.
    fn report(&mut self, templates: &Templates, why: &str) -> bool {
        let is_new = self.reported != why;
        if is_new {
            templates.update(self.gvk, Update::Failed(why.to_owned()));
            why.clone_into(&mut self.reported);
        }
        is_new
    }

    /// Returns the pause before the next discovery.
    fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// Describes a watch error. If the scheduler lacks a permission, the text names the manifest that grants it.
fn describe(error: &list_watch::Error, resource: &ApiResource) -> String {
    let Some(verb) = error.refused_verb(403) else {
        return error.to_string();
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
