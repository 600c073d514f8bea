//! The HTML pages of the dashboard, and the frame that all pages share. Each submodule writes one page, or parts of
//! several pages.

pub(crate) mod binding;
pub(crate) mod bindings;
pub(crate) mod cluster;
mod explanation;
pub(crate) mod fleet;
mod format;
pub(crate) mod limits;
pub(crate) mod live;
pub(crate) mod overview;
mod parts;
pub(crate) mod policies;
mod queues;
pub(crate) mod quotas;
pub(crate) mod what_if;

use std::fmt::Display;

use axum::response::Html as Document;
use jiff::Timestamp;

use self::format::{age, clock};
use crate::html::Html;
use crate::store::{Outage, Store};

/// The tab of the navigation to which a page belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Overview,
    Fleet,
    Workloads,
    Policies,
    Live,
    WhatIf,
    None,
}

impl Tab {
    const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::Overview, "/", "Overview"),
        (Self::Fleet, "/fleet", "Fleet"),
        (Self::Workloads, "/bindings", "Workloads"),
        (Self::Policies, "/policies", "Policies"),
        (Self::Live, "/live", "Live"),
        (Self::WhatIf, "/what-if", "What if"),
    ];
}

/// The state of the data that a page shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct DataState {
    outage: Option<Outage>,
    has_synced: bool,
}

impl DataState {
    pub(crate) fn of(store: &Store) -> Self {
        Self {
            outage: store.outage(),
            has_synced: store.has_synced,
        }
    }

    /// Returns the outage if there are no data at all.
    pub(crate) fn without_data(&self) -> Option<&Outage> {
        self.outage.as_ref().filter(|_| !self.has_synced)
    }

    /// Writes the indicator in the header. The page's script completes it while nothing is wrong.
    fn indicator(&self, html: &mut Html, now: Timestamp) {
        let fixed: [(&'static str, &dyn Display); 3] = [
            ("id", &"connection"),
            ("class", &"connection"),
            ("role", &"status"),
        ];
        let mut attributes = fixed.to_vec();
        let text = match &self.outage {
            Some(outage) => {
                let state: &dyn Display = match outage.part {
                    Some(_) if self.has_synced => &"partial",
                    _ => &"lost",
                };
                attributes.extend([("data-state", state), ("data-source", state)]);
                let age = age(outage.since, now);
                match &outage.part {
                    _ if !self.has_synced => format!("no data for {age}"),
                    Some(part) => format!("{part} outdated: from {age} ago"),
                    None => format!("outdated: data from {age} ago"),
                }
            }
            None if !self.has_synced => {
                attributes.extend([
                    ("data-state", &"reading" as &dyn Display),
                    ("data-source", &"reading"),
                ]);
                "reading".to_owned()
            }
            None => String::new(),
        };
        html.leaf("span", &attributes, text);
    }

    /// Writes the outage at the top of a page. The element is always there, so that the page's script can replace it.
    fn alert(&self, html: &mut Html, now: Timestamp) {
        let attributes: [(&'static str, &dyn Display); 2] = [("id", &"alert"), ("role", &"alert")];
        html.el("div", &attributes, |html| {
            if let Some(outage) = self.outage.as_ref().filter(|_| self.has_synced) {
                let (at, age) = (clock(outage.since), age(outage.since, now));
                let since = match &outage.part {
                    Some(part) => format!(
                        "The page shows the {part} of {at} UTC, {age} ago. The other data are current."
                    ),
                    None => format!("The page shows the state of {at} UTC, {age} ago."),
                };
                outage_box(html, outage, &since);
            }
        });
    }
}

/// Writes the cause of an outage and the next action.
fn outage_box(html: &mut Html, outage: &Outage, since: &str) {
    html.el("div", &[("class", &"verdict failed")], |html| {
        html.el("p", &[], |html| html.leaf("b", &[], &outage.reason));
        html.el("p", &[("class", &"next")], |html| {
            html.leaf("b", &[], "Next: ");
            html.text(outage.advice);
        });
        html.leaf("p", &[("class", &"sub")], since);
    });
}

/// Returns a page: the frame with a title, the navigation and the content.
fn frame(
    title: &str,
    tab: Tab,
    data: &DataState,
    content: impl FnOnce(&mut Html),
) -> Document<String> {
    let now = Timestamp::now();
    let mut html = Html::default();
    html.doctype();
    html.el("html", &[("lang", &"en")], |html| {
        html.el("head", &[], |html| head(html, title));
        html.el("body", &[], |html| {
            html.leaf(
                "a",
                &[("class", &"skip"), ("href", &"#content")],
                "Skip to content",
            );
            html.el("header", &[], |html| {
                html.leaf("a", &[("class", &"brand"), ("href", &"/")], "Berth");
                html.el("nav", &[("aria-label", &"Views")], |html| {
                    for (of, path, name) in Tab::ALL {
                        if of == tab {
                            html.leaf("a", &[("href", &path), ("aria-current", &"page")], name);
                        } else {
                            html.leaf("a", &[("href", &path)], name);
                        }
                    }
                });
                data.indicator(html, now);
            });
            html.el("main", &[("id", &"content"), ("tabindex", &"-1")], |html| {
                data.alert(html, now);
                content(html);
            });
        });
    });
    Document(html.into_string())
}

fn head(html: &mut Html, title: &str) {
    html.void("meta", &[("charset", &"utf-8")]);
    let viewport = "width=device-width, initial-scale=1";
    html.void("meta", &[("name", &"viewport"), ("content", &viewport)]);
    html.void(
        "meta",
        &[("name", &"color-scheme"), ("content", &"light dark")],
    );
    html.leaf("title", &[], format_args!("{title} · Berth"));
    html.void("link", &[("rel", &"stylesheet"), ("href", &"/style.css")]);
    html.void("link", &[("rel", &"icon"), ("href", &"/icon.svg")]);
    html.el("script", &[("src", &"/script.js"), ("defer", &"")], |_| {});
}

/// Returns the page for an unknown path or an unknown object.
pub(crate) fn not_found(data: &DataState) -> Document<String> {
    frame("Not found", Tab::None, data, |html| {
        html.leaf("h1", &[], "Not found");
        html.leaf(
            "p",
            &[],
            "There is no such page, workload, cluster or policy. It may have been deleted.",
        );
        html.leaf("a", &[("href", &"/bindings")], "All workloads");
    })
}

/// Returns the page for an unknown object while the first lists are incomplete.
pub(crate) fn not_listed_yet(data: &DataState) -> Document<String> {
    frame("Not listed yet", Tab::None, data, |html| {
        html.leaf("h1", &[], "Not listed yet");
        html.leaf("p", &[], STILL_READING);
        html.leaf("a", &[("href", &"/bindings")], "All workloads");
    })
}

/// Returns the page that takes the place of all pages while there are no data.
pub(crate) fn no_data(data: &DataState, outage: &Outage) -> Document<String> {
    frame("No data", Tab::None, data, |html| {
        html.leaf("h1", &[], "No data");
        html.el("div", &[("data-live", &"no-data")], |html| {
            outage_box(
                html,
                outage,
                "The page appears as soon as the dashboard can read.",
            );
        });
    })
}

/// Shown until the first lists are complete.
const STILL_READING: &str =
    "The dashboard is still reading the clusters and bindings. This takes a few seconds.";

/// Writes a line if the first lists are incomplete.
fn still_reading(html: &mut Html, store: &Store) {
    if !store.has_synced {
        html.leaf("p", &[("class", &"muted")], STILL_READING);
    }
}

#[cfg(test)]
mod tests;
