//! The conversion between shares and named targets.

use std::sync::Arc;

use crate::bits::Bits;
use crate::candidate::Candidate;
use crate::estimate::Unit;
use crate::fleet::Snapshot;
use crate::framework::{CycleContext, PluginError, Share};
use crate::outcome::{Target, TargetComponent};

/// Returns the existing clusters of `spec.clusters`, in their order.
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

/// Adds the selected clusters without a share, with 0 replicas.
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

/// Rejects impossible shares, which are a fault of the assign plugin.
pub(super) fn check(snapshot: &Snapshot, shares: &[Share]) -> Result<(), PluginError> {
    // Shares are usually sorted by ordinal and so without duplicates. A difference below 1 or a negative share
    // sets the sign bit.
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
            let text = format!("cluster {name} has a negative share, or two of them");
            return Err(PluginError::failed(text));
        }
        seen.set(share.ordinal, true);
    }
    Ok(())
}

/// Converts checked shares to named targets.
pub(super) fn targets(context: &CycleContext<'_>, shares: &[Share]) -> Vec<Target> {
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
