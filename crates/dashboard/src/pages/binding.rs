//! The page of one workload: whether it is well, why not and what to do, then its way, its copies, the decision and its
//! moves. Separate pages show its Works, its events, and the smallest changes that would alter the decision.

mod diagnosis;
mod differences;
mod moves;
mod objects;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::response::Html as Document;
use berth_api::BindingKey;
use berth_diagnosis::Diagnosis;
use berth_explain::Report;
use berth_plan::diff::{DiffReport, WantedReport};
use jiff::Timestamp;

use super::format::path;
use super::parts;
use super::{DataState, Tab, explanation, frame, not_found};
use crate::html::Html;
use crate::store::{BindingRow, Store};

pub(crate) use self::objects::{Details, read_binding};

/// Maximum number of clusters in the summary. The copies of all clusters follow.
const MAX_CLUSTERS: usize = 12;

/// Returns the page. The parts that take longer than the decision are on separate pages: the smallest changes that would
/// alter the decision, the Works and the events.
pub(crate) fn page(
    store: &Store,
    name: &BindingKey,
    explained: &Result<Report, String>,
) -> Document<String> {
    let data = DataState::of(store);
    let Some(row) = store.bindings.get(name) else {
        return not_found(&data);
    };
    let now = Timestamp::now();
    let title = name.to_string();
    frame(&title, Tab::Workloads, &data, |html| {
        html.leaf("h1", &[], &title);
        html.el("div", &[("data-live", &"binding")], |html| {
            let found = store.diagnosis(name, row, now);
            diagnosis::verdict(html, &found, now);
            let names = row.targets.iter().map(|(name, _)| name);
            parts::evictions_paused(html, &store.evictions_paused(names));
            summary(html, row, &title, now);
            diagnosis::way(html, row, &found, now);
            diagnosis::copies(html, &found, now);
            if let Some(migration) = &row.migration {
                moves::unfinished(html, migration);
            }
            // Ages change at each refresh, and must not load the later parts again.
            let start = html.len();
            let state = fingerprint(&found);
            html.leaf("h2", &[], "Decision");
            match explained {
                Ok(report) => explanation::write(html, report, |html| {
                    let path = format!("{}/changes", path(name));
                    let fingerprint = state ^ html.fingerprint(start);
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
            let state = state ^ html.fingerprint(start);
            let differences = format!("{}/differences", path(name));
            parts::deferred_link(html, &differences, state, "Show the differences");
            moves::history(html, store, name, row, explained.as_ref().ok());
            let objects = format!("{}/objects", path(name));
            parts::deferred_link(html, &objects, state, "Show Works and events");
        });
    })
}

/// Returns a hash of the state of a workload, without times.
fn fingerprint(found: &Diagnosis) -> u64 {
    let mut hasher = DefaultHasher::new();
    found.verdict.hash(&mut hasher);
    for copy in &found.copies {
        (&copy.cluster, copy.replicas(), copy.state).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns the page of the smallest changes that would alter the decision.
pub(crate) fn changes_page(
    data: &DataState,
    name: &BindingKey,
    explained: &Result<Report, String>,
) -> Document<String> {
    embeddable_page(
        data,
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
pub(crate) fn objects_page(
    data: &DataState,
    name: &BindingKey,
    details: &Details,
) -> Document<String> {
    embeddable_page(data, name, "Works and events", |html| {
        objects::write(html, details);
    })
}

/// Returns the page of the differences between the template and the wanted objects of a binding.
pub(crate) fn differences_page(
    data: &DataState,
    name: &BindingKey,
    report: &Result<WantedReport, String>,
) -> Document<String> {
    embeddable_page(data, name, "Differences", |html| match report {
        Ok(report) => {
            let members = format!("{}/members", path(name));
            differences::wanted(html, report, &members);
        }
        Err(reason) => unknown_differences(html, reason),
    })
}

/// Returns the page of the differences between the wanted objects of a binding and the objects in its members.
pub(crate) fn members_page(
    data: &DataState,
    name: &BindingKey,
    report: &Result<DiffReport, String>,
) -> Document<String> {
    embeddable_page(data, name, "Comparison with the members", |html| {
        match report {
            Ok(report) => differences::members(html, report, Timestamp::now()),
            Err(reason) => unknown_differences(html, reason),
        }
        html.el("p", &[], |html| {
            let again = format!("{}/members", path(name));
            html.leaf("a", &[("href", &again)], "Compare again");
        });
    })
}

fn unknown_differences(html: &mut Html, reason: &str) {
    let text = format!("The differences are unknown: {reason}");
    html.leaf("p", &[("class", &"no")], text);
}

/// Returns a page whose content the dashboard's script can also load into the page of the binding.
fn embeddable_page(
    data: &DataState,
    name: &BindingKey,
    title: &str,
    content: impl FnOnce(&mut Html),
) -> Document<String> {
    frame(&format!("{title}: {name}"), Tab::Workloads, data, |html| {
        html.leaf("h1", &[], title);
        html.el("p", &[], |html| {
            html.leaf("a", &[("href", &path(name))], name);
        });
        html.el("div", &[("data-part", &"")], content);
    })
}

fn summary(html: &mut Html, row: &BindingRow, title: &str, now: Timestamp) {
    html.el("dl", &[], |html| {
        parts::entry(html, "Workload", |html| html.text(row.workload()));
        parts::entry(html, "State", |html| parts::states(html, row, now));
        parts::entry(html, "Ready", |html| html.text(row.workload.ready()));
        parts::entry(html, "Policy", |html| {
            if row.is_dependency() {
                html.text(parts::dependency(row.needed_by()));
            } else {
                parts::policy_link(html, row.policy.as_ref());
            }
        });
        parts::entry(html, "Clusters", |html| {
            parts::targets(html, &row.targets, MAX_CLUSTERS);
        });
        parts::entry(html, "Created", |html| {
            parts::since(html, row.created(), now);
        });
        parts::entry(html, "Change", |html| {
            parts::what_if(html, "binding", "scale", title);
        });
    });
}
