//! A listener for TLS connections. Handshakes run concurrently, so a slow handshake does not delay other connections.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_apimachinery::log_limit::LogLimit;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use crate::serving_certificate::{ServingCertificate, provider};

/// Maximum number of concurrent handshakes. A further one ends the oldest.
const MAX_HANDSHAKES: usize = 64;
/// Maximum time for a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept. The usual cause is a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The limit on log lines about failed handshakes, which any client can cause.
static FAILED_HANDSHAKES: LogLimit = LogLimit::new(10, Duration::from_mins(1));

type Connection = (TlsStream<TcpStream>, SocketAddr);

/// A listener for TLS connections.
pub(crate) struct SecureListener {
    connections: mpsc::Receiver<Connection>,
    address: SocketAddr,
    _accepting: AbortOnDropHandle<()>,
}

impl SecureListener {
    /// Accepts the connections of `listener`, and presents the certificate to the clients.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub(crate) fn new(listener: TcpListener, certificate: ServingCertificate) -> io::Result<Self> {
        let mut tls = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certificate));
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let address = listener.local_addr()?;
        let (sender, connections) = mpsc::channel(MAX_HANDSHAKES);
        let accepting = tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(tls)), sender));
        Ok(Self {
            connections,
            address,
            _accepting: AbortOnDropHandle::new(accepting),
        })
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, sender: mpsc::Sender<Connection>) {
    let mut handshakes: VecDeque<AbortOnDropHandle<()>> = VecDeque::new();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        handshakes.retain(|handshake| !handshake.is_finished());
        if handshakes.len() == MAX_HANDSHAKES {
            // The oldest handshake is the one of the slowest client.
            handshakes.pop_front();
        }
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        let handshake = tokio::spawn(async move {
            let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
            match handshake.await {
                Ok(Ok(stream)) => drop(sender.send((stream, peer)).await),
                Ok(Err(error)) => {
                    if let Some(suppressed) = FAILED_HANDSHAKES.allow() {
                        tracing::debug!(%error, %peer, suppressed, "a TLS handshake failed");
                    }
                }
                Err(_) => {}
            }
        });
        handshakes.push_back(AbortOnDropHandle::new(handshake));
    }
}

impl axum::serve::Listener for SecureListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Connection {
        match self.connections.recv().await {
            Some(connection) => connection,
            // Unreachable, because the sender lives as long as this listener.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

#[cfg(test)]
mod tests {
    use axum::serve::Listener as _;
    use rustls::RootCertStore;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::TlsConnector;

    use super::*;

    #[tokio::test]
    async fn clients_without_a_handshake_do_not_delay_others() {
        let pair = rcgen::generate_simple_self_signed(["test".to_owned()]).unwrap();
        let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
        let serving = ServingCertificate::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let mut listener = SecureListener::new(tcp, serving).unwrap();
        let mut silent = Vec::new();
        for _ in 0..=MAX_HANDSHAKES {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        roots.add(trusted).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = "test".try_into().unwrap();
        let client = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let both = async { tokio::join!(client, listener.accept()) };
        let both = tokio::time::timeout(
            HANDSHAKE_TIMEOUT.saturating_sub(Duration::from_secs(2)),
            both,
        )
        .await;
        assert!(both.unwrap().0.is_ok());
    }
}
