//! Reads the templates of one kind, and goes on watching them.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
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
    let mut pause = FIRST_PAUSE;
    let resource = loop {
        match kube::discovery::pinned_kind(&source.client, gvk).await {
            Ok((resource, _)) => break resource,
            Err(error) => failed(templates, gvk, &error.to_string(), &mut pause).await,
        }
    };
    let api: Api<DynamicObject> = Api::all_with(source.client.clone(), &resource);
    let mut stream = watcher(api, watcher::Config::default()).boxed();
    let mut list: HashMap<Place, Facts> = HashMap::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                pause = FIRST_PAUSE;
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
            Err(error) => failed(templates, gvk, &error.to_string(), &mut pause).await,
        }
    }
}

async fn failed(templates: &Templates, gvk: &GroupVersionKind, why: &str, pause: &mut Duration) {
    tracing::warn!(
        kind = gvk.kind,
        error = why,
        "cannot read templates; trying again"
    );
    templates.tell(gvk, News::Failed(why.to_owned()));
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
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
