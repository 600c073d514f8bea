//! The command `berth uncordon`, which allows new workloads on members again. With `--bring-back`, the workloads that
//! `berth drain` has evicted are placed again.

use berth_api::BindingKey;
use berth_api::binding::clusters_evicted_from;
use berth_api::well_known::EVICTED_FROM;
use berth_component_base::paged_list::all_pages;
use berth_plan::control_plane_lists::placement_resources;
use clap::Args;
use jiff::Timestamp;
use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt as _};

use super::binding_patch::{Written, patch_binding};
use super::bring_back::bring_back_patch;
use super::error::DrainError;
use crate::clusters::cordon::{self, CordonArgs, CordonState};
use crate::output;

/// Flags of `berth uncordon`.
#[derive(Args, Clone, Debug)]
pub struct UncordonArgs {
    /// Have the workloads that `berth drain` has evicted from the members placed again
    #[arg(long)]
    pub bring_back: bool,

    /// Names of the members, and the flags that `berth cordon` has, too.
    #[command(flatten)]
    pub cordon: CordonArgs,
}

/// Uncordons members, one after the other, and brings back or counts the bindings that were drained from them.
///
/// # Errors
/// Returns the error of the first member or binding that cannot be changed.
pub async fn run(args: UncordonArgs) -> Result<(), DrainError> {
    let CordonArgs {
        names,
        dry_run,
        control_plane,
    } = args.cordon.clone();
    cordon::run(args.cordon, CordonState::Uncordoned).await?;
    let resources = placement_resources();
    if !args.bring_back {
        // The hint needs rights and kinds that the command itself does not need.
        if let Ok(client) = control_plane.client(&resources).await
            && let Ok(drained) = drained_bindings(&client).await
        {
            for name in &names {
                output::print(&hint(name, drained_from(&drained, name).count()))?;
            }
        }
        return Ok(());
    }
    let client = control_plane.client(&resources).await?;
    let drained = drained_bindings(&client).await?;
    let note = if dry_run { " (dry run)" } else { "" };
    for name in &names {
        let mut count = 0;
        for (key, _) in drained_from(&drained, name) {
            if dry_run || bring_back(&client, key, name).await? == Written::Changed {
                count += 1;
                output::print(&format!("{key} rescheduled{note}\n"))?;
            }
        }
        output::print(&summary(name, count, note))?;
    }
    Ok(())
}

/// Requests a new decision about a binding that was drained from a cluster.
async fn bring_back(
    client: &Client,
    key: &BindingKey,
    cluster: &str,
) -> Result<Written, DrainError> {
    let doing = format!("bring back {key} to {cluster}");
    patch_binding(client, key, &doing, |binding| {
        bring_back_patch(binding, cluster, Timestamp::now())
    })
    .await
}

/// Returns the bindings that were drained, each with the value of its annotation.
async fn drained_bindings(client: &Client) -> Result<Vec<(BindingKey, String)>, DrainError> {
    let mut drained = Vec::new();
    for (kind, doing) in [
        (berth_api::BindingKind::Namespaced, "list resourcebindings"),
        (
            berth_api::BindingKind::Cluster,
            "list clusterresourcebindings",
        ),
    ] {
        let resource = kind.api_resource();
        let bindings: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let objects = all_pages(|params| {
            let bindings = bindings.clone();
            async move { bindings.list_metadata(&params).await }
        });
        let objects = objects.await.map_err(DrainError::refused(doing))?;
        drained.extend(objects.iter().filter_map(|object| {
            let annotation = object.annotations().get(EVICTED_FROM)?;
            Some((BindingKey::of(&object.metadata), annotation.clone()))
        }));
    }
    Ok(drained)
}

/// Returns the bindings that were drained from a cluster.
fn drained_from<'a>(
    drained: &'a [(BindingKey, String)],
    cluster: &'a str,
) -> impl Iterator<Item = &'a (BindingKey, String)> {
    drained.iter().filter(move |(_, annotation)| {
        clusters_evicted_from(annotation).any(|name| name == cluster)
    })
}

/// Returns a note about the bindings that can be brought back, or an empty text if there are none.
fn hint(cluster: &str, count: usize) -> String {
    let text = match count {
        0 => return String::new(),
        1 => "1 binding was".to_owned(),
        several => format!("{several} bindings were"),
    };
    format!(
        "note: {text} drained from {cluster}; run `berth uncordon --bring-back {cluster}` to have the scheduler decide \
         about them again\n"
    )
}

fn summary(cluster: &str, count: usize, note: &str) -> String {
    match count {
        0 => format!("no bindings were drained from {cluster}\n"),
        1 => format!(
            "the scheduler decides again about 1 binding that was drained from {cluster}{note}\n"
        ),
        several => format!(
            "the scheduler decides again about {several} bindings that were drained from {cluster}{note}\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_counts_the_bindings_of_the_cluster() {
        let drained = ["m1", "m10", "m2,m1"]
            .map(|clusters| (BindingKey::new("shop", clusters), clusters.to_owned()));
        for (cluster, expected) in [
            ("m1", "note: 2 bindings were drained from m1;"),
            ("m2", "note: 1 binding was drained from m2;"),
            ("m3", ""),
        ] {
            let text = hint(cluster, drained_from(&drained, cluster).count());
            assert!(text.starts_with(expected), "{text}");
            assert_eq!(text.is_empty(), expected.is_empty(), "{text}");
        }
    }
}
