//! The Kubernetes events that tests wait for.

use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ListParams};

use crate::eventually::eventually;

/// The properties of an event for which a test waits. A property that is empty matches all values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Kind of the object that the event is about.
    pub kind: &'a str,
    /// Name of the object that the event is about.
    pub name: &'a str,
    /// `Normal` or `Warning`.
    pub event_type: &'a str,
    /// Reason.
    pub reason: &'a str,
    /// Component that recorded the event.
    pub component: &'a str,
    /// Whole message.
    pub message: &'a str,
    /// Part of the message.
    pub text: &'a str,
}

impl Wanted<'_> {
    /// Reports whether an event has the properties.
    pub fn matches(&self, event: &Event) -> bool {
        let source = event.source.as_ref();
        let properties = [
            (self.kind, &event.involved_object.kind),
            (self.name, &event.involved_object.name),
            (self.event_type, &event.type_),
            (self.reason, &event.reason),
            (self.message, &event.message),
            (
                self.component,
                &source.and_then(|source| source.component.clone()),
            ),
        ];
        let message = event.message.as_deref().unwrap_or_default();
        message.contains(self.text)
            && properties
                .iter()
                .all(|(wanted, found)| wanted.is_empty() || found.as_deref() == Some(*wanted))
    }
}

/// Returns the events in a namespace.
///
/// # Panics
/// If the events cannot be listed.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub async fn in_namespace(client: &Client, namespace: &str) -> Vec<Event> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    api.list(&ListParams::default()).await.unwrap().items
}

/// Waits for an event in a namespace, and returns it.
pub async fn wait_for(client: &Client, namespace: &str, wanted: Wanted<'_>) -> Event {
    eventually(&format!("the event {wanted:?}"), async || {
        let events = in_namespace(client, namespace).await;
        let found = events.iter().find(|event| wanted.matches(event));
        found.cloned().ok_or_else(|| format!("{events:?}"))
    })
    .await
}

/// Waits for an event in a namespace, and returns its message.
pub async fn wait_for_message(client: &Client, namespace: &str, wanted: Wanted<'_>) -> String {
    let event = wait_for(client, namespace, wanted).await;
    event.message.unwrap_or_default()
}
