//! A listener for TLS connections. Handshakes run concurrently, so a slow handshake does not delay other connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use crate::serving_certificate::{ServingCertificate, provider};

/// Maximum number of concurrent handshakes.
const MAX_HANDSHAKES: usize = 64;
/// Maximum time for a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept. The usual cause is a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
    let slots = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
            match handshake.await {
                Ok(Ok(stream)) => drop(sender.send((stream, peer)).await),
                Ok(Err(error)) => tracing::debug!(%error, %peer, "a TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "a TLS handshake timed out"),
            }
        });
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
