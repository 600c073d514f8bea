//! Discovery of the APIs that a member serves.

use berth_api::cluster::{ApiEnablement, ApiResource};
use kube::Client;
use kube::discovery::{self, ApiGroup, Discovery};

/// The APIs that a member serves.
#[derive(Debug)]
pub struct ServedApis {
    /// The resources of each group and version, sorted by group and version.
    pub enablements: Vec<ApiEnablement>,
    /// True if all groups were discovered.
    pub complete: bool,
}

/// Returns status, reason and message of the condition `CompleteAPIEnablements`.
pub(super) fn condition(served: &ServedApis) -> (bool, &'static str, String) {
    match (served.enablements.len(), served.complete) {
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

/// Discovers all APIs of a server. Groups that cannot be discovered are omitted.
pub async fn discover(client: &Client) -> ServedApis {
    let (mut enablements, complete): (Vec<_>, _) =
        match Discovery::new(client.clone()).run_aggregated().await {
            Ok(discovery) => (discovery.groups().flat_map(versions).collect(), true),
            // The server may lack aggregated discovery.
            Err(_) => discover_groups(client).await,
        };
    enablements.sort_by(|a, b| a.group_version.cmp(&b.group_version));
    ServedApis {
        enablements,
        complete,
    }
}

/// Discovers the API groups of a server one by one. Also reports whether all groups were discovered.
async fn discover_groups(client: &Client) -> (Vec<ApiEnablement>, bool) {
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
                tracing::debug!(%error, group = name, "cannot discover an API group of a member");
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
