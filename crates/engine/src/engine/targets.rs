//! Conversion between [`Share`]s, which identify clusters by ordinal, and [`Target`]s, which identify clusters by name.

use std::sync::Arc;

use crate::candidate::Candidate;
use crate::cluster_set::Bits;
use crate::estimate::Unit;
use crate::fleet::Snapshot;
use crate::framework::{AttemptContext, PluginError, Share};
use crate::outcome::{Target, TargetComponent};

/// Returns the shares of the clusters in `spec.clusters` of the binding, in the same order. Omits clusters that no
/// longer exist.
pub(super) fn current_shares(context: &AttemptContext<'_>) -> Vec<Share> {
    let current = context.request().current().iter();
    current
        .filter_map(|(name, replicas)| {
            Some(Share {
                ordinal: context.snapshot().ordinal(name)?,
                replicas: *replicas,
            })
        })
        .collect()
}

/// Adds a share of 0 replicas for each selected cluster without a share.
pub(super) fn add_empty_shares(clusters: usize, selected: &[Candidate], shares: &mut Vec<Share>) {
    let mut present = Bits::none(clusters);
    for share in &*shares {
        present.insert(share.ordinal);
    }
    let missing = selected
        .iter()
        .filter(|candidate| !present.contains(candidate.ordinal));
    shares.extend(missing.map(|candidate| Share {
        ordinal: candidate.ordinal,
        replicas: 0,
    }));
}

/// Returns an error for impossible shares: an unknown cluster, negative replicas, or two shares of one cluster. Such
/// shares are a bug in the assign plugin.
pub(super) fn check_shares(snapshot: &Snapshot, shares: &[Share]) -> Result<(), PluginError> {
    // Fast path for valid shares in ascending order of ordinals. The sign bit of `sign` collects the sign bits of all
    // replicas and of all steps between ordinals, so a negative share, a wrong order or a duplicate sets it.
    let first = shares.first().map_or(0, |share| share.replicas);
    let sign = shares.windows(2).fold(first, |sign, pair| match pair {
        [one, other] => {
            let step = other.ordinal.wrapping_sub(one.ordinal).wrapping_sub(1);
            sign | other.replicas | step.cast_signed() as i64
        }
        _ => sign,
    });
    let last = shares
        .last()
        .map_or(0, |share| share.ordinal.saturating_add(1));
    if sign >= 0 && last <= snapshot.len() {
        return Ok(());
    }
    let mut seen = Bits::none(snapshot.len());
    for share in shares {
        let Some(name) = snapshot.name(share.ordinal) else {
            let text = format!("cluster {} does not exist", share.ordinal);
            return Err(PluginError::failed(text));
        };
        if share.replicas < 0 || seen.contains(share.ordinal) {
            let text = format!("cluster {name} has a negative share or more than one share");
            return Err(PluginError::failed(text));
        }
        seen.insert(share.ordinal);
    }
    Ok(())
}

/// Converts shares to targets. The shares must have passed [`check_shares`].
pub(super) fn targets(context: &AttemptContext<'_>, shares: &[Share]) -> Vec<Target> {
    let names = context.snapshot().names();
    let request = context.request();
    let by_component = request.components().len() > 1 && context.unit() == Unit::ComponentSets;
    let components = || {
        let components = request.components().iter().filter(|_| by_component);
        components
            .map(|component| TargetComponent {
                name: component.name.clone(),
                replicas: component.replicas,
            })
            .collect()
    };
    shares
        .iter()
        .map(|share| Target {
            name: Arc::clone(&names[share.ordinal]),
            replicas: i32::try_from(share.replicas).unwrap_or(i32::MAX),
            components: components(),
        })
        .collect()
}
