//! Clients that reach a member through the subresource `clusters/proxy` of the control plane. The control plane forwards
//! the requests with the rights of its own user.

use http::Request;
use http::uri::{InvalidUri, PathAndQuery, Uri};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

/// The API of Clusters.
const CLUSTERS: &str = "cluster.karmada.io/v1alpha1";
/// The subresource.
const PROXY: &str = "clusters/proxy";

/// Reports whether a control plane serves the subresource. Karmada's aggregated API server does.
///
/// # Errors
/// When the discovery request fails.
pub async fn is_served(control_plane: &Client) -> Result<bool, kube::Error> {
    let served = control_plane.list_api_group_resources(CLUSTERS).await?;
    let mut resources = served.resources.iter();
    Ok(resources.any(|resource| resource.name == PROXY))
}

/// Creates a client that sends all its requests through the control plane.
pub fn client(control_plane: &Client, cluster: &str) -> Client {
    let prefix = format!("/apis/{CLUSTERS}/clusters/{cluster}/proxy");
    let namespace = control_plane.default_namespace().to_owned();
    let control_plane = control_plane.clone();
    let service = service_fn(move |mut request: Request<Body>| {
        let control_plane = control_plane.clone();
        let uri = forwarded(&prefix, request.uri());
        async move {
            *request.uri_mut() = uri?;
            control_plane.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, namespace)
}

fn forwarded(prefix: &str, uri: &Uri) -> Result<Uri, InvalidUri> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    format!("{prefix}{path}").parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_keep_their_path_and_query() {
        let uri = Uri::from_static("/api/v1/namespaces/n/configmaps/c?dryRun=All");
        assert_eq!(
            forwarded("/clusters/m1/proxy", &uri).unwrap(),
            "/clusters/m1/proxy/api/v1/namespaces/n/configmaps/c?dryRun=All"
        );
    }
}
