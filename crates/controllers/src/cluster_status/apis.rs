//! Which APIs a member serves.

use berth_api::cluster::{ApiEnablement, ApiResource};
use kube::Client;
use kube::discovery::{self, ApiGroup, Discovery};

/// What was found, and whether that is all.
#[derive(Debug)]
pub struct Found {
    /// The groups, versions and resources, sorted.
    pub enablements: Vec<ApiEnablement>,
    /// Whether that is all.
    pub complete: bool,
}

/// The condition `CompleteAPIEnablements`: whether it is true, its reason and its message.
pub(super) fn condition(found: &Found) -> (bool, &'static str, String) {
    match (found.enablements.len(), found.complete) {
        (0, _) => (
            false,
            "Empty",
            "collected empty APIEnablements from the cluster".to_owned(),
        ),
        (_, true) => (
            true,
            "Complete",
            "collected complete APIEnablements from the cluster".to_owned(),
        ),
        (count, false) => (
            false,
            "Partial",
            format!("might collect partial APIEnablements({count}) from the cluster"),
        ),
    }
}

/// All groups, versions and resources, sorted. Where some cannot be asked for, the others are kept.
pub async fn served(client: &Client) -> Found {
    let (mut enablements, complete): (Vec<_>, _) =
        match Discovery::new(client.clone()).run_aggregated().await {
            Ok(discovery) => (discovery.groups().flat_map(versions).collect(), true),
            // Servers without aggregated discovery are asked group by group.
            Err(_) => one_by_one(client).await,
        };
    enablements.sort_by(|a, b| a.group_version.cmp(&b.group_version));
    Found {
        enablements,
        complete,
    }
}

async fn one_by_one(client: &Client) -> (Vec<ApiEnablement>, bool) {
    let mut found = Vec::new();
    let (names, mut complete) = match client.list_api_groups().await {
        Ok(list) => (
            list.groups.into_iter().map(|group| group.name).collect(),
            true,
        ),
        Err(_) => (Vec::new(), false),
    };
    for name in std::iter::once(ApiGroup::CORE_GROUP.to_owned()).chain(names) {
        match discovery::group(client, &name).await {
            Ok(group) => found.extend(versions(&group)),
            Err(error) => {
                tracing::debug!(%error, group = name, "an API group of a member does not answer");
                complete = false;
            }
        }
    }
    (found, complete)
}

fn versions(group: &ApiGroup) -> impl Iterator<Item = ApiEnablement> + '_ {
    group.versions().map(|version| {
        let mut resources: Vec<ApiResource> = group
            .versioned_resources(version)
            .into_iter()
            .map(|(resource, _)| ApiResource {
                name: resource.plural,
                kind: resource.kind,
            })
            .collect();
        resources.sort_by(|a, b| a.name.cmp(&b.name));
        let group_version = match group.name() {
            ApiGroup::CORE_GROUP => version.to_owned(),
            name => format!("{name}/{version}"),
        };
        ApiEnablement {
            group_version,
            resources,
        }
    })
}
