//! The engine's implementation of the PreFilter and Filter points, which determine the clusters that can run the
//! workload.

use std::sync::Arc;

use super::placement_cache::{Key, Prepared};
use super::plugin_calls::Calls;
use super::plugin_lists::Skipped;
use super::{Engine, Trace};
use crate::cluster_set::Bits;
use crate::error::{FitError, ScheduleError};
use crate::fleet::ClusterView;
use crate::framework::{
    AttemptContext, BindingContext, CycleState, Filter, PluginError, Point, PreFilterResult, Reason,
};

/// The result of the PreFilter point.
#[derive(Debug, Default)]
pub(super) struct PreFiltered {
    skipped: Skipped,
    /// The restrictions by PreFilter plugins. Each entry contains the index of a plugin and the clusters that the
    /// plugin allows.
    only: Vec<(usize, Bits)>,
}

/// A cluster that does not pass the filters, with the rejecting plugin and its reason.
struct Rejected<'a> {
    ordinal: usize,
    plugin: &'a Arc<str>,
    reason: Reason,
}

impl Engine {
    pub(super) fn pre_filter<T: Trace>(
        &self,
        context: &AttemptContext<'_>,
        state: &mut CycleState,
        calls: &mut Calls<'_, T>,
    ) -> Result<PreFiltered, ScheduleError> {
        if self.plugins.pre_filters.is_empty() {
            return Ok(PreFiltered::default());
        }
        calls.point(Point::PreFilter, |calls| {
            let mut pre_filtered = PreFiltered::default();
            for (index, listed) in self.plugins.pre_filters.iter().enumerate() {
                let skips = |result: &PreFilterResult| *result == PreFilterResult::Skip;
                let result =
                    calls.call_skipping(Point::PreFilter, index, listed, skips, |plugin| {
                        match plugin.pre_filter(context, state)? {
                            PreFilterResult::Only(clusters)
                                if clusters.len() != context.snapshot().len() =>
                            {
                                Err(PluginError::failed("returned clusters of another snapshot"))
                            }
                            result => Ok(result),
                        }
                    });
                match result? {
                    PreFilterResult::All => {}
                    PreFilterResult::Only(clusters) => pre_filtered.only.push((index, clusters)),
                    PreFilterResult::Skip => pre_filtered.skipped.skip(index),
                }
            }
            Ok(pre_filtered)
        })
    }

    /// Returns the prepared placement, and the clusters that pass all filters. If no cluster passes, returns an error
    /// with the reasons.
    pub(super) fn filter<T: Trace>(
        &mut self,
        context: &BindingContext<'_>,
        pre_filtered: &PreFiltered,
        calls: &mut Calls<'_, T>,
    ) -> Result<(Arc<Prepared>, Bits), ScheduleError> {
        let prepared = self.prepare(context, pre_filtered, calls)?;
        let passing = self.restrict(&prepared, context, pre_filtered, calls)?;
        if T::EXPLAINS {
            self.trace_inputs(context, pre_filtered, calls);
        }
        if T::EXPLAINS || passing.is_empty() {
            let rejected = self.rejected(context, pre_filtered, &passing, calls);
            for Rejected {
                ordinal,
                plugin,
                reason,
            } in &rejected
            {
                calls.trace.rejected(*ordinal, plugin, reason);
            }
            if passing.is_empty() {
                let snapshot = context.snapshot();
                let reasons = rejected.into_iter().filter_map(|rejected| {
                    let name = snapshot.name(rejected.ordinal)?;
                    Some((Arc::clone(name), rejected.reason))
                });
                return Err(FitError::new(snapshot.len(), reasons.collect()).into());
            }
        }
        Ok((prepared, passing))
    }

    fn prepare<T: Trace>(
        &mut self,
        context: &BindingContext<'_>,
        pre_filtered: &PreFiltered,
        calls: &mut Calls<'_, T>,
    ) -> Result<Arc<Prepared>, PluginError> {
        let Self {
            prepared, plugins, ..
        } = self;
        let placement = context.attempt().placement();
        let (shared, hash) = context.request().shared_placement();
        let key = Key {
            placement_hash: hash,
            term: placement.term_index(),
            is_workload: placement.is_workload(),
            skipped: pre_filtered.skipped.clone(),
        };
        let topology = &context.snapshot().topology;
        prepared.get_or_prepare(key, shared, topology, || {
            let filters = plugins.filters.iter().enumerate();
            let enabled = filters.filter(|(_, listed)| pre_filtered.skipped.runs(listed));
            Prepared::new(&placement, enabled, calls)
        })
    }

    /// Returns the clusters that pass all filters.
    fn restrict<T: Trace>(
        &self,
        prepared: &Prepared,
        context: &BindingContext<'_>,
        pre_filtered: &PreFiltered,
        calls: &mut Calls<'_, T>,
    ) -> Result<Bits, PluginError> {
        let mut current = Bits::none(context.snapshot().len());
        for share in context.current() {
            current.insert(share.ordinal);
        }
        let mut passing = prepared.passing.clone();
        if let Some(passing_if_new) = &prepared.passing_if_new {
            passing.intersect_either(passing_if_new, &current);
        }
        for (_, only) in &pre_filtered.only {
            passing.intersect(only);
        }
        for (index, listed) in self.plugins.filters.iter().enumerate() {
            if matches!(listed.plugin, Filter::Binding(_)) && pre_filtered.skipped.runs(listed) {
                calls.call(Point::Filter, index, listed, |filter| match filter {
                    Filter::Binding(filter) => filter.restrict(context, &current, &mut passing),
                    Filter::Placement(_) => Ok(()),
                })?;
            }
        }
        passing.trim(context.snapshot().len());
        Ok(passing)
    }

    /// Records the inputs of the filters about each cluster.
    fn trace_inputs<T: Trace>(
        &self,
        context: &BindingContext<'_>,
        pre_filtered: &PreFiltered,
        calls: &mut Calls<'_, T>,
    ) {
        let filters = self.plugins.filters.iter().enumerate();
        for (index, listed) in filters.filter(|(_, listed)| pre_filtered.skipped.runs(listed)) {
            let Filter::Binding(filter) = &listed.plugin else {
                continue;
            };
            for cluster in context.snapshot().clusters() {
                calls.begin_call(Point::Filter, index);
                let inputs = filter.inputs(context, &cluster);
                calls.end_call();
                calls.trace.inputs(cluster.ordinal(), &listed.name, inputs);
            }
        }
    }

    /// Returns the rejecting plugin and its reason for each cluster that does not pass. Omits clusters that are being
    /// deleted.
    fn rejected<T: Trace>(
        &self,
        context: &BindingContext<'_>,
        pre_filtered: &PreFiltered,
        passing: &Bits,
        calls: &mut Calls<'_, T>,
    ) -> Vec<Rejected<'_>> {
        let mut rejection = |cluster: &ClusterView<'_>| {
            let filters = self.plugins.filters.iter().enumerate();
            let mut enabled = filters.filter(|(_, listed)| pre_filtered.skipped.runs(listed));
            enabled.find_map(|(index, listed)| {
                calls.begin_call(Point::Filter, index);
                let reason = listed.plugin.check(context, cluster).err()?;
                Some((&listed.name, reason))
            })
        };
        let left_out = |cluster: &ClusterView<'_>| {
            let (index, _) = pre_filtered
                .only
                .iter()
                .find(|(_, only)| !only.contains(cluster.ordinal()))?;
            let plugin = &self.plugins.pre_filters.get(*index)?.name;
            let reason = format!("cluster(s) were left out by plugin {plugin}");
            Some((plugin, reason.into()))
        };
        let rejected = context
            .snapshot()
            .clusters()
            .filter(|cluster| !cluster.is_deleting() && !passing.contains(cluster.ordinal()))
            .filter_map(|cluster| {
                let (plugin, reason) = left_out(&cluster).or_else(|| rejection(&cluster))?;
                Some(Rejected {
                    ordinal: cluster.ordinal(),
                    plugin,
                    reason,
                })
            })
            .collect();
        calls.end_call();
        rejected
    }
}
