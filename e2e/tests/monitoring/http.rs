//! HTTP requests to a process that listens on this machine.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends a GET request. Returns the status code and the body of the response.
pub(crate) async fn get(port: u16, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.unwrap_or_default(), body.to_owned()))
}

/// Returns the body of the response to `GET /metrics`.
pub(crate) async fn scrape(port: u16) -> std::io::Result<String> {
    let (code, body) = get(port, "/metrics").await?;
    assert_eq!(code, 200, "{body}");
    Ok(body)
}
