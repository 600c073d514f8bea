//! Discovery of the resource types that the server serves. It runs at the start, every 30 seconds, and after each
//! change of a CustomResourceDefinition.

use std::collections::HashSet;
use std::time::Duration;

use berth_apimachinery::api_error::{api_error_message, is_unreachable};
use berth_apimachinery::repeated_failure::RepeatedFailure;
use berth_component_base::list_watch;
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::discovery::{ApiGroup, Discovery, Scope, verbs};
use kube::runtime::watcher;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::reconciler::Event;
use crate::resource_type::ResourceType;

/// Interval between two discoveries.
const PERIOD: Duration = Duration::from_secs(30);
/// Delay before the next discovery if a discovery failed, or if the server does not serve an established definition
/// yet.
const SHORT_DELAY: Duration = Duration::from_millis(250);

/// Maximum number of short delays in a row while an established definition is not served.
const SHORT_DELAY_LIMIT: u32 = 40;

/// Groups and plural names of the established CustomResourceDefinitions, which the server should serve.
type Established = HashSet<(String, String)>;

/// Sends the served resource types whenever they change.
pub(super) async fn discover(
    client: kube::Client,
    sender: mpsc::Sender<Event>,
    shutdown: CancellationToken,
) {
    let (established, mut changes) = watch::channel(Established::new());
    let work = async {
        tokio::join!(
            watch_definitions(client.clone(), established),
            discover_repeatedly(client.clone(), &mut changes, sender),
        );
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = work => {}
    }
}

async fn discover_repeatedly(
    client: kube::Client,
    changes: &mut watch::Receiver<Established>,
    sender: mpsc::Sender<Event>,
) {
    let mut known = None;
    let mut short_delays = 0;
    let mut failure = RepeatedFailure::default();
    loop {
        let expected = changes.borrow_and_update().clone();
        let pause = match served(&client).await {
            Ok(types) => {
                if let Some(end) = failure.ended(std::time::Instant::now()) {
                    let failures = end.failures;
                    tracing::info!(failures, "discovered the APIs after {}", end.lasted);
                }
                let missing = expected.iter().any(|(group, plural)| {
                    let named = |t: &ResourceType| t.api.group == *group && t.api.plural == *plural;
                    !types.iter().any(named)
                });
                if known.as_ref() != Some(&types) {
                    known = Some(types.clone());
                    if sender.send(Event::Discovered(types)).await.is_err() {
                        return;
                    }
                }
                short_delays = if missing { short_delays + 1 } else { 0 };
                if missing && short_delays <= SHORT_DELAY_LIMIT {
                    SHORT_DELAY
                } else {
                    PERIOD
                }
            }
            Err(error) => {
                let message = api_error_message(&error);
                let line = if is_unreachable(&error) {
                    None
                } else {
                    failure.failed(&message, std::time::Instant::now())
                };
                if let Some(line) = line {
                    tracing::warn!(
                        error = %message,
                        repeated = line.repeated,
                        "cannot discover the APIs of the control plane; trying again"
                    );
                } else {
                    tracing::debug!(
                        error = %message,
                        "cannot discover the APIs of the control plane; trying again"
                    );
                }
                SHORT_DELAY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // `watch_definitions` keeps the other end of `changes` open, so no error occurs here.
            _ = changes.changed() => short_delays = 0,
        }
    }
}

async fn served(client: &kube::Client) -> Result<Vec<ResourceType>, kube::Error> {
    // Servers without aggregated discovery need a request for each group.
    let discovery = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(discovery) => discovery,
        Err(_) => Discovery::new(client.clone()).run().await?,
    };
    let mut types: Vec<ResourceType> = discovery.groups().flat_map(preferred).collect();
    types.sort_by(|a, b| {
        (&a.api.group, &a.api.kind, &a.api.plural).cmp(&(&b.api.group, &b.api.kind, &b.api.plural))
    });
    Ok(types)
}

/// Returns the resources of a group that can be listed, watched and deleted. A resource has the preferred version of
/// the group if this version contains the resource, and otherwise another version.
fn preferred(group: &ApiGroup) -> Vec<ResourceType> {
    let preferred = group.preferred_version_or_latest();
    let others = group.versions().filter(|version| *version != preferred);
    let mut seen = HashSet::new();
    let mut types = Vec::new();
    for version in std::iter::once(preferred).chain(others) {
        for (resource, capabilities) in group.versioned_resources(version) {
            let usable = [verbs::DELETE, verbs::LIST, verbs::WATCH]
                .iter()
                .all(|verb| capabilities.supports_operation(verb));
            if seen.insert(resource.plural.clone()) && usable {
                types.push(ResourceType {
                    api: resource,
                    namespaced: capabilities.scope == Scope::Namespaced,
                });
            }
        }
    }
    types
}

async fn watch_definitions(client: kube::Client, established: watch::Sender<Established>) {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut events = list_watch::events(api, list_watch::Config::default());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => established.send_modify(Established::clear),
            Ok(watcher::Event::Apply(definition) | watcher::Event::InitApply(definition)) => {
                let is_established = is_established(&definition);
                established.send_modify(|known| {
                    if is_established {
                        known.insert(names(&definition));
                    } else {
                        known.remove(&names(&definition));
                    }
                });
            }
            Ok(watcher::Event::Delete(definition)) => established.send_modify(|known| {
                known.remove(&names(&definition));
            }),
            Ok(watcher::Event::InitDone) | Err(_) => {}
        }
    }
}

fn names(definition: &DynamicObject) -> (String, String) {
    let spec = &definition.data["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&spec["group"]), text(&spec["names"]["plural"]))
}

fn is_established(definition: &DynamicObject) -> bool {
    let conditions = definition.data["status"]["conditions"].as_array();
    definition.metadata.deletion_timestamp.is_none()
        && conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "Established" && c["status"] == "True")
}
