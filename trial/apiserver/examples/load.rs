//! Measures the rate of creates and merge patches of 4 KiB ConfigMaps over loopback TLS.
//!
//! Arguments: `load [clients] [objects]`.

use std::time::Instant;

use berth_apiserver::{Server, ServerConfig};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let clients: usize = arguments
        .next()
        .unwrap_or_else(|| "32".to_owned())
        .parse()?;
    let objects: usize = arguments
        .next()
        .unwrap_or_else(|| "20000".to_owned())
        .parse()?;
    let server = Server::start(ServerConfig::default()).await?;
    let mut apis: Vec<Api<ConfigMap>> = Vec::new();
    for _ in 0..clients {
        let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig("load"))?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        apis.push(Api::default_namespaced(Client::try_from(config)?));
    }
    let each = objects / clients;
    let text = "x".repeat(4096);
    let begun = Instant::now();
    try_join_all(apis.iter().cloned().enumerate().map(|(c, api)| {
        let text = text.clone();
        tokio::spawn(async move {
            for i in 0..each {
                let object: ConfigMap = serde_json::from_value(
                    json!({"metadata": {"name": format!("c{c}-{i}")}, "data": {"k": text}}),
                )?;
                api.create(&PostParams::default(), &object).await?;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        })
    }))
    .await?;
    report("creates", each * clients, begun);
    let begun = Instant::now();
    try_join_all(apis.iter().cloned().enumerate().map(|(c, api)| {
        tokio::spawn(async move {
            for i in 0..each {
                let patch = Patch::Merge(json!({"metadata": {"labels": {"n": i.to_string()}}}));
                api.patch(&format!("c{c}-{i}"), &PatchParams::default(), &patch)
                    .await?;
            }
            Ok::<_, kube::Error>(())
        })
    }))
    .await?;
    report("merge patches", each * clients, begun);
    server.shutdown().await;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn report(what: &str, count: usize, begun: Instant) {
    println!(
        "{what}: {:.0}/s",
        count as f64 / begun.elapsed().as_secs_f64()
    );
}
