//! The plugins of an engine with their static properties.

use std::sync::Arc;

use crate::estimate::Estimator;
use crate::framework::{
    Assign, Filter, Plugins, Point, PreFilter, PreScore, Score, Select, Weighted,
};

/// A plugin in its list.
#[derive(Debug)]
pub(super) struct Listed<P> {
    pub(super) name: Arc<str>,
    pub(super) plugin: P,
    /// The index of the PreFilter or PreScore that can skip it.
    pub(super) switch: Option<usize>,
}

/// A score plugin with its static properties.
#[derive(Debug)]
pub(super) struct Scorer {
    pub(super) score: Arc<dyn Score>,
    pub(super) weight: i64,
    pub(super) normalises: bool,
}

#[derive(Debug)]
pub(super) struct Roster {
    pub(super) pre_filters: Vec<Listed<Arc<dyn PreFilter>>>,
    pub(super) filters: Vec<Listed<Filter>>,
    pub(super) pre_scores: Vec<Listed<Arc<dyn PreScore>>>,
    pub(super) scores: Vec<Listed<Scorer>>,
    pub(super) estimators: Vec<Listed<Arc<dyn Estimator>>>,
    pub(super) select: Listed<Arc<dyn Select>>,
    pub(super) assign: Listed<Arc<dyn Assign>>,
}

impl Roster {
    pub(super) fn new(plugins: Plugins) -> Self {
        let Plugins {
            pre_filters,
            filters,
            pre_scores,
            scores,
            estimators,
            select,
            assign,
        } = plugins;
        let pre_filters = list(pre_filters, |plugin| plugin.name().into());
        let pre_scores = list(pre_scores, |plugin| plugin.name().into());
        let mut filters = list(filters, |filter| filter.name().into());
        for filter in &mut filters {
            filter.switch = place_of(&pre_filters, &filter.name);
        }
        let scores = scores.into_iter().map(|Weighted { plugin, weight }| {
            let name: Arc<str> = plugin.name().into();
            Listed {
                switch: place_of(&pre_scores, &name),
                plugin: Scorer {
                    weight: i64::from(weight),
                    normalises: plugin.normalises(),
                    score: plugin,
                },
                name,
            }
        });
        Self {
            scores: scores.collect(),
            pre_filters,
            filters,
            pre_scores,
            estimators: list(estimators, |estimator| estimator.name().into()),
            select: listed(select, |select| select.name().into()),
            assign: listed(assign, |assign| assign.name().into()),
        }
    }
}

impl Roster {
    /// Returns the name of the plugin at an index of a point's list.
    pub(super) fn name(&self, point: Point, place: usize) -> Option<&Arc<str>> {
        match point {
            Point::PreFilter => self.pre_filters.get(place).map(|listed| &listed.name),
            Point::Filter => self.filters.get(place).map(|listed| &listed.name),
            Point::PreScore => self.pre_scores.get(place).map(|listed| &listed.name),
            Point::Score | Point::NormalizeScore => {
                self.scores.get(place).map(|listed| &listed.name)
            }
            Point::Estimate => self.estimators.get(place).map(|listed| &listed.name),
            Point::Select => Some(&self.select.name),
            Point::Assign => Some(&self.assign.name),
            _ => None,
        }
    }
}

fn listed<P>(plugin: P, name: impl Fn(&P) -> Arc<str>) -> Listed<P> {
    Listed {
        name: name(&plugin),
        plugin,
        switch: None,
    }
}

fn list<P>(plugins: Vec<P>, name: impl Fn(&P) -> Arc<str>) -> Vec<Listed<P>> {
    plugins
        .into_iter()
        .map(|plugin| listed(plugin, &name))
        .collect()
}

fn place_of<P>(list: &[Listed<P>], name: &str) -> Option<usize> {
    list.iter().position(|listed| &*listed.name == name)
}

/// The skipped plugins of a point, by index; empty if none is skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Switches(Vec<usize>);

impl Switches {
    pub(super) fn switch_off(&mut self, place: usize) {
        self.0.push(place);
    }

    pub(super) fn is_on<P>(&self, listed: &Listed<P>) -> bool {
        listed.switch.is_none_or(|place| !self.0.contains(&place))
    }
}
