//! Hostile clients of an API server: thousands of connections that ask slowly, read nothing, or take everything back.
//!
//! They write their bytes by hand, HTTP/2 frames included, so that no library keeps them from misbehaving.

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

/// Handshakes at once: they cost the clients as much as the server.
const HANDSHAKES: usize = 32;
/// A client that is cut off comes back after this time.
const PAUSE: Duration = Duration::from_secs(5);
/// Requests that a client sends over one connection where it sends many.
const MANY: usize = 200;
/// The receive buffer of a client, in bytes.
const WINDOW: u32 = 4096;
/// A resource that every authenticated user may create.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// A large answer for everybody who is authenticated.
const LARGE: &str = "/openapi/v2";

/// How a client misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdeed {
    /// Does not begin the TLS handshake.
    NoHandshake,
    /// Sends half of a head.
    SlowHead,
    /// Sends the head of a request and one byte of its body.
    SlowBody,
    /// Asks for large answers one after the other and reads none.
    UnreadAnswers,
    /// The same over HTTP/2, with windows that let nothing through.
    ClosedWindows,
    /// Starts a watch and does not read it.
    UnreadWatch,
    /// Opens HTTP/2 streams whose bodies do not come.
    Streams,
    /// Opens HTTP/2 streams and resets them at once.
    RapidReset,
}

impl Misdeed {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::NoHandshake,
        Self::SlowHead,
        Self::SlowBody,
        Self::UnreadAnswers,
        Self::ClosedWindows,
        Self::UnreadWatch,
        Self::Streams,
        Self::RapidReset,
    ];

    fn http2(self) -> bool {
        matches!(self, Self::ClosedWindows | Self::Streams | Self::RapidReset)
    }
}

/// A client that is up to no good, with the token of an account.
#[derive(Clone, Debug)]
pub struct Attacker {
    address: SocketAddr,
    token: String,
    /// The path of a watch that the account may start.
    watch: String,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    handshakes: Arc<Semaphore>,
}

/// Connections that misbehave until this is dropped.
#[derive(Debug)]
pub struct Attack {
    /// Aborted when dropped.
    _clients: JoinSet<()>,
    made: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    count: usize,
}

impl Attack {
    /// Waits until each client has done its deed at least once, or this time is over.
    pub async fn begun(&self, limit: Duration) {
        let all = async {
            while self.made.load(Ordering::Relaxed) < self.count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(limit, all).await;
    }

    /// Connections that have been made in all, and those that are open.
    pub fn connections(&self) -> (usize, usize) {
        (
            self.made.load(Ordering::Relaxed),
            self.open.load(Ordering::Relaxed),
        )
    }
}

/// One more for as long as it lives.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Attacker {
    /// An attacker with the token of an account that may start the watch at a path, and the authorities of the server
    /// as DER.
    ///
    /// # Errors
    /// When the certificate of the server cannot be used.
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
            handshakes: Arc::new(Semaphore::new(HANDSHAKES)),
        })
    }

    /// Misbehaves in this way over so many connections.
    pub fn attack(&self, misdeed: Misdeed, count: usize) -> Attack {
        let (made, open) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let mut clients = JoinSet::new();
        for _ in 0..count {
            let (this, made, open) = (self.clone(), made.clone(), open.clone());
            clients.spawn(async move {
                loop {
                    // However it ends, the client comes back.
                    let _ = this.misbehave(misdeed, &made, &open).await;
                    tokio::time::sleep(PAUSE).await;
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

    /// One connection, until the server closes it.
    async fn misbehave(
        &self,
        misdeed: Misdeed,
        made: &AtomicUsize,
        open: &Arc<AtomicUsize>,
    ) -> io::Result<()> {
        let counted = |()| {
            made.fetch_add(1, Ordering::Relaxed);
            open.fetch_add(1, Ordering::Relaxed);
            Open(open.clone())
        };
        if misdeed == Misdeed::NoHandshake {
            let mut stream = TcpStream::connect(self.address).await?;
            let _open = counted(());
            stream.read_u8().await?;
            return Ok(());
        }
        let mut stream = self.connect(misdeed.http2()).await?;
        let authorization = format!("Bearer {}", self.token);
        let request = |method: &str, path: &str| {
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n")
        };
        let mut frames = Frames::new(&authorization);
        let bytes = match misdeed {
            Misdeed::NoHandshake => Vec::new(),
            Misdeed::SlowHead => request("GET", "/api").into_bytes(),
            Misdeed::SlowBody => {
                let head = request("POST", REVIEWS);
                format!("{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{")
                    .into_bytes()
            }
            Misdeed::UnreadAnswers => {
                let one = request("GET", LARGE) + "\r\n";
                one.repeat(MANY).into_bytes()
            }
            Misdeed::UnreadWatch => (request("GET", &self.watch) + "\r\n").into_bytes(),
            Misdeed::ClosedWindows => {
                frames.close_windows();
                for _ in 0..MANY {
                    frames.get(LARGE);
                }
                frames.take()
            }
            Misdeed::Streams => {
                for _ in 0..MANY {
                    frames.begin_post(REVIEWS);
                }
                frames.take()
            }
            Misdeed::RapidReset => {
                for _ in 0..MANY {
                    frames.get("/api");
                    frames.reset();
                }
                frames.take()
            }
        };
        // Counted before all of it is written: a server that reads no more is part of the plan.
        let _open = counted(());
        stream.write_all(&bytes).await?;
        stream.flush().await?;
        match misdeed {
            Misdeed::UnreadAnswers | Misdeed::UnreadWatch => loop {
                // Until the server ends it, which is noticed by writing: nothing is read.
                tokio::time::sleep(PAUSE).await;
                stream.write_all(b"\r\n").await?;
                stream.flush().await?;
            },
            _ => {
                let mut answer = [0; 4096];
                while stream.read(&mut answer).await? > 0 {}
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
        // What is not read blocks the server soon, and not the memory of the machine.
        socket.set_recv_buffer_size(WINDOW)?;
        let stream = socket.connect(self.address).await?;
        let config = if http2 { &self.http2 } else { &self.http1 };
        let name = ServerName::from(self.address.ip());
        TlsConnector::from(config.clone())
            .connect(name, stream)
            .await
    }
}
