//! The connection to a member, and the fields of the Cluster on which the connection depends.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::cluster::LocalSecretReference;

use crate::rest_mapper::RestMapper;

/// The state of the connection.
#[derive(Debug)]
pub(super) enum Connection {
    /// No attempt to connect has finished.
    None,
    /// The last attempt to connect failed for this reason.
    Failed(String),
    /// A client for the member exists.
    Established(RestMapper),
}

/// The fields of a Cluster that a connection depends on. A change requires a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    endpoint: String,
    secret: Option<LocalSecretReference>,
    insecure_skip_tls_verification: bool,
    proxy: Option<String>,
    proxy_header: BTreeMap<String, String>,
}

impl Address {
    /// Returns the address of a Cluster, or `None` if the Cluster has no API endpoint.
    pub(super) fn of(cluster: &Cluster) -> Option<Self> {
        let spec = &cluster.spec;
        let endpoint = spec.api_endpoint.as_deref()?;
        (!endpoint.is_empty()).then(|| Self {
            endpoint: endpoint.to_owned(),
            secret: spec.secret_ref.clone(),
            insecure_skip_tls_verification: spec.insecure_skip_tls_verification == Some(true),
            proxy: spec.proxy_url.clone(),
            proxy_header: spec.proxy_header.clone(),
        })
    }
}
