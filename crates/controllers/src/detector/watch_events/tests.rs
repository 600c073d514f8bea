//! What is looked at because of what is observed.

use std::sync::Arc;

use berth_events::EventRecorder;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::observation::{Message, Source};
use super::options::DetectorOptions;
use super::owner::Owner;
use super::state::WorkKey;
use super::template::Template;
use super::writer::Writer;
use crate::binding_key::BindingKind;
use crate::informer::Observation;
use crate::resource_type::ResourceType;

/// An owner whose server does not answer, and which knows the Deployment `web`.
fn owner() -> (Owner, WorkKey) {
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    let (events, _) = EventRecorder::new(client.clone(), "test");
    let options = DetectorOptions::default();
    let writer = Writer {
        client,
        events,
        gates: options.gates,
    };
    let (sender, _) = mpsc::channel(1);
    let mut owner = Owner::new(options, writer, sender, CancellationToken::new());
    let resource = ResourceType::deployments();
    let template = object(json!({
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 1},
    }));
    let template = Arc::new(Template::from_object(&resource, template));
    let key = WorkKey::Template(template.key.clone());
    owner.state.serve(Arc::clone(&resource));
    owner.types.insert(resource, CancellationToken::new());
    owner.state.index.put_template(&template);
    (owner, key)
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// The binding of `web` in a version, with so much said of its suspension.
fn binding(version: &str, suspension: Value) -> Message {
    let binding = object(json!({
        "metadata": {"name": "web-deployment", "namespace": "default", "resourceVersion": version},
        "spec": {"suspension": suspension,
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"}},
    }));
    Message::Observed(
        Source::Bindings(BindingKind::Namespaced),
        Observation::Applied(Box::new(binding)),
    )
}

#[tokio::test]
async fn what_comes_to_a_binding_is_looked_at_even_if_its_template_is_being_worked_on() {
    let (mut owner, web) = owner();
    owner.take_in(binding("1", json!(null)));
    assert_eq!(
        owner.state.queue.next().map(|(key, _)| key),
        Some(web.clone())
    );
    // It may have been decided that nothing has to be written, by the version before.
    owner.state.queue.start(web.clone());
    owner.take_in(binding("2", json!({"dispatching": false})));
    assert_eq!(owner.state.queue.next(), None);
    owner.state.queue.finish(&web);
    assert_eq!(
        owner.state.queue.next().map(|(key, _)| key),
        Some(web.clone())
    );

    // Nothing of this is the detector's.
    owner.take_in(binding("3", json!({"dispatching": false})));
    assert_eq!(owner.state.queue.next(), None);
}
