//! Discovery of the APIs that a member serves.

use berth_api::cluster::{ApiEnablement, ApiResource};
use berth_apimachinery::api_error::api_error_message;
use kube::Client;
use kube::core::discovery::v2::{APIGroupDiscovery, APIVersionDiscovery};
use kube::discovery::{self, ApiGroup};

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
    let aggregated = tokio::try_join!(
        client.list_core_api_versions_aggregated(),
        client.list_api_groups_aggregated(),
    );
    let (mut enablements, complete) = match aggregated {
        Ok((core, named)) if !core.items.is_empty() => {
            from_aggregated(core.items.into_iter().chain(named.items))
        }
        // The server may lack aggregated discovery.
        _ => discover_groups(client).await,
    };
    enablements.sort_by(|a, b| a.group_version.cmp(&b.group_version));
    ServedApis {
        enablements,
        complete,
    }
}

/// Converts aggregated discovery documents. A stale document is not complete: the server could not read the APIs of an
/// aggregated API server.
fn from_aggregated(groups: impl Iterator<Item = APIGroupDiscovery>) -> (Vec<ApiEnablement>, bool) {
    let (mut found, mut complete) = (Vec::new(), true);
    for group in groups {
        let name = group.metadata.and_then(|metadata| metadata.name);
        for version in group.versions {
            complete &= version.freshness.as_deref() != Some("Stale");
            found.push(enablement(name.as_deref().unwrap_or_default(), version));
        }
    }
    (found, complete)
}

fn enablement(group: &str, version: APIVersionDiscovery) -> ApiEnablement {
    let name = version.version.unwrap_or_default();
    let resources = version.resources.into_iter().map(|resource| ApiResource {
        name: resource.resource.unwrap_or_default(),
        kind: resource
            .response_kind
            .and_then(|kind| kind.kind)
            .unwrap_or_default(),
    });
    sorted(group, &name, resources)
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
                let error = api_error_message(&error);
                tracing::debug!(
                    error,
                    group = name,
                    "cannot discover an API group of a member"
                );
                complete = false;
            }
        }
    }
    (found, complete)
}

fn versions(group: &ApiGroup) -> impl Iterator<Item = ApiEnablement> + '_ {
    group.versions().map(|version| {
        let resources = group
            .versioned_resources(version)
            .into_iter()
            .map(|(resource, _)| ApiResource {
                name: resource.plural,
                kind: resource.kind,
            });
        sorted(group.name(), version, resources)
    })
}

/// Returns the resources of a version, sorted by name.
fn sorted(
    group: &str,
    version: &str,
    resources: impl Iterator<Item = ApiResource>,
) -> ApiEnablement {
    let mut resources: Vec<ApiResource> = resources.collect();
    resources.sort_by(|a, b| a.name.cmp(&b.name));
    let group_version = match group {
        ApiGroup::CORE_GROUP => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    ApiEnablement {
        group_version,
        resources,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stale_group_makes_the_apis_incomplete() {
        let groups = |freshness: &str| -> Vec<APIGroupDiscovery> {
            let group = |name: &str, freshness: &str, kinds: &[&str]| {
                let resources: Vec<_> = kinds
                    .iter()
                    .map(|kind| {
                        json!({ "resource": format!("{}s", kind.to_lowercase()),
                            "responseKind": { "group": "", "version": "", "kind": kind } })
                    })
                    .collect();
                json!({ "metadata": { "name": name }, "versions": [
                    { "version": "v1", "freshness": freshness, "resources": resources }] })
            };
            serde_json::from_value(json!([
                group("", "Current", &["Secret", "ConfigMap"]),
                group("metrics.example.com", freshness, &[]),
            ]))
            .unwrap()
        };
        for (freshness, expected) in [("Current", true), ("Stale", false)] {
            let (enablements, complete) = from_aggregated(groups(freshness).into_iter());
            assert_eq!(complete, expected, "{freshness}");
            let found: Vec<_> = enablements
                .iter()
                .map(|api| {
                    let kinds: Vec<_> = api.resources.iter().map(|r| r.kind.as_str()).collect();
                    (api.group_version.as_str(), kinds)
                })
                .collect();
            assert_eq!(
                found,
                [
                    ("v1", vec!["ConfigMap", "Secret"]),
                    ("metrics.example.com/v1", vec![])
                ]
            );
        }
    }
}
