//! Requests for subresources that a [`Connect`] handles. Such a request may run for a long time, like a watch.

use std::sync::Arc;

use axum::body::Body;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{self, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::in_process_client;
use crate::authorization::attributes::{Attributes, ResourceTarget, Target};
use crate::connect::{Connect, ConnectRequest, Requester};
use crate::error::ApiError;
use crate::identity::Identity;
use crate::metrics::RequestLabels;
use crate::percent_encoding::decode;
use crate::registry::Snapshot;
use crate::shared::Shared;

const METHODS: [Method; 7] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::HEAD,
    Method::OPTIONS,
];

/// A request for a connected subresource.
pub(super) struct Connection {
    handler: Arc<dyn Connect>,
    name: String,
    path: String,
}

/// Returns the connection if a request names a connected subresource of a served resource.
pub(super) fn find(
    shared: &Shared,
    snapshot: &Snapshot,
    attributes: &Attributes<'_>,
    parts: &Parts,
    labels: &mut RequestLabels,
) -> Result<Option<Connection>, ApiError> {
    let Target::Resource(target) = &attributes.target else {
        return Ok(None);
    };
    let is_match = |handler: &&Arc<dyn Connect>| {
        let handled = handler.subresource();
        (handled.group, handled.resource, handled.subresource)
            == (target.group, target.resource, target.subresource)
    };
    let Some(handler) = shared.connects.iter().find(is_match) else {
        return Ok(None);
    };
    let served = snapshot.group_version(target.group, target.version);
    if served.is_none_or(|served| !served.contains_key(target.resource)) {
        return Ok(None);
    }
    *labels = RequestLabels {
        verb: "CONNECT".to_owned(),
        group: target.group.to_owned(),
        version: target.version.to_owned(),
        resource: target.resource.to_owned(),
        subresource: target.subresource.to_owned(),
        scope: "resource".to_owned(),
        ..std::mem::take(labels)
    };
    if !METHODS.contains(&parts.method) {
        return Err(ApiError::method_not_allowed());
    }
    let path = rest(parts.uri.path(), target).ok_or_else(ApiError::path_not_found)?;
    if decode(path)
        .split('/')
        .any(|step| matches!(step, "." | ".."))
    {
        return Err(ApiError::bad_request(format!(
            "the path after {} may not contain the segments . and ..",
            target.subresource
        )));
    }
    Ok(Some(Connection {
        handler: handler.clone(),
        name: target.name.clone().into_owned(),
        path: path.to_owned(),
    }))
}

/// Returns the part of the path after the subresource, in percent-encoded form. Returns `None` if the path does not
/// start with the target.
fn rest<'a>(path: &'a str, target: &ResourceTarget<'_>) -> Option<&'a str> {
    let ResourceTarget {
        group,
        version,
        resource,
        subresource,
        namespace,
        name,
    } = target;
    let scope = match *namespace {
        "" => String::new(),
        namespace => format!("namespaces/{namespace}/"),
    };
    let prefix = format!("/apis/{group}/{version}/{scope}{resource}/{name}/{subresource}");
    let rest = path.strip_prefix(&prefix)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

impl Connection {
    /// Passes the request to its handler, and connects the client with the handler if the response is an upgrade.
    pub(super) async fn handle(
        self,
        shared: &Arc<Shared>,
        identity: Identity,
        mut parts: Parts,
        body: Body,
    ) -> Result<Response<Body>, ApiError> {
        let client_upgrade = parts.extensions.remove::<OnUpgrade>();
        parts.extensions.clear();
        remove_credentials(&mut parts.headers);
        let request = ConnectRequest {
            server: in_process_client(shared.clone()),
            name: self.name,
            path: self.path,
            requester: Requester {
                user: identity.user,
                groups: identity.groups,
            },
            request: Request::from_parts(parts, body),
        };
        let mut response = self.handler.connect(request).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let handler_upgrade = response.extensions_mut().remove::<OnUpgrade>();
            let (Some(client), Some(handler)) = (client_upgrade, handler_upgrade) else {
                let message = "this connection cannot be upgraded; use HTTP/1.1";
                return Err(ApiError::bad_request(message));
            };
            tokio::spawn(join(client, handler, shared.stopping.clone()));
        }
        Ok(response)
    }
}

/// Removes the credentials for this server and the impersonation headers from a request.
fn remove_credentials(headers: &mut HeaderMap) {
    headers.remove(header::AUTHORIZATION);
    let names: Vec<_> = headers.keys().cloned().collect();
    for name in names {
        if name.as_str().starts_with("impersonate-") {
            headers.remove(name);
        }
    }
}

/// Copies data between the client and the handler in both directions, until one side closes or the server stops.
async fn join(client: OnUpgrade, handler: OnUpgrade, stopping: CancellationToken) {
    let (client, handler) = match tokio::try_join!(client, handler) {
        Ok(sides) => sides,
        Err(error) => {
            tracing::debug!(%error, "a connection was not upgraded");
            return;
        }
    };
    let (mut client_reader, mut client_writer) = io::split(TokioIo::new(client));
    let (mut handler_reader, mut handler_writer) = io::split(TokioIo::new(handler));
    tokio::select! {
        _ = io::copy(&mut client_reader, &mut handler_writer) => {}
        _ = io::copy(&mut handler_reader, &mut client_writer) => {}
        () = stopping.cancelled() => {}
    }
    // A failed shutdown is ignored, because either side may already be closed.
    drop(client_writer.shutdown().await);
    drop(handler_writer.shutdown().await);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::attributes::Hints;

    #[test]
    fn the_path_after_the_subresource_keeps_its_escapes() {
        let rest_of = |path: &str| {
            let decoded = decode(path);
            let attributes = Attributes::of(&Method::GET, &decoded, Hints::default());
            let Target::Resource(target) = &attributes.target else {
                return None;
            };
            rest(path, target).map(str::to_owned)
        };
        let proxy = "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy";
        for tail in ["", "/", "/api/v1/nodes", "/a%2Fb/", "//a%20b"] {
            assert_eq!(rest_of(&format!("{proxy}{tail}")).as_deref(), Some(tail));
        }
        assert_eq!(
            rest_of("/apis/g/v1/namespaces/n/things/x/proxy/y").as_deref(),
            Some("/y")
        );
        // The decoded path names the cluster `m1`, and the encoded path names another cluster, `m1%2Fproxy`.
        assert_eq!(rest_of("/apis/g/v1/clusters/m1%2Fproxy/proxy/x"), None);
    }
}
