//! A test of a member cluster that the controllers reach only through an HTTP proxy, which `spec.proxyURL` of the
//! Cluster names.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_e2e::Objects as _;
use berth_e2e::objects::wait_for;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::fleet::Fleet;
use crate::manifests::{config_map, policy};

/// Header that the proxy requires of its clients.
const HEADER: (&str, &str) = ("x-team", "blue");

/// Starts an HTTP proxy that opens a CONNECT tunnel for each client with the header, and counts the tunnels. Returns
/// the URL of the proxy.
async fn start_proxy(tunnels: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let tunnels = Arc::clone(&tunnels);
            // A closed connection ends its own tunnel only.
            tokio::spawn(async move { tunnel(client, &tunnels).await.ok() });
        }
    });
    url
}

async fn tunnel(client: TcpStream, tunnels: &AtomicUsize) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let mut request = String::new();
    client.read_line(&mut request).await?;
    let (mut header, mut authorized) = (String::new(), false);
    while client.read_line(&mut header).await? > 2 {
        let (name, value) = header.split_once(':').unwrap_or_default();
        authorized |= (name.to_lowercase().as_str(), value.trim()) == HEADER;
        header.clear();
    }
    if !authorized {
        let refused = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
        return client.write_all(refused).await;
    }
    let target = request
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split(' ').next())
        .ok_or(std::io::ErrorKind::InvalidData)?;
    let mut member = TcpStream::connect(target).await?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tunnels.fetch_add(1, Ordering::Relaxed);
    copy_bidirectional(&mut client, &mut member).await?;
    Ok(())
}

/// The proxy refuses requests until `spec.proxyHeader` contains the header, and the binding reports the refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_a_member_use_the_proxy_of_its_cluster() {
    let mut fleet = Fleet::without_clusters(1).await;
    fleet.join(0).await;
    let tunnels = Arc::new(AtomicUsize::new(0));
    let url = start_proxy(Arc::clone(&tunnels)).await;
    let cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "m1" } });
    fleet
        .edit(&cluster, json!({ "spec": { "proxyURL": url } }))
        .await;
    fleet.start_controllers();
    let settings = config_map("settings");
    fleet.apply(settings.clone()).await;
    fleet.apply(policy(&settings, &["m1"])).await;
    wait_for(
        &fleet.bindings(),
        "settings-configmap",
        "the reason",
        |binding| {
            let items = binding.status.iter().flat_map(|s| &s.aggregated_status);
            let mut messages = items.filter_map(|item| item.applied_message.as_deref());
            messages.any(|message| message.contains("proxy authorization required"))
        },
    )
    .await;
    assert_eq!(tunnels.load(Ordering::Relaxed), 0);

    let (name, value) = HEADER;
    fleet
        .edit(
            &cluster,
            json!({ "spec": { "proxyHeader": { name: value } } }),
        )
        .await;
    fleet.members[0].wait_until_exists(&settings).await;
    assert!(tunnels.load(Ordering::Relaxed) > 0);
    fleet.delete(&settings).await;
    fleet.members[0].wait_until_gone(&settings).await;
    fleet.stop().await;
}
