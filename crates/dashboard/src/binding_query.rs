//! Selection of the bindings on one page of the list: filter, order and page number.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_api::BindingKey;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::store::{Applied, BindingRow, Scheduling, Store, Suspension};

/// Number of rows per page.
pub(crate) const PAGE_SIZE: usize = 100;

/// A filter of bindings by state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateFilter {
    All,
    Scheduled,
    Unschedulable,
    Waiting,
    Applied,
    NotApplied,
    Suspended,
    Moving,
}

impl StateFilter {
    pub(crate) const ALL: [Self; 8] = [
        Self::All,
        Self::Scheduled,
        Self::Unschedulable,
        Self::Waiting,
        Self::Applied,
        Self::NotApplied,
        Self::Suspended,
        Self::Moving,
    ];

    /// Returns the value in the URL, and the label of the filter.
    pub(crate) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::All => ("", "All states"),
            Self::Scheduled => ("scheduled", "Scheduled"),
            Self::Unschedulable => ("unschedulable", "Unschedulable"),
            Self::Waiting => ("waiting", "Waiting for the scheduler"),
            Self::Applied => ("applied", "Applied"),
            Self::NotApplied => ("not-applied", "Not applied"),
            Self::Suspended => ("suspended", "Suspended"),
            Self::Moving => ("moving", "Moving"),
        }
    }

    fn matches(self, row: &BindingRow) -> bool {
        match self {
            Self::All => true,
            Self::Scheduled => row.scheduling == Scheduling::Scheduled,
            Self::Unschedulable => row.scheduling == Scheduling::Unschedulable,
            Self::Waiting => row.scheduling == Scheduling::Waiting,
            Self::Applied => row.applied == Applied::Yes,
            Self::NotApplied => row.applied == Applied::No,
            Self::Suspended => row.suspension != Suspension::None,
            Self::Moving => row.migration_state().is_some(),
        }
    }
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Name,
    Newest,
    Replicas,
    Clusters,
    Reason,
}

impl Order {
    pub(crate) const ALL: [Self; 5] = [
        Self::Name,
        Self::Newest,
        Self::Replicas,
        Self::Clusters,
        Self::Reason,
    ];

    /// Returns the value in the URL, and the label of the order.
    pub(crate) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Name => ("", "Name"),
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
    pub(crate) state: StateFilter,
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
    /// Reads a query from the parameters of a URL. An unknown state selects all states, and an unknown order selects
    /// the order by name.
    pub(crate) fn new(parameters: &BTreeMap<String, String>) -> Self {
        let value = |name: &str| parameters.get(name).map_or("", |value| value.trim());
        let state = StateFilter::ALL.into_iter();
        let order = Order::ALL.into_iter();
        Self {
            state: state
                .rev()
                .find(|of| of.names().0 == value("state"))
                .unwrap_or(StateFilter::All),
            order: order
                .rev()
                .find(|of| of.names().0 == value("sort"))
                .unwrap_or(Order::Name),
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
            ("state", self.state.names().0),
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

    fn selects(&self, name: &BindingKey, row: &BindingRow) -> bool {
        let policy = || row.policy.as_deref() == Some(&*self.policy);
        self.state.matches(row)
            && (self.cluster.is_empty() || row.targets.get(&self.cluster).is_some())
            && (self.policy.is_empty() || policy())
            && (self.text.is_empty() || self.matches_text(name, row))
    }

    fn matches_text(&self, name: &BindingKey, row: &BindingRow) -> bool {
        let contains = |text: &str| contains_ignoring_case(text, &self.text);
        contains(&name.name)
            || name.namespace.as_deref().is_some_and(contains)
            || contains(&row.kind)
            || contains(&row.resource)
            || contains(&row.reason)
            || contains(&row.message)
    }

    /// Selects the rows of the page.
    pub(crate) fn select<'a>(&self, store: &'a Store) -> Selection<'a> {
        let mut rows: Vec<(&BindingKey, &BindingRow)> = store
            .bindings
            .iter()
            .filter(|(name, row)| self.selects(name, row))
            .collect();
        // The sorts are stable: rows with equal keys remain sorted by name.
        match self.order {
            Order::Name => {}
            Order::Newest => rows.sort_by_key(|(_, row)| Reverse(row.created)),
            Order::Replicas => rows.sort_by_key(|(_, row)| Reverse(row.replicas)),
            Order::Clusters => rows.sort_by_key(|(_, row)| Reverse(row.targets.len())),
            Order::Reason => rows.sort_by(|(_, a), (_, b)| a.reason.cmp(&b.reason)),
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
    if !part.is_ascii() {
        return text.to_lowercase().contains(part);
    }
    let part = part.as_bytes();
    text.as_bytes()
        .windows(part.len())
        .any(|window| window.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests;
