//! The fleet after the changes of `--without` and `--taint`.

use std::collections::BTreeMap;

use berth_api::Cluster;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::args::{SimulateArgs, TaintArg};
use super::error::SimulateError;

/// Clusters by name.
pub(crate) type Clusters = BTreeMap<String, Cluster>;

/// Note for simulations with `--taint`.
pub(crate) const TAINT_NOTE: &str = "a taint keeps out what is not placed yet, and moves nothing that is placed; evicting by \
     NoExecute is up to the taint manager and is not simulated";

/// Returns the clusters with the changes of the flags.
///
/// # Errors
/// When a flag names a cluster that does not exist.
pub(crate) fn changed(clusters: &Clusters, args: &SimulateArgs) -> Result<Clusters, SimulateError> {
    let mut changed = clusters.clone();
    for name in &args.without {
        let cluster = find(&mut changed, "--without", name)?;
        // A deletion makes the scheduler process the bindings of the cluster.
        cluster.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::now()));
    }
    for TaintArg { cluster, taint } in &args.taint {
        let cluster = find(&mut changed, "--taint", cluster)?;
        let taints = &mut cluster.spec.taints;
        taints.retain(|known| known.key != taint.key || known.effect != taint.effect);
        taints.push(taint.clone());
        let generation = cluster.metadata.generation.unwrap_or(0);
        cluster.metadata.generation = Some(generation.saturating_add(1));
    }
    Ok(changed)
}

fn find<'a>(
    clusters: &'a mut Clusters,
    flag: &'static str,
    name: &str,
) -> Result<&'a mut Cluster, SimulateError> {
    if !clusters.contains_key(name) {
        return Err(SimulateError::NoSuchCluster {
            flag,
            cluster: name.to_owned(),
            clusters: clusters.keys().cloned().collect(),
        });
    }
    clusters
        .get_mut(name)
        .ok_or_else(|| SimulateError::Sandbox(format!("{name} is lost")))
}
