//! PreFilter and Filter: which clusters can take the workload at all, and why the others cannot.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::guard::{call, call_skipping, panicked, point};
use super::prepared::{Key, Prepared};
use super::roster::Switches;
use super::{Engine, Trace};
use crate::bits::Bits;
use crate::error::{FitError, ScheduleError};
use crate::fleet::ClusterView;
use crate::framework::{
    BindingContext, CycleContext, CycleState, Filter, PluginError, Point, PreFilterResult, Reason,
    Share,
};

/// What PreFilter left to look at.
#[derive(Debug, Default)]
pub(super) struct Narrowed {
    switches: Switches,
    /// The clusters that a plugin, by its place, left alone.
    only: Vec<(usize, Bits)>,
}

/// Why a cluster does not pass.
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
        trace: &mut T,
    ) -> Result<Narrowed, ScheduleError> {
        if self.roster.pre_filters.is_empty() {
            return Ok(Narrowed::default());
        }
        point(trace, Point::PreFilter, |trace| {
            let mut narrowed = Narrowed::default();
            for (place, listed) in self.roster.pre_filters.iter().enumerate() {
                let skips = |result: &PreFilterResult| *result == PreFilterResult::Skip;
                let result = call_skipping(trace, Point::PreFilter, listed, skips, |plugin| {
                    plugin.pre_filter(context, state)
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

    /// The clusters that pass, and what was prepared for the placement.
    pub(super) fn filter<T: Trace>(
        &mut self,
        context: &BindingContext<'_>,
        narrowed: &Narrowed,
        prior: &[Share],
        trace: &mut T,
    ) -> Result<(Arc<Prepared>, Bits), ScheduleError> {
        let prepared = self.prepare(context, narrowed, trace)?;
        let passing = self.restrict(&prepared, context, narrowed, prior, trace)?;
        if T::EXPLAINS || passing.is_empty() {
            let refused = self.refused(context, narrowed, &passing)?;
            for Refused {
                ordinal,
                plugin,
                reason,
            } in &refused
            {
                trace.refused(*ordinal, plugin, reason);
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
        trace: &mut T,
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
            let on = |listed: &&_| narrowed.switches.is_on(listed);
            Prepared::new(&placement, roster.filters.iter().filter(on), trace)
        })
    }

    /// The clusters that pass all filters.
    fn restrict<T: Trace>(
        &self,
        prepared: &Prepared,
        context: &BindingContext<'_>,
        narrowed: &Narrowed,
        prior: &[Share],
        trace: &mut T,
    ) -> Result<Bits, PluginError> {
        let mut holding = Bits::none(context.snapshot().len());
        for share in prior {
            holding.set(share.ordinal, true);
        }
        let mut passing = prepared.passing.clone();
        if let Some(passing_if_new) = &prepared.passing_if_new {
            passing.intersect_either(passing_if_new, &holding);
        }
        for (_, only) in &narrowed.only {
            passing.intersect(only);
        }
        for listed in &self.roster.filters {
            if matches!(listed.plugin, Filter::Binding(_)) && narrowed.switches.is_on(listed) {
                call(trace, Point::Filter, listed, |filter| match filter {
                    Filter::Binding(filter) => filter.restrict(context, &holding, &mut passing),
                    Filter::Placement(_) => Ok(()),
                })?;
            }
        }
        Ok(passing)
    }

    /// For each cluster that does not pass the plugin and the reason. Clusters that are being deleted have
    /// none.
    fn refused(
        &self,
        context: &BindingContext<'_>,
        narrowed: &Narrowed,
        passing: &Bits,
    ) -> Result<Vec<Refused<'_>>, PluginError> {
        let filters = &self.roster.filters;
        let asked = Cell::new(0);
        let refusal = |cluster: &ClusterView<'_>| {
            filters.iter().enumerate().find_map(|(place, listed)| {
                if !narrowed.switches.is_on(listed) {
                    return None;
                }
                asked.set(place);
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
        let collect = || {
            let refused = context
                .snapshot()
                .clusters()
                .filter(|cluster| !cluster.is_deleting() && !passing.contains(cluster.ordinal()));
            refused
                .filter_map(|cluster| {
                    let (plugin, reason) = left_out(&cluster).or_else(|| refusal(&cluster))?;
                    Some(Refused {
                        ordinal: cluster.ordinal(),
                        plugin,
                        reason,
                    })
                })
                .collect()
        };
        // Caught once for all clusters: there can be thousands.
        catch_unwind(AssertUnwindSafe(collect)).map_err(|payload| match filters.get(asked.get()) {
            Some(listed) => panicked(payload, &listed.name, Point::Filter),
            None => PluginError::panicked(&*payload),
        })
    }
}
