//! The Works and the events of a binding, which requests read for one page.

use std::fmt::Display;

use berth_api::well_known::{CONDITION_APPLIED, EXECUTION_SPACE_PREFIX};
use berth_api::{Binding, BindingKey, ClusterResourceBinding, ResourceBinding, Work, condition};
use berth_apimachinery::api_error::api_error_message;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

use crate::html::Html;
use crate::pages::format::age;
use crate::pages::parts::{self, Column, Tone, number, text};

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
        let stored = match read_binding(client, name).await {
            Ok(stored) => stored,
            Err(reason) => {
                return Self {
                    works: Err(reason.clone()),
                    events: Err(reason),
                };
            }
        };
        let (works, events) = tokio::join!(works(client, &stored), events(client, &stored));
        Self {
            works: works.map_err(|error| api_error_message(&error)),
            events: events.map_err(|error| api_error_message(&error)),
        }
    }
}

/// Reads a binding.
///
/// # Errors
/// Returns the reason why it cannot be read.
pub(crate) async fn read_binding(client: &Client, name: &BindingKey) -> Result<Binding, String> {
    let read = if let Some(namespace) = &name.namespace {
        let api = Api::<ResourceBinding>::namespaced(client.clone(), namespace);
        api.get(&name.name).await.map(Binding::from)
    } else {
        let api = Api::<ClusterResourceBinding>::all(client.clone());
        api.get(&name.name).await.map(Binding::from)
    };
    read.map_err(|error| api_error_message(&error))
}

async fn works(client: &Client, binding: &Binding) -> Result<Vec<Work>, kube::Error> {
    let id = binding.permanent_id();
    if id.is_empty() {
        return Ok(Vec::new());
    }
    let selector = format!("{}={id}", binding.key.kind().id_label());
    let params = ListParams::default().labels(&selector).limit(MAX_OBJECTS);
    let works = Api::<Work>::all(client.clone()).list(&params).await?;
    Ok(works.items)
}

async fn events(client: &Client, binding: &Binding) -> Result<Vec<Event>, kube::Error> {
    let (name, template) = (&binding.key, &binding.spec.resource);
    // Events of cluster-scoped objects are in the namespace `default`.
    let namespace = name.namespace.as_deref().unwrap_or("default");
    let api = Api::<Event>::namespaced(client.clone(), namespace);
    let mut events = Vec::new();
    for (kind, name) in [
        (name.kind().name(), &*name.name),
        (&*template.kind, &*template.name),
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

/// Writes the Works and the events.
pub(super) fn write(html: &mut Html, details: &Details) {
    html.leaf("h2", &[], "Works");
    list_or_error(html, &details.works, "No Works.", work_table);
    html.leaf("h2", &[], "Events");
    list_or_error(html, &details.events, "No events.", event_table);
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
