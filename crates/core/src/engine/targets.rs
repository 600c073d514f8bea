//! The targets of a decision: shares with names, and what was there before.

use std::sync::Arc;

use crate::bits::Bits;
use crate::candidate::Candidate;
use crate::estimate::Unit;
use crate::framework::{CycleContext, PluginError, Share};
use crate::outcome::{Target, TargetComponent};

/// The clusters of `spec.clusters` that exist, in its order.
pub(super) fn prior_shares(context: &CycleContext<'_>) -> Vec<Share> {
    let prior = context.request().prior().iter();
    prior
        .filter_map(|(name, replicas)| {
            Some(Share {
                ordinal: context.snapshot().ordinal(name)?,
                replicas: *replicas,
            })
        })
        .collect()
}

/// Adds the selected clusters that get nothing, with 0 replicas.
pub(super) fn add_empty(clusters: usize, selected: &[Candidate], shares: &mut Vec<Share>) {
    let mut present = Bits::none(clusters);
    for share in &*shares {
        present.set(share.ordinal, true);
    }
    let missing = selected
        .iter()
        .filter(|candidate| !present.contains(candidate.ordinal));
    shares.extend(missing.map(|candidate| Share {
        ordinal: candidate.ordinal,
        replicas: 0,
    }));
}

/// Names the clusters. Shares that no fleet can have are the fault of the plugin that assigns.
pub(super) fn targets(
    context: &CycleContext<'_>,
    shares: &[Share],
) -> Result<Vec<Target>, PluginError> {
    let snapshot = context.snapshot();
    let by_component =
        context.request().components().len() > 1 && context.unit() == Unit::ComponentSets;
    let components = || {
        let components = context.request().components().iter();
        components
            .filter(|_| by_component)
            .map(|component| TargetComponent {
                name: component.name.clone(),
                replicas: component.replicas,
            })
            .collect()
    };
    let mut seen = Bits::none(snapshot.len());
    let mut targets = Vec::with_capacity(shares.len());
    for share in shares {
        let Some(name) = snapshot.name(share.ordinal) else {
            let text = format!("cluster {} does not exist", share.ordinal);
            return Err(PluginError::failed(text));
        };
        if share.replicas < 0 || seen.contains(share.ordinal) {
            let text = format!("cluster {name} has a negative share, or two of them");
            return Err(PluginError::failed(text));
        }
        seen.set(share.ordinal, true);
        targets.push(Target {
            name: Arc::clone(name),
            replicas: i32::try_from(share.replicas).unwrap_or(i32::MAX),
            components: components(),
        });
    }
    Ok(targets)
}
