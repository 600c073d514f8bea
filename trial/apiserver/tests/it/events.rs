//! A test of the expiry of Event objects.

use berth_apiserver::ServerConfig;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::{conditions, wait::await_condition};
use serde_json::json;

use crate::harness::{Harness, TIMEOUT};

#[tokio::test]
async fn events_expire() {
    let h = Harness::with(ServerConfig {
        events_live: std::time::Duration::from_secs(1),
        ..ServerConfig::default()
    })
    .await;
    let api: Api<Event> = Api::default_namespaced(h.client.clone());
    let event: Event = serde_json::from_value(json!({"metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}}))
    .unwrap();
    let event = api.create(&PostParams::default(), &event).await.unwrap();
    let uid = event.metadata.uid.unwrap();
    let wait = await_condition(api, "e", conditions::is_deleted(&uid));
    tokio::time::timeout(TIMEOUT, wait).await.unwrap().unwrap();
}
