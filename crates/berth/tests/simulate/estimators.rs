//! Tests of `berth simulate --enable-scheduler-estimator`, which queries the accurate estimators of members.

use berth_test_requirements::needs;
use berth_test_transcripts::{Transcript, assert_snapshot};
use std::net::SocketAddr;

use berth_estimator_protocol::wire::pb;
use berth_estimator_protocol::wire::service::estimator_server::{Estimator, EstimatorServer};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

use crate::live_diff::Plane;
use crate::program::{DYNAMIC, Files, app, simulated};

/// An estimator that always returns the same number of replicas.
struct FixedEstimator(i32);

impl FixedEstimator {
    async fn start(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TowerToHyperService::new(EstimatorServer::new(self));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let connection = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(tcp), service.clone());
                tokio::spawn(connection);
            }
        });
        address
    }
}

#[tonic::async_trait]
impl Estimator for FixedEstimator {
    async fn max_available_replicas(
        &self,
        _: Request<pb::MaxAvailableReplicasRequest>,
    ) -> Result<Response<pb::MaxAvailableReplicasResponse>, Status> {
        Ok(Response::new(pb::MaxAvailableReplicasResponse {
            max_replicas: self.0,
        }))
    }

    async fn max_available_component_sets(
        &self,
        _: Request<pb::MaxAvailableComponentSetsRequest>,
    ) -> Result<Response<pb::MaxAvailableComponentSetsResponse>, Status> {
        Err(Status::unimplemented("not part of the test"))
    }

    async fn get_unschedulable_replicas(
        &self,
        _: Request<pb::UnschedulableReplicasRequest>,
    ) -> Result<Response<pb::UnschedulableReplicasResponse>, Status> {
        Err(Status::unimplemented("not part of the test"))
    }
}

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn the_output_shows_each_estimate_or_the_reason_for_a_missing_estimate() {
    let plane = Plane::start().await;
    for (member, room) in [("member1", 1), ("member2", 3)] {
        let address = FixedEstimator(room).start().await;
        let service = format!(
            "apiVersion: v1
kind: Service
metadata: {{name: karmada-scheduler-estimator-{member}, namespace: karmada-system}}
spec:
  type: ExternalName
  externalName: {}
  ports: [{{port: 10352, targetPort: {}}}]
",
            address.ip(),
            address.port()
        );
        plane.apply(&service).await;
    }
    let placement = DYNAMIC.replacen(
        '{',
        "{clusterAffinity: {clusterNames: [member1, member2]}, ",
        1,
    );
    let change = Files::new(&[("web.yaml", &app("web", 4, &placement))]);
    let file = change.path("web.yaml");
    let arguments = ["-f", &file, "--enable-scheduler-estimator", "-o"];

    // Standard error contains log lines about member3, which has no estimator.
    let output = plane.simulate(&[&arguments[..], &["json"]].concat()).await;
    let mut transcript = Transcript::new();
    transcript.lines(&output.out());
    assert_snapshot!(transcript);

    // Without the Service of an estimator, the general estimate is used, and the row of the cluster shows the reason.
    plane
        .delete_service("karmada-scheduler-estimator-member2")
        .await;
    let wide = plane
        .simulate(&[&arguments[..], &["wide"]].concat())
        .await
        .out();
    let row = |name: &str| wide.lines().find(|line| line.contains(name)).unwrap();
    assert!(wide.contains("ESTIMATOR"), "{wide}");
    assert!(
        row("  member2").contains("none: cluster member2 does not exist in estimator cache"),
        "{wide}"
    );
    plane.server.stop().await;
}

#[test]
fn estimator_flags_require_a_control_plane_and_a_valid_port() {
    assert_snapshot!(simulated(&[
        (
            "no control plane",
            "-f examples/nginx.yaml --enable-scheduler-estimator",
            "",
        ),
        (
            "an invalid port",
            "-f examples/nginx.yaml --scheduler-estimator-port=65536",
            "",
        ),
    ]));
}
