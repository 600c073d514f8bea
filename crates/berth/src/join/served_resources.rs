//! The check that a member serves the resources of `--resources`.

use berth_apimachinery::api_error::api_error_message;
use kube::discovery::{ApiResource, Discovery};

use super::applier::Applier;
use super::rights::GroupResource;

/// An error of the check.
#[derive(Debug, thiserror::Error)]
pub enum UnservedResource {
    /// The member has no resource with this name, and is not expected to get one.
    #[error("{member} serves no resource {resource}: {advice}")]
    Unknown {
        /// Name of the member.
        member: String,
        /// The resource, from the command line.
        resource: String,
        /// The remedy.
        advice: String,
    },
    /// The resources of the member cannot be read.
    #[error("cannot read the resources that {member} serves: {}", api_error_message(.source))]
    Read {
        /// Name of the member.
        member: String,
        /// The error of the request.
        source: Box<kube::Error>,
    },
}

/// The result of the search for a resource.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Served,
    /// The member does not serve the API group. A CustomResourceDefinition may add it later.
    UnservedGroup,
    /// No resource has this name. A similar name, if there is one.
    Unknown(Option<String>),
}

/// Checks that the member serves the resources. Prints the resources whose API group the member does not serve.
pub(super) async fn check(
    member: &Applier<'_>,
    resources: &[GroupResource],
) -> Result<(), UnservedResource> {
    if resources.is_empty() {
        return Ok(());
    }
    let discovery = match Discovery::new(member.client.clone()).run_aggregated().await {
        Ok(discovery) => Ok(discovery),
        // The member may not support aggregated discovery.
        Err(_) => Discovery::new(member.client.clone()).run().await,
    };
    let discovery = discovery.map_err(|source| UnservedResource::Read {
        member: member.server_name().to_owned(),
        source: Box::new(source),
    })?;
    let groups = discovery.groups();
    let served: Vec<ApiResource> = groups
        .flat_map(kube::discovery::ApiGroup::resources_by_stability)
        .map(|(resource, _)| resource)
        .collect();
    for resource in resources {
        match find(&served, resource) {
            Found::Served => {}
            Found::UnservedGroup => {
                member.report(&format!("resource {resource}"), "is not served yet");
            }
            Found::Unknown(similar) => {
                return Err(UnservedResource::Unknown {
                    member: member.server_name().to_owned(),
                    resource: resource.to_string(),
                    advice: match similar {
                        Some(similar) => format!("did you mean {similar}?"),
                        None => "`kubectl api-resources` lists the names".to_owned(),
                    },
                });
            }
        }
    }
    Ok(())
}

fn find(served: &[ApiResource], wanted: &GroupResource) -> Found {
    let (group, name) = (wanted.group(), wanted.resource());
    let in_group = |resource: &&ApiResource| resource.group == group;
    if served
        .iter()
        .filter(in_group)
        .any(|resource| resource.plural == name)
    {
        return Found::Served;
    }
    // The same name in another group, or the singular of the name.
    let is_similar =
        |resource: &&ApiResource| resource.plural == name || resource.kind.to_lowercase() == name;
    let mut similar = served
        .iter()
        .filter(in_group)
        .chain(served)
        .filter(is_similar);
    let similar = similar
        .next()
        .map(|resource| match resource.group.as_str() {
            "" => resource.plural.clone(),
            group => format!("{}.{group}", resource.plural),
        });
    if similar.is_none() && !served.iter().any(|resource| resource.group == group) {
        Found::UnservedGroup
    } else {
        Found::Unknown(similar)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;

    use super::*;

    #[test]
    fn a_name_that_no_definition_can_add_is_unknown() {
        let served = [
            ("", "Service"),
            ("apps", "Deployment"),
            ("networking.k8s.io", "Ingress"),
        ]
        .map(|(group, kind)| ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)));
        let unknown = |similar: Option<&str>| Found::Unknown(similar.map(str::to_owned));
        for (text, expected) in [
            ("services", Found::Served),
            ("deployments.apps", Found::Served),
            ("deployment", unknown(Some("deployments.apps"))),
            ("deployments", unknown(Some("deployments.apps"))),
            ("deployment.apps", unknown(Some("deployments.apps"))),
            ("deployments.app", unknown(Some("deployments.apps"))),
            ("ingress", unknown(Some("ingresses.networking.k8s.io"))),
            ("nothing", unknown(None)),
            ("nothing.apps", unknown(None)),
            ("foos.example.io", Found::UnservedGroup),
        ] {
            assert_eq!(find(&served, &text.parse().unwrap()), expected, "{text}");
        }
    }
}
