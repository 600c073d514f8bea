//! The page of one binding: its decision and its moves. Separate pages show its Works, its events, and the smallest
//! changes that would alter the decision.

use berth_apimachinery::api_error::api_error_message;
use std::fmt::Display;

use axum::response::Html as Document;
use berth_api::binding::ObjectReference;
use berth_api::well_known::{CONDITION_APPLIED, EXECUTION_SPACE_PREFIX};
use berth_api::{BindingKey, ClusterResourceBinding, ResourceBinding, Work, condition};
use berth_explain::{Eviction, Migration, Report};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

use super::format::{age, path};
use super::parts::{self, Column, Tone, number, text};
use super::{Tab, bindings, explanation, frame, live, not_found};
use crate::binding_query::PAGE_SIZE;
use crate::html::Html;
use crate::store::{BindingRow, Store};

/// Maximum number of Works, and of events about one object, to read.
const MAX_OBJECTS: u32 = 500;

/// The Works and the events of a binding, or the reasons why they cannot be read.
#[derive(Debug)]
pub(crate) struct Details {
    works: Result<Vec<Work>, String>,
    events: Result<Vec<Event>, String>,
}

impl Details {
    /// Reads the Works of a binding, and the events about the binding and its template.
    pub(crate) async fn read(client: &Client, name: &BindingKey) -> Self {
        let stored = match StoredBinding::read(client, name).await {
            Ok(stored) => stored,
            Err(error) => {
                let reason = api_error_message(&error);
                return Self {
                    works: Err(reason.clone()),
                    events: Err(reason),
                };
            }
        };
        let (works, events) = tokio::join!(works(client, &stored), events(client, name, &stored));
        Self {
            works: works.map_err(|error| api_error_message(&error)),
            events: events.map_err(|error| api_error_message(&error)),
        }
    }
}

/// The label that the Works of a binding have, and the template of the binding.
struct StoredBinding {
    works: Option<String>,
    template: ObjectReference,
}

impl StoredBinding {
    async fn read(client: &Client, name: &BindingKey) -> Result<Self, kube::Error> {
        let (metadata, template) = if let Some(namespace) = &name.namespace {
            let api = Api::<ResourceBinding>::namespaced(client.clone(), namespace);
            let binding = api.get(&name.name).await?;
            (binding.metadata, binding.spec.resource)
        } else {
            let api = Api::<ClusterResourceBinding>::all(client.clone());
            let binding = api.get(&name.name).await?;
            (binding.metadata, binding.spec.0.resource)
        };
        let key = name.kind().id_label();
        let id = metadata.labels.as_ref().and_then(|labels| labels.get(key));
        Ok(Self {
            works: id.map(|id| format!("{key}={id}")),
            template,
        })
    }
}

async fn works(client: &Client, binding: &StoredBinding) -> Result<Vec<Work>, kube::Error> {
    let Some(selector) = &binding.works else {
        return Ok(Vec::new());
    };
    let params = ListParams::default().labels(selector).limit(MAX_OBJECTS);
    let works = Api::<Work>::all(client.clone()).list(&params).await?;
    Ok(works.items)
}

async fn events(
    client: &Client,
    name: &BindingKey,
    binding: &StoredBinding,
) -> Result<Vec<Event>, kube::Error> {
    // Events of cluster-scoped objects are in the namespace `default`.
    let namespace = name.namespace.as_deref().unwrap_or("default");
    let api = Api::<Event>::namespaced(client.clone(), namespace);
    let mut events = Vec::new();
    for (kind, name) in [
        (name.kind().name(), &*name.name),
        (&*binding.template.kind, &*binding.template.name),
    ] {
        let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let params = ListParams::default().fields(&selector).limit(MAX_OBJECTS);
        events.extend(api.list(&params).await?.items);
    }
    events.sort_by_key(|event| std::cmp::Reverse(time_of(event)));
    Ok(events)
}

fn time_of(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    last.or(first).or_else(|| {
        event
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0)
    })
}

/// Returns the page. The parts that take longer than the decision are on separate pages: the smallest changes that would
/// alter the decision, the Works and the events.
pub(crate) fn page(
    store: &Store,
    name: &BindingKey,
    explained: &Result<Report, String>,
) -> Document<String> {
    let Some(row) = store.bindings.get(name) else {
        return not_found();
    };
    let title = name.to_string();
    frame(&title, Tab::Bindings, |html| {
        html.leaf("h1", &[], &title);
        html.el("div", &[("data-live", &"binding")], |html| {
            let start = html.len();
            summary(html, row);
            parts::what_if(html, "binding", "scale", &title);
            if let Some(migration) = &row.migration {
                unfinished_moves(html, migration);
            }
            let names = row.targets.iter().map(|(name, _)| name);
            parts::evictions_paused(html, &store.evictions_paused(names));
            html.leaf("h2", &[], "Decision");
            match explained {
                Ok(report) => explanation::write(html, report, |html| {
                    let path = format!("{}/changes", path(name));
                    let fingerprint = html.fingerprint(start);
                    parts::deferred_link(
                        html,
                        &path,
                        fingerprint,
                        "Search for the smallest changes that would alter the decision",
                    );
                }),
                Err(reason) => {
                    let text = format!("There is no explanation: {reason}");
                    html.leaf("p", &[("class", &"muted")], text);
                }
            }
            html.leaf("h2", &[], "Moves since the dashboard started");
            let moves = || store.moves.iter().rev().filter(|of| of.binding == *name);
            if moves().next().is_none() {
                html.leaf("p", &[("class", &"muted")], "No moves.");
            } else {
                live::moves(html, moves().take(PAGE_SIZE));
            }
            let objects = format!("{}/objects", path(name));
            let fingerprint = html.fingerprint(start);
            parts::deferred_link(html, &objects, fingerprint, "Show Works and events");
        });
    })
}

/// Returns the page of the smallest changes that would alter the decision.
pub(crate) fn changes_page(
    name: &BindingKey,
    explained: &Result<Report, String>,
) -> Document<String> {
    embeddable_page(
        name,
        "What would change the decision",
        |html| match explained {
            Ok(report) => explanation::changes(html, report),
            Err(reason) => {
                let text = format!("There is no explanation: {reason}");
                html.leaf("p", &[("class", &"muted")], text);
            }
        },
    )
}

/// Returns the page of the Works and events of a binding.
pub(crate) fn objects_page(name: &BindingKey, details: &Details) -> Document<String> {
    embeddable_page(name, "Works and events", |html| {
        html.leaf("h2", &[], "Works");
        list_or_error(html, &details.works, "No Works.", work_table);
        html.leaf("h2", &[], "Events");
        list_or_error(html, &details.events, "No events.", event_table);
    })
}

/// Returns a page whose content the dashboard's script can also load into the page of the binding.
fn embeddable_page(
    name: &BindingKey,
    title: &str,
    content: impl FnOnce(&mut Html),
) -> Document<String> {
    frame(&format!("{title}: {name}"), Tab::Bindings, |html| {
        html.leaf("h1", &[], title);
        html.el("p", &[], |html| {
            html.leaf("a", &[("href", &path(name))], name);
        });
        html.el("div", &[("data-part", &"")], content);
    })
}

fn summary(html: &mut Html, row: &BindingRow) {
    html.el("dl", &[], |html| {
        entry(html, "Workload", |html| html.text(row.workload()));
        entry(html, "State", |html| parts::states(html, row));
        entry(html, "Replicas", |html| html.text(row.replicas));
        entry(html, "Policy", |html| {
            html.text(row.policy.as_deref().unwrap_or("-"));
        });
        entry(html, "Clusters", |html| {
            parts::targets(html, &row.targets, PAGE_SIZE);
        });
        entry(html, "Reason", |html| bindings::reason(html, row));
    });
}

/// Writes the reason for which old copies wait, the eviction tasks, and the clusters to which the binding may return.
fn unfinished_moves(html: &mut Html, migration: &Migration) {
    if migration.state().is_some() {
        html.leaf("h2", &[], "Unfinished moves");
    }
    if let Some(condition) = &migration.condition {
        html.el("div", &[("class", &"verdict")], |html| {
            let text = format_args!("{}: {}", condition.reason_in_words(), condition.message);
            html.leaf("p", &[], text);
            let since = format_args!("since {:.0} ({})", condition.since.0, condition.reason);
            html.leaf("span", &[("class", &"sub")], since);
        });
    }
    if !migration.evictions.is_empty() {
        eviction_table(html, &migration.evictions);
    }
    if !migration.may_return_to.is_empty() {
        let clusters = migration.may_return_to.join(", ");
        html.leaf("p", &[], format_args!("May return to: {clusters}"));
    }
}

fn eviction_table(html: &mut Html, evictions: &[Eviction]) {
    let columns: [Column; 6] = [
        text("Evicted from"),
        number("Replicas"),
        text("Reason"),
        text("Since"),
        text("Until"),
        text("Message"),
    ];
    let [c_from, c_replicas, c_reason, c_since, c_until, c_message] = &columns;
    parts::table(html, "Evictions", &columns, |html| {
        for eviction in evictions {
            html.el("tr", &[], |html| {
                parts::cell(html, c_from, |html| {
                    html.leaf("span", &[("class", &"name")], &eviction.from);
                });
                parts::cell(html, c_replicas, |html| {
                    let replicas = eviction.replicas.map(|replicas| replicas.to_string());
                    html.text(replicas.as_deref().unwrap_or("-"));
                });
                parts::cell(html, c_reason, |html| {
                    html.leaf("span", &[], &eviction.reason);
                    html.leaf("span", &[("class", &"sub")], &eviction.producer);
                });
                let time = |time: &Time| format!("{:.0}", time.0);
                parts::cell(html, c_since, |html| {
                    let since = eviction.since.as_ref().map(time);
                    html.text(since.as_deref().unwrap_or("-"));
                });
                parts::cell(html, c_until, |html| {
                    let until = eviction.until.as_ref().map(time);
                    html.text(match &until {
                        Some(until) => until,
                        None if eviction.suppress_deletion => "a user ends it",
                        None => "-",
                    });
                });
                parts::cell(html, c_message, |html| {
                    html.text(eviction.message.as_deref().unwrap_or("-"));
                });
            });
        }
    });
}

fn entry(html: &mut Html, name: &str, content: impl FnOnce(&mut Html)) {
    html.el("div", &[], |html| {
        html.leaf("dt", &[], name);
        html.el("dd", &[], content);
    });
}

fn list_or_error<T>(
    html: &mut Html,
    items: &Result<Vec<T>, String>,
    none: &str,
    table: fn(&mut Html, &[T]),
) {
    match items {
        Ok(items) if items.is_empty() => html.leaf("p", &[("class", &"muted")], none),
        Ok(items) => table(html, items),
        Err(reason) => html.leaf(
            "p",
            &[("class", &"no")],
            format_args!("Cannot be read: {reason}"),
        ),
    }
}

fn work_table(html: &mut Html, works: &[Work]) {
    let columns: [Column; 4] = [
        text("Cluster"),
        text("Work"),
        text("State"),
        text("Message"),
    ];
    let [c_cluster, c_name, c_state, c_message] = &columns;
    parts::table(html, "Works", &columns, |html| {
        for work in works {
            let namespace = work.namespace().unwrap_or_default();
            let cluster = namespace.strip_prefix(EXECUTION_SPACE_PREFIX);
            let status = work.status.as_ref();
            let applied =
                status.and_then(|status| condition::find(&status.conditions, CONDITION_APPLIED));
            let (tone, label) = match applied.map(|of| of.status.as_str()) {
                Some("True") => (Tone::Good, "Applied"),
                Some(_) => (Tone::Bad, "Not applied"),
                None => (Tone::Neutral, "Not applied yet"),
            };
            html.el("tr", &[], |html| {
                parts::cell(html, c_cluster, |html| {
                    let name = cluster.unwrap_or(&namespace);
                    html.leaf("span", &[("class", &"name")], name);
                });
                parts::cell(html, c_name, |html| html.leaf("code", &[], work.name_any()));
                parts::cell(html, c_state, |html| parts::badge(html, tone, label));
                parts::cell(html, c_message, |html| {
                    html.text(applied.map_or("-", |of| of.message.as_str()));
                });
            });
        }
    });
}

fn event_table(html: &mut Html, events: &[Event]) {
    let columns: [Column; 4] = [
        number("Age"),
        text("Reason"),
        text("Source"),
        text("Message"),
    ];
    let [c_age, c_reason, c_source, c_message] = &columns;
    let now = Timestamp::now();
    parts::table(html, "Events", &columns, |html| {
        for event in events {
            let is_warning = event.type_.as_deref() == Some("Warning");
            let tone = if is_warning {
                Tone::Warning
            } else {
                Tone::Neutral
            };
            let source = event
                .source
                .as_ref()
                .and_then(|source| source.component.as_deref());
            let source = source.or(event.reporting_component.as_deref());
            html.el("tr", &[], |html| {
                parts::cell(html, c_age, |html| {
                    let age = time_of(event).map(|at| age(at, now));
                    html.text(age.unwrap_or_default());
                });
                parts::cell(html, c_reason, |html| {
                    parts::badge(html, tone, event.reason.as_deref().unwrap_or("-"));
                    if let Some(count) = event.count.filter(|count| *count > 1) {
                        let times: &dyn Display = &format_args!(" {count} times");
                        html.leaf("span", &[("class", &"muted")], times);
                    }
                });
                parts::cell(html, c_source, |html| html.text(source.unwrap_or("-")));
                parts::cell(html, c_message, |html| {
                    html.text(event.message.as_deref().unwrap_or_default());
                });
            });
        }
    });
}
