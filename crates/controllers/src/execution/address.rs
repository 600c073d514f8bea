//! What a connection to a member depends on.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::cluster::LocalSecretReference;

/// When this changes, there has to be a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    endpoint: String,
    secret: Option<LocalSecretReference>,
    skip_verification: bool,
    proxy: Option<String>,
    proxy_header: BTreeMap<String, String>,
}

impl Address {
    /// The address in a Cluster, if it has one.
    pub(super) fn of(cluster: &Cluster) -> Option<Self> {
        let spec = &cluster.spec;
        let endpoint = spec.api_endpoint.as_deref()?;
        (!endpoint.is_empty()).then(|| Self {
            endpoint: endpoint.to_owned(),
            secret: spec.secret_ref.clone(),
            skip_verification: spec.insecure_skip_tls_verification == Some(true),
            proxy: spec.proxy_url.clone(),
            proxy_header: spec.proxy_header.clone(),
        })
    }
}
