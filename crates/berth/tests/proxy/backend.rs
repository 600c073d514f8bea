//! An HTTP server that replaces the API server of a member. The server records requests, and its response depends on
//! the path.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use berth_apiserver::Body;
use futures::StreamExt as _;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

#[derive(Clone, Debug)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Parts>>>,
    /// A notification after which the server sends the second half of the response for `/halves`.
    pub(crate) send_second_half: Arc<Notify>,
}

impl Backend {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            send_second_half: Arc::default(),
        };
        let serving = backend.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let backend = serving.clone();
                let service = service_fn(move |request| {
                    let backend = backend.clone();
                    async move { Ok::<_, Infallible>(backend.response(request).await) }
                });
                tokio::spawn(
                    http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades(),
                );
            }
        });
        backend
    }

    /// Returns the heads of the recorded requests whose path starts with `below`.
    pub(crate) fn requests(&self, below: &str) -> Vec<Parts> {
        let requests = self.requests.lock().unwrap();
        let requests = requests
            .iter()
            .filter(|parts| parts.uri.path().starts_with(below));
        requests.cloned().collect()
    }

    async fn response(&self, mut request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let upgraded = hyper::upgrade::on(&mut request);
        let (parts, body) = request.into_parts();
        let protocol = parts.headers.get("upgrade").cloned();
        self.requests.lock().unwrap().push(parts);
        let mut response = Response::new(Body::empty());
        match (path.as_str(), protocol) {
            ("/echo", Some(protocol)) => {
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                response
                    .headers_mut()
                    .insert("connection", "Upgrade".parse().unwrap());
                response.headers_mut().insert("upgrade", protocol);
                tokio::spawn(async move {
                    let mut io = TokioIo::new(upgraded.await.unwrap());
                    let mut buffer = [0; 64];
                    while let Ok(count @ 1..) = io.read(&mut buffer).await {
                        io.write_all(&buffer[..count]).await.unwrap();
                    }
                });
            }
            ("/elsewhere", _) => {
                *response.status_mut() = StatusCode::FOUND;
                response
                    .headers_mut()
                    .insert("location", "/followed".parse().unwrap());
            }
            ("/halves", _) => {
                let send_second_half = self.send_second_half.clone();
                let halves = futures::stream::iter(["first ", "second"])
                    .enumerate()
                    .then(move |(index, half)| {
                        let send_second_half = send_second_half.clone();
                        async move {
                            if index == 1 {
                                send_second_half.notified().await;
                            }
                            Ok::<_, Infallible>(Bytes::from_static(half.as_bytes()))
                        }
                    });
                *response.body_mut() = Body::from_stream(halves);
            }
            ("/upload", _) => {
                let sent = body.collect().await.unwrap().to_bytes();
                *response.body_mut() = Body::from(sent.len().to_string());
            }
            _ => {}
        }
        response
    }
}

/// Starts an HTTP proxy that handles CONNECT requests. Returns the address of the proxy and the heads of the requests.
pub(crate) async fn tunnel() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorded = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let heads = heads.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let target = head.split(' ').nth(1).unwrap().to_owned();
                heads.lock().unwrap().push(head);
                let mut onwards = TcpStream::connect(target).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut onwards).await;
            });
        }
    });
    (address, recorded)
}
