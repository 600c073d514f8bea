//! The PreFilter and Filter steps: the clusters that pass, and the reasons why others do not.

use std::sync::Arc;

use super::guard::Calls;
use super::prepared::{Key, Prepared};
use super::roster::Switches;
use super::{Engine, Trace};
use crate::bits::Bits;
use crate::error::{FitError, ScheduleError};
use crate::fleet::ClusterView;
use crate::framework::{
    BindingContext, CycleContext, CycleState, Filter, PluginError, Point, PreFilterResult, Reason,
};

/// The result of PreFilter.
#[derive(Debug, Default)]
pub(super) struct Narrowed {
    switches: Switches,
    /// The restrictions to certain clusters, with the index of the plugin.
    only: Vec<(usize, Bits)>,
}

/// The reason why a cluster does not pass.
struct Refused<'a> {
    ordinal: usize,
    plugin: &'a Arc<str>,
    reason: Reason,
}

impl Engine {
    pub(super) fn pre_filter<T: Trace>(
        &self,
        context: &CycleContext<'_>,
        state: &mut CycleState,
        calls: &mut Calls<'_, T>,
    ) -> Result<Narrowed, ScheduleError> {
        if self.roster.pre_filters.is_empty() {
            return Ok(Narrowed::default());
        }
        calls.point(Point::PreFilter, |calls| {
            let mut narrowed = Narrowed::default();
            for (place, listed) in self.roster.pre_filters.iter().enumerate() {
                let skips = |result: &PreFilterResult| *result == PreFilterResult::Skip;
                let result =
                    calls.call_skipping(Point::PreFilter, place, listed, skips, |plugin| {
                        match plugin.pre_filter(context, state)? {
                            PreFilterResult::Only(clusters)
                                if clusters.len() != context.snapshot().len() =>
                            {
                                Err(PluginError::failed(
                                    "answered for clusters of another snapshot",
                                ))
                            }
                            result => Ok(result),
                        }
                    });
                match result? {
                    PreFilterResult::All => {}
                    PreFilterResult::Only(clusters) => narrowed.only.push((place, clusters)),
                    PreFilterResult::Skip => narrowed.switches.switch_off(place),
                }
            }
            Ok(narrowed)
        })
    }

    /// Returns the passing clusters and the prepared placement.
    pub(super) fn filter<T: Trace>(
        &mut self,
        context: &BindingContext<'_>,
        narrowed: &Narrowed,
        calls: &mut Calls<'_, T>,
    ) -> Result<(Arc<Prepared>, Bits), ScheduleError> {
        let prepared = self.prepare(context, narrowed, calls)?;
        let passing = self.restrict(&prepared, context, narrowed, calls)?;
        if T::EXPLAINS || passing.is_empty() {
            let refused = self.refused(context, narrowed, &passing, calls);
            for Refused {
                ordinal,
                plugin,
                reason,
            } in &refused
            {
                calls.trace.refused(*ordinal, plugin, reason);
            }
            if passing.is_empty() {
                let snapshot = context.snapshot();
                let reasons = refused.into_iter().filter_map(|refused| {
                    let name = snapshot.name(refused.ordinal)?;
                    Some((Arc::clone(name), refused.reason))
                });
                return Err(FitError::new(snapshot.len(), reasons.collect()).into());
            }
        }
        Ok((prepared, passing))
    }

    fn prepare<T: Trace>(
        &mut self,
        context: &BindingContext<'_>,
        narrowed: &Narrowed,
        calls: &mut Calls<'_, T>,
    ) -> Result<Arc<Prepared>, PluginError> {
        let Self {
            prepared, roster, ..
        } = self;
        let placement = context.cycle().placement();
        let (shared, hash) = context.request().shared_placement();
        let key = Key {
            placement_hash: hash,
            term: placement.term_index(),
            is_workload: placement.is_workload(),
            switches: narrowed.switches.clone(),
        };
        let topology = &context.snapshot().topology;
        prepared.get_or_prepare(key, shared, topology, || {
            let filters = roster.filters.iter().enumerate();
            let on = filters.filter(|(_, listed)| narrowed.switches.is_on(listed));
            Prepared::new(&placement, on, calls)
        })
    }

    /// Returns the clusters that pass all filters.
    fn restrict<T: Trace>(
        &self,
        prepared: &Prepared,
        context: &BindingContext<'_>,
        narrowed: &Narrowed,
        calls: &mut Calls<'_, T>,
    ) -> Result<Bits, PluginError> {
        let mut holding = Bits::none(context.snapshot().len());
        for share in context.prior() {
            holding.set(share.ordinal, true);
        }
        let mut passing = prepared.passing.clone();
        if let Some(passing_if_new) = &prepared.passing_if_new {
            passing.intersect_either(passing_if_new, &holding);
        }
        for (_, only) in &narrowed.only {
            passing.intersect(only);
        }
        for (place, listed) in self.roster.filters.iter().enumerate() {
            if matches!(listed.plugin, Filter::Binding(_)) && narrowed.switches.is_on(listed) {
                calls.call(Point::Filter, place, listed, |filter| match filter {
                    Filter::Binding(filter) => filter.restrict(context, &holding, &mut passing),
                    Filter::Placement(_) => Ok(()),
                })?;
            }
        }
        passing.trim(context.snapshot().len());
        Ok(passing)
    }

    /// Returns plugin and reason for each cluster that does not pass, except for clusters in deletion.
    fn refused<T: Trace>(
        &self,
        context: &BindingContext<'_>,
        narrowed: &Narrowed,
        passing: &Bits,
        calls: &mut Calls<'_, T>,
    ) -> Vec<Refused<'_>> {
        let mut refusal = |cluster: &ClusterView<'_>| {
            let filters = self.roster.filters.iter().enumerate();
            let mut on = filters.filter(|(_, listed)| narrowed.switches.is_on(listed));
            on.find_map(|(place, listed)| {
                calls.asks(Point::Filter, place);
                let reason = listed.plugin.check(context, cluster).err()?;
                Some((&listed.name, reason))
            })
        };
        let left_out = |cluster: &ClusterView<'_>| {
            let (place, _) = narrowed
                .only
                .iter()
                .find(|(_, only)| !only.contains(cluster.ordinal()))?;
            let plugin = &self.roster.pre_filters.get(*place)?.name;
            let reason = format!("cluster(s) were left out by plugin {plugin}");
            Some((plugin, reason.into()))
        };
        let refused = context
            .snapshot()
            .clusters()
            .filter(|cluster| !cluster.is_deleting() && !passing.contains(cluster.ordinal()))
            .filter_map(|cluster| {
                let (plugin, reason) = left_out(&cluster).or_else(|| refusal(&cluster))?;
                Some(Refused {
                    ordinal: cluster.ordinal(),
                    plugin,
                    reason,
                })
            })
            .collect();
        calls.asks_nobody();
        refused
    }
}
