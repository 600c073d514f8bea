//! The filters and the order of the fleet view, in the parameters of its URL.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::map::Colour;
use crate::binding_query::encode;
use crate::store::{ClusterHealth, ClusterRow, Store};

/// The order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The worst first.
    Problems,
    Location,
    /// The fullest first.
    Load,
    Name,
}

impl Order {
    pub(super) const ALL: [Self; 4] = [Self::Problems, Self::Location, Self::Load, Self::Name];

    /// Returns the value in the URL, and the label of the order.
    pub(super) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Problems => ("", "Problems first"),
            Self::Location => ("location", "Location"),
            Self::Load => ("load", "Fullest first"),
            Self::Name => ("name", "Name"),
        }
    }
}

/// The filters, the order, the colours of the map, and the page number of a request.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(super) text: String,
    pub(super) state: Option<ClusterHealth>,
    /// Exact names, which links of the map select. An empty name selects the clusters without one.
    provider: Option<String>,
    region: Option<String>,
    version: Option<String>,
    pub(super) order: Order,
    pub(super) colour: Colour,
    pub(super) page: usize,
}

impl View {
    pub(crate) fn new(parameters: &BTreeMap<String, String>) -> Self {
        let value = |name: &str| parameters.get(name).map_or("", |value| value.trim());
        let mut states = ClusterHealth::WORST_FIRST.into_iter();
        let mut orders = Order::ALL.into_iter();
        let exact = |name: &str| parameters.get(name).cloned();
        Self {
            text: value("q").to_owned(),
            state: states.find(|of| of.names().0 == value("state")),
            provider: exact("provider"),
            region: exact("region"),
            version: exact("version"),
            order: orders
                .find(|of| of.names().0 == value("sort"))
                .unwrap_or(Order::Problems),
            colour: Colour::parse(value("colour")),
            page: value("page").parse().unwrap_or(1).max(1),
        }
    }

    /// Returns the URL path of a page of this view.
    pub(super) fn path(&self, page: usize) -> String {
        let mut pairs = vec![
            ("q", &*self.text),
            ("state", self.state.map_or("", |of| of.names().0)),
            ("sort", self.order.names().0),
            ("colour", self.colour.names().0),
        ];
        pairs.retain(|(_, value)| !value.is_empty());
        pairs.extend(self.exact());
        let page = page.to_string();
        if page != "1" {
            pairs.push(("page", &page));
        }
        let pairs = pairs.iter();
        let pairs: Vec<String> = pairs
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        if pairs.is_empty() {
            return "/fleet".to_owned();
        }
        format!("/fleet?{}", pairs.join("&"))
    }

    /// Returns the exact filters that are set, with their names in the URL.
    pub(super) fn exact(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("provider", &self.provider),
            ("region", &self.region),
            ("version", &self.version),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// Returns the path of this view for the clusters of a region.
    pub(super) fn path_of_region(&self, provider: &str, region: &str) -> String {
        let view = Self {
            provider: Some(provider.to_owned()),
            region: Some(region.to_owned()),
            ..self.clone()
        };
        view.path(1)
    }

    /// Returns the path of this view for the clusters in a state.
    pub(super) fn path_of_state(&self, state: ClusterHealth) -> String {
        let view = Self {
            state: Some(state),
            ..self.clone()
        };
        view.path(1)
    }

    /// Returns the path of this view for the clusters with a version.
    pub(super) fn path_of_version(&self, version: &str) -> String {
        let view = Self {
            version: Some(version.to_owned()),
            ..self.clone()
        };
        view.path(1)
    }

    /// Returns the path of this view without one of the exact filters.
    pub(super) fn path_without(&self, filter: &str) -> String {
        let mut view = self.clone();
        match filter {
            "provider" => view.provider = None,
            "region" => view.region = None,
            _ => view.version = None,
        }
        view.path(1)
    }

    fn matches(&self, name: &str, row: &ClusterRow) -> bool {
        let mut texts = [name, &row.provider, &row.region, &row.zone, &row.version].into_iter();
        let matches_text = texts.any(|text| text.contains(&self.text))
            || row.taints.iter().any(|taint| taint.contains(&self.text));
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == value)
        };
        matches_text
            && is(&self.provider, &row.provider)
            && is(&self.region, &row.region)
            && is(&self.version, &row.version)
            && self.state.is_none_or(|state| row.health() == state)
    }

    /// Returns the clusters that match, in the order of the table.
    pub(super) fn select<'a>(&self, store: &'a Store) -> Vec<(&'a String, &'a ClusterRow)> {
        let all = store.clusters.iter();
        let mut rows: Vec<_> = all.filter(|(name, row)| self.matches(name, row)).collect();
        // The sorts are stable: rows with equal keys remain sorted by name.
        match self.order {
            Order::Problems => rows.sort_by_key(|(_, row)| row.health()),
            Order::Location => rows.sort_by_key(|(_, row)| row.location()),
            Order::Load => rows.sort_by_key(|(_, row)| Reverse(row.load_permille())),
            Order::Name => {}
        }
        rows
    }
}
