//! Reads the templates of one kind, and goes on watching them.

use std::collections::HashMap;
use std::time::Duration;

use berth_apimachinery::api_error::is_unreachable;
use futures::StreamExt as _;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, watcher};

use super::qos::QosClass;
use super::{Facts, LABELS, News, Place, Source, Templates};

/// The first pause after something went wrong; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Watches until the service ends.
pub(super) async fn run(templates: Templates, source: Source, gvk: GroupVersionKind) {
    let stopping = source.stopping.clone();
    tokio::select! {
        () = stopping.cancelled() => {}
        () = watch(&templates, &source, &gvk) => {}
    }
}

async fn watch(templates: &Templates, source: &Source, gvk: &GroupVersionKind) {
    let mut trouble = Trouble::of(gvk);
    let resource = loop {
        match kube::discovery::pinned_kind(&source.client, gvk).await {
            Ok((resource, _)) => break resource,
            Err(error) => {
                let why = error.to_string();
                trouble.with(templates, &why, is_unreachable(&error)).await;
            }
        }
    };
    let api: Api<DynamicObject> = Api::all_with(source.client.clone(), &resource);
    let mut stream = watcher(api, watcher::Config::default()).boxed();
    let mut list: HashMap<Place, Facts> = HashMap::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                // The beginning of a list says nothing of its end.
                if !matches!(event, watcher::Event::Init) {
                    trouble.is_over();
                }
                match event {
                    watcher::Event::Init => list.clear(),
                    watcher::Event::InitApply(object) => {
                        list.insert(place_of(&object), facts_of(&object));
                    }
                    watcher::Event::InitDone => {
                        templates.tell(gvk, News::All(std::mem::take(&mut list)));
                    }
                    watcher::Event::Apply(object) => {
                        templates.tell(gvk, News::One(place_of(&object), Some(facts_of(&object))));
                    }
                    watcher::Event::Delete(object) => {
                        templates.tell(gvk, News::One(place_of(&object), None));
                    }
                }
            }
            Err(error) => {
                let why = in_words(&error, &resource);
                trouble.with(templates, &why, is_unreachable(&error)).await;
            }
        }
    }
}

/// What keeps a kind from being read. It is told once, however often it is met.
struct Trouble<'a> {
    gvk: &'a GroupVersionKind,
    pause: Duration,
    told: String,
}

impl<'a> Trouble<'a> {
    fn of(gvk: &'a GroupVersionKind) -> Self {
        Self {
            gvk,
            pause: FIRST_PAUSE,
            told: String::new(),
        }
    }

    /// Tells why the kind cannot be read, and pauses.
    async fn with(&mut self, templates: &Templates, why: &str, unreachable: bool) {
        if self.told != why {
            let kind = &self.gvk.kind;
            if unreachable {
                tracing::debug!(kind, error = why, "cannot read templates; trying again");
            } else {
                tracing::warn!(kind, error = why, "cannot read templates; trying again");
            }
            templates.tell(self.gvk, News::Failed(why.to_owned()));
            why.clone_into(&mut self.told);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn is_over(&mut self) {
        *self = Self::of(self.gvk);
    }
}

/// Why a kind cannot be read, for people: a missing right is named with what grants it.
fn in_words(error: &watcher::Error, resource: &ApiResource) -> String {
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

fn place_of(object: &DynamicObject) -> Place {
    let metadata = &object.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

fn facts_of(object: &DynamicObject) -> Facts {
    let labels = object.metadata.labels.as_ref();
    Facts {
        labels: LABELS
            .into_iter()
            .filter_map(|name| Some((name, labels?.get(name)?.clone())))
            .collect(),
        qos: QosClass::of_template(&object.data),
    }
}
