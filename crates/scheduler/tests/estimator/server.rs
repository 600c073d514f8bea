//! Tests of the client with Berth's own estimator, which watches the objects of an embedded API server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use berth_apiserver::{Server, ServerConfig};
use berth_component_base::bind_address::BindAddress;
use berth_component_base::certificate_files::CertificateFiles;
use berth_component_base::endpoints::Addresses;
use berth_engine::estimate::Unit;
use berth_estimator::{
    EstimatorAddresses, EstimatorOptions as ServerOptions, Rules, SharedServer, StartError,
    TlsFiles,
};
use berth_estimator_protocol::wire::pb;
use berth_estimator_protocol::wire::service::estimator_client::EstimatorClient as RawClient;
use berth_scheduler::estimator::{Answer, ClientIdentity, EstimateRequest, EstimatorOptions, Tls};
use berth_test_servers::Authority;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::body::Body;
use tonic::client::GrpcService;

use crate::fixture::{Fixture, cpu, deployment, soon};

/// A running estimator of the member `m1`.
struct Estimator {
    addresses: watch::Receiver<Option<EstimatorAddresses>>,
    running: JoinHandle<Result<(), StartError>>,
    ends: DropGuard,
}

impl Estimator {
    fn start(member: &Server, tls: Option<TlsFiles>) -> Self {
        Self::start_with(member.client(), tls)
    }

    fn start_with(client: kube::Client, tls: Option<TlsFiles>) -> Self {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = ServerOptions {
            cluster: "m1".to_owned(),
            listen: any_port,
            tls,
            rules: Rules {
                quotas: true,
                assumed_workloads: true,
                preemptible_pods: true,
            },
            addresses: Addresses {
                probes: BindAddress::At(any_port),
                metrics: BindAddress::Off,
            },
        };
        let (sender, addresses) = watch::channel(None);
        let cancel = CancellationToken::new();
        let run = berth_estimator::run(options, client, None, sender, cancel.clone());
        Self {
            addresses,
            running: tokio::spawn(run),
            ends: cancel.drop_guard(),
        }
    }

    /// Waits for the gRPC server. Returns its address.
    async fn address(&self) -> SocketAddr {
        let mut addresses = self.addresses.clone();
        let is_up = |it: &Option<EstimatorAddresses>| it.is_some_and(|it| it.grpc.is_some());
        let found = soon(addresses.wait_for(is_up)).await.unwrap();
        found.unwrap().grpc.unwrap()
    }

    /// Returns the response of a path of the probes and metrics.
    async fn get(&self, path: &str) -> String {
        let probes = self.addresses.borrow().unwrap().endpoints.probes.unwrap();
        let mut stream = TcpStream::connect(probes).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        soon(stream.read_to_string(&mut response)).await.unwrap();
        response
    }
}

async fn create_node(member: &Server, name: &str, cpu: &str, labels: Value) {
    let nodes: Api<Node> = Api::all(member.client());
    let node = json!({"metadata": {"name": name, "labels": labels}});
    let node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let amounts = json!({"cpu": cpu, "memory": "32Gi", "pods": "110"});
    let status = json!({"status": {"capacity": amounts, "allocatable": amounts}});
    let patch = Patch::Merge(status);
    nodes
        .patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn create_pod(member: &Server, name: &str, node: &str, cpu: &str) {
    let pods: Api<Pod> = Api::namespaced(member.client(), "default");
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [
            {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}]},
    });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

async fn member() -> Server {
    let server = Server::start(ServerConfig::default()).await.unwrap();
    let namespace = json!({"metadata": {"name": "default"}});
    let namespace: Namespace = serde_json::from_value(namespace).unwrap();
    let _ = Api::all(server.client())
        .create(&PostParams::default(), &namespace)
        .await;
    server
}

/// Repeats a request until the estimator's answer is `expected`.
async fn until_answer(fixture: &Fixture, request: &EstimateRequest, expected: i32) {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    soon(async {
        loop {
            let answers = fixture.estimate(request, &["m1"]).await;
            if answers.get("m1") == Some(&Answer::Fresh(expected)) {
                return;
            }
            ticks.tick().await;
        }
    })
    .await;
}

#[tokio::test]
async fn answers_follow_the_nodes_and_pods_of_the_member() {
    let (fixture, member) = (Fixture::start().await, member().await);
    create_node(&member, "a", "4", json!({"zone": "x"})).await;
    create_node(&member, "b", "2", json!({})).await;
    create_pod(&member, "first", "a", "1").await;
    let estimator = Estimator::start(&member, None);
    fixture.join("m1", estimator.address().await).await;
    assert!(estimator.get("/readyz").await.starts_with("HTTP/1.1 200"));

    let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
    assert_eq!(answers.get("m1"), Some(&Answer::Fresh(3 + 2)));
    let claim = json!({
        "resourceRequest": {"cpu": "1"},
        "nodeClaim": {"nodeSelector": {"zone": "x"}},
    });
    let in_zone = EstimateRequest::new(&deployment(claim), Unit::Replicas).unwrap();
    let answers = fixture.estimate(&in_zone, &["m1"]).await;
    assert_eq!(answers.get("m1"), Some(&Answer::Fresh(3)));

    create_pod(&member, "second", "b", "500m").await;
    until_answer(&fixture, &cpu("1"), 3 + 1).await;
    let pods: Api<Pod> = Api::namespaced(member.client(), "default");
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("second", &PatchParams::default(), &ended)
        .await
        .unwrap();
    until_answer(&fixture, &cpu("1"), 3 + 2).await;
    let nodes: Api<Node> = Api::all(member.client());
    nodes.delete("b", &DeleteParams::default()).await.unwrap();
    until_answer(&fixture, &cpu("1"), 3).await;

    let metrics = estimator.get("/metrics").await;
    let counter = "karmada_scheduler_estimator_estimating_request_total{result=\"success\",type=\"MaxAvailableReplicas\"}";
    assert!(metrics.contains(counter), "{metrics}");
}

/// Serves the kinds of dynamic resource allocation in a member.
async fn serve_devices(member: &Server) {
    for (kind, plural, scope) in [
        ("DeviceClass", "deviceclasses", "Cluster"),
        ("ResourceSlice", "resourceslices", "Cluster"),
        ("ResourceClaim", "resourceclaims", "Namespaced"),
    ] {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "metadata": {
                "name": format!("{plural}.resource.k8s.io"),
                "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes"},
            },
            "spec": {
                "group": "resource.k8s.io", "scope": scope,
                "names": {"kind": kind, "plural": plural},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        let definition = serde_json::from_value(definition).unwrap();
        member.install_crd(definition).await.unwrap();
    }
}

#[tokio::test]
async fn answers_follow_the_devices_of_the_member() {
    let (fixture, member) = (Fixture::start().await, member().await);
    serve_devices(&member).await;
    create_node(&member, "a", "4", json!({})).await;
    let class = json!({
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
    });
    let classes: Api<DeviceClass> = Api::all(member.client());
    let class = serde_json::from_value(class).unwrap();
    classes
        .create(&PostParams::default(), &class)
        .await
        .unwrap();
    let slice = |name: &str, devices: Value| -> ResourceSlice {
        let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": devices},
        }))
        .unwrap()
    };
    let slices: Api<ResourceSlice> = Api::all(member.client());
    let first = slice("first", json!([{"name": "d0"}, {"name": "d1"}]));
    slices.create(&PostParams::default(), &first).await.unwrap();
    let estimator = Estimator::start(&member, None);
    fixture.join("m1", estimator.address().await).await;
    let requirements = json!({"resourceRequest": {"deviceclass.resource.kubernetes.io/gpu": "1"}});
    let request = EstimateRequest::new(&deployment(requirements), Unit::Replicas).unwrap();
    until_answer(&fixture, &request, 2).await;
    let second = slice("second", json!([{"name": "d0"}]));
    slices
        .create(&PostParams::default(), &second)
        .await
        .unwrap();
    until_answer(&fixture, &request, 3).await;
    let result =
        json!({"request": "r", "driver": "gpu.example.com", "pool": "first", "device": "d1"});
    let claim: ResourceClaim = serde_json::from_value(json!({
        "metadata": {"name": "c"},
        "spec": {},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }))
    .unwrap();
    let claims: Api<ResourceClaim> = Api::namespaced(member.client(), "default");
    claims.create(&PostParams::default(), &claim).await.unwrap();
    until_answer(&fixture, &request, 2).await;
    let deleted = DeleteParams::default();
    slices.delete("first", &deleted).await.unwrap();
    until_answer(&fixture, &request, 1).await;
    classes.delete("gpu", &deleted).await.unwrap();
    until_answer(&fixture, &request, 0).await;
}

#[tokio::test]
async fn requests_about_other_clusters_are_refused() {
    let (fixture, member) = (Fixture::start().await, member().await);
    let estimator = Estimator::start(&member, None);
    fixture.join("m2", estimator.address().await).await;
    let answers = fixture.estimate(&cpu("1"), &["m2"]).await;
    let failure = answers.failures().unwrap();
    let reason = "code = Unknown desc = cluster name does not match, got: m2, desire: m1";
    assert!(failure.contains(reason), "{failure}");
}

#[tokio::test]
async fn an_estimator_is_not_ready_before_the_first_lists() {
    let member = member().await;
    let kubeconfig = Kubeconfig::from_yaml(&member.kubeconfig("m1")).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options);
    let client = kube::Client::try_from(config.await.unwrap()).unwrap();
    member.reachability().set(false);
    let estimator = Estimator::start_with(client, None);
    let mut addresses = estimator.addresses.clone();
    soon(addresses.wait_for(Option::is_some)).await.unwrap();
    let response = estimator.get("/readyz").await;
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    let kinds = "waiting for the first list of deployments, deviceclasses, nodes, pods, priorityclasses, replicasets, resourcequotas";
    assert!(response.ends_with(kinds), "{response}");
    member.reachability().set(true);
    estimator.address().await;
    assert!(estimator.get("/readyz").await.starts_with("HTTP/1.1 200"));
}

/// Writes the authority and a certificate with its key into files.
fn files(
    authority: &Authority,
    folder: &tempfile::TempDir,
    name: &str,
) -> (PathBuf, PathBuf, PathBuf) {
    let (certificate, key) = authority.issue(&["127.0.0.1"]);
    let path = |end: &str| folder.path().join(format!("{name}.{end}"));
    let paths = (path("ca"), path("crt"), path("key"));
    std::fs::write(&paths.0, authority.pem()).unwrap();
    std::fs::write(&paths.1, certificate.pem()).unwrap();
    std::fs::write(&paths.2, key.serialize_pem()).unwrap();
    paths
}

#[tokio::test]
async fn clients_need_a_certificate_if_an_authority_is_configured() {
    let member = member().await;
    create_node(&member, "a", "4", json!({})).await;
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let (ca, certificate, key) = files(&authority, &folder, "server");
    let tls = TlsFiles {
        certificate: CertificateFiles { certificate, key },
        client_authority: Some(ca.clone()),
    };
    let estimator = Estimator::start(&member, Some(tls));
    let address = estimator.address().await;
    let (_, certificate, key) = files(&authority, &folder, "client");
    let (_, foreign_certificate, foreign_key) = files(&Authority::new(), &folder, "foreign");
    let identity = |certificate, key| Some(ClientIdentity { certificate, key });
    for (identity, expected) in [
        (identity(certificate, key), Some(4)),
        (identity(foreign_certificate, foreign_key), None),
        (None, None),
    ] {
        let fixture = Fixture::with(EstimatorOptions {
            tls: Tls::Verified {
                ca: ca.clone(),
                identity: identity.clone(),
            },
            ..EstimatorOptions::default()
        })
        .await;
        fixture.join("m1", address).await;
        let answers = fixture.estimate(&cpu("1"), &["m1"]).await;
        let answer = answers.get("m1").and_then(Answer::value);
        assert_eq!(answer, expected, "{identity:?}: {:?}", answers.failures());
    }
}

#[tokio::test]
async fn an_estimator_stops_although_clients_are_connected() {
    let (fixture, member) = (Fixture::start().await, member().await);
    let estimator = Estimator::start(&member, None);
    fixture.join("m1", estimator.address().await).await;
    until_answer(&fixture, &cpu("1"), 0).await;
    drop(estimator.ends);
    assert!(soon(estimator.running).await.unwrap().is_ok());
}

/// Returns a client of the server at an address.
async fn raw_client(
    address: SocketAddr,
) -> RawClient<impl GrpcService<Body, ResponseBody = Incoming, Future: Send>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let channel = tower::service_fn(move |request: http::Request<Body>| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    });
    let origin = format!("http://{address}").parse().unwrap();
    RawClient::with_origin(channel, origin)
}

#[tokio::test]
async fn a_shared_server_answers_about_each_of_its_members() {
    let (fixture, one, two) = (Fixture::start().await, member().await, member().await);
    create_node(&one, "a", "4", json!({})).await;
    create_node(&two, "a", "7", json!({})).await;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = SharedServer::listen(any_port).await.unwrap();
    let address = server.address();
    let cancel = CancellationToken::new();
    let members = [("m1", &one), ("m2", &two)];
    let members = members.map(|(name, member)| (name.to_owned(), member.client()));
    let serving = tokio::spawn(server.serve(members, Rules::default(), cancel.clone()));
    for name in ["m1", "m2", "m3"] {
        fixture.join(name, address).await;
    }
    let answers = fixture.estimate(&cpu("1"), &["m1", "m2", "m3"]).await;
    let values = ["m1", "m2", "m3"].map(|name| answers.get(name).and_then(Answer::value));
    assert_eq!(values, [Some(4), Some(7), None]);

    // The Deployments are listed at the first request.
    let web = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let deployments: Api<Deployment> = Api::namespaced(two.client(), "default");
    let web = serde_json::from_value(web).unwrap();
    deployments
        .create(&PostParams::default(), &web)
        .await
        .unwrap();
    let mut client = raw_client(address).await;
    for (name, expected) in [
        ("web", Ok(0)),
        ("other", Err("deployments.apps \"default/other\" not found")),
    ] {
        let request = pb::UnschedulableReplicasRequest {
            cluster: "m2".to_owned(),
            resource: Some(pb::ObjectReference {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                namespace: "default".to_owned(),
                name: name.to_owned(),
            }),
            unschedulable_threshold: 0,
        };
        let answer = soon(client.get_unschedulable_replicas(request)).await;
        let answer = answer.map(|it| it.into_inner().unschedulable_replicas);
        let answer = answer.as_ref().map_err(tonic::Status::message).copied();
        assert_eq!(answer, expected, "{name}");
    }
    drop(client);
    cancel.cancel();
    soon(serving).await.unwrap();
}
