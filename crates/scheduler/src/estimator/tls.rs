//! The TLS configuration of connections to estimators. The files are read again for every connection.

use std::sync::Arc;

use berth_https_client::tls::{self, Identity, Pem, TlsError, Trust};
use rustls::ClientConfig;

use super::options::Tls;

/// Returns the TLS configuration, or `None` for connections in plain text.
pub(super) fn client_config(tls: &Tls) -> Result<Option<Arc<ClientConfig>>, TlsError> {
    let (trust, identity) = match tls {
        Tls::Plain => return Ok(None),
        Tls::Verified { ca, identity } => (Trust::Authorities(Pem::File(ca.clone())), identity),
        Tls::Unverified { identity } => (Trust::Any, identity),
    };
    let identity = identity.clone().map(|files| Identity {
        certificate: Pem::File(files.certificate),
        key: Pem::File(files.key),
    });
    let settings = tls::Tls {
        trust,
        identity,
        server_name: None,
    };
    let mut config = settings.client_config()?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(Arc::new(config)))
}
