//! Selection of the bindings on one page of the list: filter, order and page number.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_api::BindingKey;
use berth_diagnosis::{Health, Reason};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::store::{BindingRow, PolicyName, Store};

/// Number of rows per page.
pub(crate) const PAGE_SIZE: usize = 100;

/// A filter of bindings by the health of their workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthFilter {
    All,
    /// Workloads at which a person has to look.
    Problems,
    Of(Health),
    /// Workloads that move between clusters.
    Moving,
}

impl HealthFilter {
    pub(crate) const ALL: [Self; 8] = [
        Self::All,
        Self::Problems,
        Self::Of(Health::Broken),
        Self::Of(Health::Stuck),
        Self::Of(Health::Degraded),
        Self::Of(Health::Waiting),
        Self::Of(Health::Well),
        Self::Moving,
    ];

    /// Returns the value in the URL, and the label of the filter.
    pub(crate) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::All => ("", "All"),
            Self::Problems => ("problems", "Needs attention"),
            Self::Of(health) => (health.as_str(), health.as_str()),
            Self::Moving => ("moving", "moving"),
        }
    }

    fn matches(self, row: &BindingRow, now: Timestamp) -> bool {
        match self {
            Self::All => true,
            Self::Problems => row.workload.health_at(now).needs_attention(),
            Self::Of(health) => row.workload.health_at(now) == health,
            Self::Moving => row.migration_state().is_some(),
        }
    }
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The worst first, and the longest first among equals.
    Health,
    Name,
    Newest,
    Replicas,
    Clusters,
    Reason,
}

impl Order {
    pub(crate) const ALL: [Self; 6] = [
        Self::Health,
        Self::Name,
        Self::Newest,
        Self::Replicas,
        Self::Clusters,
        Self::Reason,
    ];

    /// Returns the value in the URL, and the label of the order.
    pub(crate) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Health => ("", "Problems first"),
            Self::Name => ("name", "Name"),
            Self::Newest => ("newest", "Newest"),
            Self::Replicas => ("replicas", "Most replicas"),
            Self::Clusters => ("clusters", "Most clusters"),
            Self::Reason => ("reason", "Reason"),
        }
    }
}

/// The query of a list of bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) health: HealthFilter,
    /// The cause for which a workload is not well. `None` for any.
    pub(crate) reason: Option<Reason>,
    pub(crate) order: Order,
    pub(crate) policy: String,
    pub(crate) cluster: String,
    pub(crate) text: String,
    /// The page number, counted from 1.
    pub(crate) page: usize,
}

/// The rows of one page.
#[derive(Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) rows: Vec<(&'a BindingKey, &'a BindingRow)>,
    /// The number of selected rows on all pages.
    pub(crate) total: usize,
    /// The number of the selected page, counted from 1.
    pub(crate) page: usize,
}

impl Query {
    /// Reads a query from the parameters of a URL. An unknown health or reason selects all, and an unknown order selects
    /// the problems first.
    pub(crate) fn new(parameters: &BTreeMap<String, String>) -> Self {
        let value = |name: &str| parameters.get(name).map_or("", |value| value.trim());
        let health = HealthFilter::ALL.into_iter();
        let order = Order::ALL.into_iter();
        Self {
            health: health
                .rev()
                .find(|of| of.names().0 == value("health"))
                .unwrap_or(HealthFilter::All),
            reason: Reason::parse(value("reason")),
            order: order
                .rev()
                .find(|of| of.names().0 == value("sort"))
                .unwrap_or(Order::Health),
            policy: value("policy").to_owned(),
            cluster: value("cluster").to_owned(),
            text: value("q").to_lowercase(),
            page: value("page").parse().unwrap_or(1).max(1),
        }
    }

    /// Returns the URL path of a page of this query.
    pub(crate) fn path(&self, page: usize) -> String {
        let page = if page > 1 {
            page.to_string()
        } else {
            String::new()
        };
        let pairs = [
            ("health", self.health.names().0),
            ("reason", self.reason.map_or("", Reason::as_str)),
            ("sort", self.order.names().0),
            ("policy", &self.policy),
            ("cluster", &self.cluster),
            ("q", &self.text),
            ("page", &page),
        ];
        let pairs: Vec<String> = pairs
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        if pairs.is_empty() {
            "/bindings".to_owned()
        } else {
            format!("/bindings?{}", pairs.join("&"))
        }
    }

    fn selects(&self, name: &BindingKey, row: &BindingRow, now: Timestamp) -> bool {
        let policy = |of: &PolicyName| *of.name == *self.policy || of.key() == self.policy;
        self.health.matches(row, now)
            && (self.reason.is_none() || row.workload.reason == self.reason)
            && (self.cluster.is_empty() || row.has_copy_in(|name| name == self.cluster))
            && (self.policy.is_empty() || row.policy.as_ref().is_some_and(policy))
            && (self.text.is_empty() || self.matches_text(name, row))
    }

    fn matches_text(&self, name: &BindingKey, row: &BindingRow) -> bool {
        let contains = |text: &str| contains_ignoring_case(text, &self.text);
        let workload = &row.workload;
        contains(&name.name)
            || name.namespace.as_deref().is_some_and(contains)
            || contains(&workload.kind)
            || contains(&workload.name)
            || workload
                .reason
                .is_some_and(|reason| contains(reason.as_str()))
            || contains(&workload.verdict)
    }

    /// Selects the rows of the page.
    pub(crate) fn select<'a>(&self, store: &'a Store, now: Timestamp) -> Selection<'a> {
        let mut rows: Vec<(&BindingKey, &BindingRow)> = store
            .bindings
            .iter()
            .filter(|(name, row)| self.selects(name, row, now))
            .collect();
        // The sorts are stable: rows with equal keys remain sorted by name.
        match self.order {
            Order::Health => rows.sort_by_key(|(_, row)| row.workload.rank(now)),
            Order::Name => {}
            Order::Newest => rows.sort_by_key(|(_, row)| Reverse(row.created())),
            Order::Replicas => {
                rows.sort_by_key(|(_, row)| Reverse(row.workload.replicas.map(|of| of.wanted)));
            }
            Order::Clusters => rows.sort_by_key(|(_, row)| Reverse(row.targets.len())),
            Order::Reason => rows.sort_by_key(|(_, row)| {
                // Workloads that are well have no reason, and come last.
                let reason = row.workload.reason.map(Reason::as_str);
                (reason.is_none(), reason)
            }),
        }
        let total = rows.len();
        let page = self.page.min(total.div_ceil(PAGE_SIZE)).max(1);
        let rows = rows
            .into_iter()
            .skip((page - 1) * PAGE_SIZE)
            .take(PAGE_SIZE);
        Selection {
            rows: rows.collect(),
            total,
            page,
        }
    }
}

/// Percent-encodes a part of a URL.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Reports whether `text` contains `part`, ignoring case. `part` must be in lower case.
fn contains_ignoring_case(text: &str, part: &str) -> bool {
    if part.is_ascii() {
        text.to_ascii_lowercase().contains(part)
    } else {
        text.to_lowercase().contains(part)
    }
}

#[cfg(test)]
mod tests;
