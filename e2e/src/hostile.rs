//! Hostile clients of an API server: thousands of connections that send slowly, read nothing or reset their streams.
//!
//! They write raw bytes, including HTTP/2 frames, because libraries would prevent the misbehavior.

mod frames;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use frames::Frames;

/// Maximum number of concurrent TLS handshakes, which cost clients as much as the server.
const MAX_HANDSHAKES: usize = 32;
/// Delay before a disconnected client reconnects.
const RECONNECT_DELAY: Duration = Duration::from_secs(5);
/// Number of requests per connection, for clients that send many.
const REQUESTS_PER_CONNECTION: usize = 200;
/// Receive buffer of a client, in bytes.
const RECEIVE_BUFFER: u32 = 4096;
/// A resource that every authenticated user may create.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Path with a large response for every authenticated user.
const LARGE: &str = "/openapi/v2";

/// Kind of misbehavior.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehavior {
    /// Does not start the TLS handshake.
    NoHandshake,
    /// Sends half of the head of a request.
    SlowHead,
    /// Sends the head of a request and one byte of its body.
    SlowBody,
    /// Requests large responses and reads none.
    UnreadResponses,
    /// Requests large responses over HTTP/2 with windows of size zero.
    ClosedWindows,
    /// Starts a watch and does not read it.
    UnreadWatch,
    /// Opens HTTP/2 streams and does not send their bodies.
    Streams,
    /// Opens HTTP/2 streams and resets them at once.
    RapidReset,
}

impl Misbehavior {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::NoHandshake,
        Self::SlowHead,
        Self::SlowBody,
        Self::UnreadResponses,
        Self::ClosedWindows,
        Self::UnreadWatch,
        Self::Streams,
        Self::RapidReset,
    ];

    fn http2(self) -> bool {
        matches!(self, Self::ClosedWindows | Self::Streams | Self::RapidReset)
    }
}

/// A source of hostile connections with the token of an account.
#[derive(Clone, Debug)]
pub struct Attacker {
    address: SocketAddr,
    token: String,
    /// Path of a watch that the account may start.
    watch: String,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    handshakes: Arc<Semaphore>,
}

/// Hostile connections, closed when dropped.
#[derive(Debug)]
pub struct Attack {
    /// Aborted when dropped.
    _clients: JoinSet<()>,
    made: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    count: usize,
}

impl Attack {
    /// Waits until each client has misbehaved at least once, or until the time limit.
    pub async fn wait_until_started(&self, limit: Duration) {
        let all = async {
            while self.made.load(Ordering::Relaxed) < self.count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Returns the number of connections made and of those still open.
    pub fn connections(&self) -> (usize, usize) {
        (
            self.made.load(Ordering::Relaxed),
            self.open.load(Ordering::Relaxed),
        )
    }
}

/// Guard that counts an open connection.
struct OpenGuard(Arc<AtomicUsize>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Attacker {
    /// Returns an attacker with the token of an account that may start the watch at a path. `authorities` are the
    /// server's CA certificates in DER.
    ///
    /// # Errors
    /// If a CA certificate cannot be used.
    pub fn new(
        address: SocketAddr,
        authorities: &[Vec<u8>],
        token: &str,
        watch: &str,
    ) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(CertificateDer::from(authority.clone()))?;
        }
        let config = |protocol: &[u8]| -> Result<_, rustls::Error> {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let mut config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots.clone())
                .with_no_client_auth();
            config.alpn_protocols = vec![protocol.to_vec()];
            Ok(Arc::new(config))
        };
        Ok(Self {
            address,
            token: token.to_owned(),
            watch: watch.to_owned(),
            http1: config(b"http/1.1")?,
            http2: config(b"h2")?,
            handshakes: Arc::new(Semaphore::new(MAX_HANDSHAKES)),
        })
    }

    /// Opens `count` hostile connections.
    pub fn attack(&self, misbehavior: Misbehavior, count: usize) -> Attack {
        let (made, open) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let mut clients = JoinSet::new();
        for _ in 0..count {
            let (this, made, open) = (self.clone(), made.clone(), open.clone());
            clients.spawn(async move {
                loop {
                    // The client reconnects, whatever the result.
                    let _ = this.misbehave(misbehavior, &made, &open).await;
                    tokio::time::sleep(RECONNECT_DELAY).await;
                }
            });
        }
        Attack {
            _clients: clients,
            made,
            open,
            count,
        }
    }

    /// Misbehaves over one connection until the server closes it.
    async fn misbehave(
        &self,
        misbehavior: Misbehavior,
        made: &AtomicUsize,
        open: &Arc<AtomicUsize>,
    ) -> io::Result<()> {
        let counted = |()| {
            made.fetch_add(1, Ordering::Relaxed);
            open.fetch_add(1, Ordering::Relaxed);
            OpenGuard(open.clone())
        };
        if misbehavior == Misbehavior::NoHandshake {
            let mut stream = TcpStream::connect(self.address).await?;
            let _open = counted(());
            stream.read_u8().await?;
            return Ok(());
        }
        let mut stream = self.connect(misbehavior.http2()).await?;
        let authorization = format!("Bearer {}", self.token);
        let request = |method: &str, path: &str| {
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n")
        };
        let mut frames = Frames::new(&authorization);
        let bytes = match misbehavior {
            Misbehavior::NoHandshake => Vec::new(),
            Misbehavior::SlowHead => request("GET", "/api").into_bytes(),
            Misbehavior::SlowBody => {
                let head = request("POST", REVIEWS);
                format!("{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{")
                    .into_bytes()
            }
            Misbehavior::UnreadResponses => {
                let request = request("GET", LARGE) + "\r\n";
                request.repeat(REQUESTS_PER_CONNECTION).into_bytes()
            }
            Misbehavior::UnreadWatch => (request("GET", &self.watch) + "\r\n").into_bytes(),
            Misbehavior::ClosedWindows => {
                frames.close_windows();
                for _ in 0..REQUESTS_PER_CONNECTION {
                    frames.get(LARGE);
                }
                frames.take()
            }
            Misbehavior::Streams => {
                for _ in 0..REQUESTS_PER_CONNECTION {
                    frames.begin_post(REVIEWS);
                }
                frames.take()
            }
            Misbehavior::RapidReset => {
                for _ in 0..REQUESTS_PER_CONNECTION {
                    frames.get("/api");
                    frames.reset();
                }
                frames.take()
            }
        };
        // Counted before the write completes, because the server may stop reading.
        let _open = counted(());
        stream.write_all(&bytes).await?;
        stream.flush().await?;
        match misbehavior {
            Misbehavior::UnreadResponses | Misbehavior::UnreadWatch => loop {
                // Writes detect that the server has closed the connection: nothing is read.
                tokio::time::sleep(RECONNECT_DELAY).await;
                stream.write_all(b"\r\n").await?;
                stream.flush().await?;
            },
            _ => {
                let mut response = [0; 4096];
                while stream.read(&mut response).await? > 0 {}
                Ok(())
            }
        }
    }

    async fn connect(&self, http2: bool) -> io::Result<TlsStream<TcpStream>> {
        let _permit = self.handshakes.acquire().await;
        let socket = match self.address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        // With a small buffer, unread responses block the server soon and do not fill the memory.
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        let stream = socket.connect(self.address).await?;
        let config = if http2 { &self.http2 } else { &self.http1 };
        let name = ServerName::from(self.address.ip());
        TlsConnector::from(config.clone())
            .connect(name, stream)
            .await
    }
}
