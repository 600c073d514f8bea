//! Runs one API server until it is interrupted. Arguments: `serve [listen address] [kubeconfig to write]`.

use berth_apiserver::{Server, ServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let listen = arguments
        .next()
        .unwrap_or_else(|| "127.0.0.1:0".to_owned())
        .parse()?;
    let kubeconfig = arguments
        .next()
        .unwrap_or_else(|| "kubeconfig.yaml".to_owned());
    let begun = std::time::Instant::now();
    let server = Server::start(ServerConfig {
        listen,
        ..ServerConfig::default()
    })
    .await?;
    std::fs::write(&kubeconfig, server.kubeconfig("berth"))?;
    println!(
        "{} ready in {:?}, KUBECONFIG={kubeconfig}",
        server.url(),
        begun.elapsed()
    );
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
