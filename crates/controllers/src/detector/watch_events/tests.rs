use std::sync::Arc;

use berth_api::BindingKind;
use berth_events::EventRecorder;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::detector::options::DetectorOptions;
use crate::detector::state::QueueKey;
use crate::detector::writer::Writer;
use crate::interpreter_configuration::Customizations;
use crate::monitor::queue_meter::QueueMeter;
use crate::recent_templates::RecentTemplates;

/// Returns a detector that uses no server and knows the Deployment `web`, and the queue key of this Deployment.
fn detector() -> (Detector, QueueKey) {
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let (events, _) = EventRecorder::new(client.clone(), "test");
    let options = DetectorOptions::default();
    let writer = Writer {
        interpreter: crate::resource_interpreter::ResourceInterpreter::new(
            berth_interpreter::Interpreter::default(),
            client.clone(),
            crate::monitor::Monitor::default(),
        ),
        client,
        events,
        gates: options.gates,
        monitor: crate::monitor::Monitor::default(),
    };
    let mut detector = Detector::new(
        options,
        writer,
        Customizations::default(),
        RecentTemplates::default(),
        QueueMeter::default(),
    );
    let resource = ResourceType::deployments();
    let template = object(json!({
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 1},
    }));
    let template = Arc::new(Template::from_object(&resource, template));
    let key = QueueKey::Template(template.key.clone());
    detector.state.serve(Arc::clone(&resource));
    detector.types.insert(resource, CancellationToken::new());
    detector.state.index.put_template(&template);
    (detector, key)
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// Handles a watch event for the binding of `web` with this resource version and suspension.
fn apply_binding(detector: &mut Detector, version: &str, suspension: Value) {
    let binding = object(json!({
        "metadata": {"name": "web-deployment", "namespace": "default", "resourceVersion": version},
        "spec": {"suspension": suspension,
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"}},
    }));
    detector.handle_watch_event(
        Source::Bindings(BindingKind::Namespaced),
        WatchEvent::Applied(Box::new(binding)),
    );
}

fn next_key(detector: &mut Detector) -> Option<QueueKey> {
    detector.state.queue.next().map(|(key, _)| key)
}

#[tokio::test]
async fn a_changed_binding_is_examined_even_while_its_template_is_written() {
    let (mut detector, web) = detector();
    apply_binding(&mut detector, "1", json!(null));
    assert_eq!(next_key(&mut detector), Some(web.clone()));
    // The running write may have compared the desired binding with the earlier version.
    detector.state.queue.start(web.clone());
    apply_binding(&mut detector, "2", json!({"dispatching": false}));
    assert_eq!(next_key(&mut detector), None);
    detector.state.queue.finish(&web);
    assert_eq!(next_key(&mut detector), Some(web.clone()));

    // A new version without a change in the detector's fields is ignored.
    apply_binding(&mut detector, "3", json!({"dispatching": false}));
    assert_eq!(next_key(&mut detector), None);
}
