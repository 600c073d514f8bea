//! The engine's internal lists of plugins, one for each extension point.
//!
//! The public form of these lists is [`Plugins`]. The internal lists also contain the names of plugins and other
//! properties, which are read once when the engine is created.

use std::sync::Arc;

use crate::estimate::Estimator;
use crate::framework::{
    Assign, Filter, Plugins, Point, PreFilter, PreScore, Score, Select, Weighted,
};

/// A plugin in the list of an extension point.
#[derive(Debug)]
pub(super) struct ListedPlugin<P> {
    pub(super) name: Arc<str>,
    pub(super) plugin: P,
    /// The index of the PreFilter or PreScore plugin with the same name. This plugin can skip the call of the listed
    /// plugin.
    pub(super) skipped_by: Option<usize>,
}

/// A score plugin with its weight.
#[derive(Debug)]
pub(super) struct WeightedScore {
    pub(super) score: Arc<dyn Score>,
    pub(super) weight: i64,
    pub(super) normalises: bool,
}

/// The plugins of an engine, by extension point.
#[derive(Debug)]
pub(super) struct PluginLists {
    pub(super) pre_filters: Vec<ListedPlugin<Arc<dyn PreFilter>>>,
    pub(super) filters: Vec<ListedPlugin<Filter>>,
    pub(super) pre_scores: Vec<ListedPlugin<Arc<dyn PreScore>>>,
    pub(super) scores: Vec<ListedPlugin<WeightedScore>>,
    pub(super) estimators: Vec<ListedPlugin<Arc<dyn Estimator>>>,
    pub(super) select: ListedPlugin<Arc<dyn Select>>,
    pub(super) assign: ListedPlugin<Arc<dyn Assign>>,
}

impl PluginLists {
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
            filter.skipped_by = index_of(&pre_filters, &filter.name);
        }
        let scores = scores.into_iter().map(|Weighted { plugin, weight }| {
            let name: Arc<str> = plugin.name().into();
            ListedPlugin {
                skipped_by: index_of(&pre_scores, &name),
                plugin: WeightedScore {
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

impl PluginLists {
    /// Returns the name of the plugin at `index` in the list of `point`.
    pub(super) fn name(&self, point: Point, index: usize) -> Option<&Arc<str>> {
        match point {
            Point::PreFilter => self.pre_filters.get(index).map(|listed| &listed.name),
            Point::Filter => self.filters.get(index).map(|listed| &listed.name),
            Point::PreScore => self.pre_scores.get(index).map(|listed| &listed.name),
            Point::Score | Point::NormalizeScore => {
                self.scores.get(index).map(|listed| &listed.name)
            }
            Point::Estimate => self.estimators.get(index).map(|listed| &listed.name),
            Point::Select => Some(&self.select.name),
            Point::Assign => Some(&self.assign.name),
            _ => None,
        }
    }
}

fn listed<P>(plugin: P, name: impl Fn(&P) -> Arc<str>) -> ListedPlugin<P> {
    ListedPlugin {
        name: name(&plugin),
        plugin,
        skipped_by: None,
    }
}

fn list<P>(plugins: Vec<P>, name: impl Fn(&P) -> Arc<str>) -> Vec<ListedPlugin<P>> {
    plugins
        .into_iter()
        .map(|plugin| listed(plugin, &name))
        .collect()
}

fn index_of<P>(list: &[ListedPlugin<P>], name: &str) -> Option<usize> {
    list.iter().position(|listed| &*listed.name == name)
}

/// The indices of the PreFilter or PreScore plugins that returned Skip in this attempt. The engine does not call the
/// Filter or Score plugins with the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Skipped(Vec<usize>);

impl Skipped {
    pub(super) fn skip(&mut self, index: usize) {
        self.0.push(index);
    }

    pub(super) fn runs<P>(&self, listed: &ListedPlugin<P>) -> bool {
        listed
            .skipped_by
            .is_none_or(|index| !self.0.contains(&index))
    }
}
