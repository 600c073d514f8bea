use serde_json::json;

use super::super::error::SourceLocation;
use super::super::manifest;
use super::super::source::Document;
use super::*;
use crate::well_known_types;

fn typed(object: &Value) -> TypedManifest {
    let document = Document {
        location: SourceLocation {
            file: "change.yaml".to_owned(),
            document: 1,
            item: None,
        },
        value: object.clone(),
    };
    let mut manifests = manifest::from_documents(vec![document], &mut Vec::new());
    TypedManifest {
        manifest: manifests.remove(0),
        kind: well_known_types::interpreter_webhooks(),
        is_checked: true,
    }
}

#[test]
fn applied_interpreter_webhooks_are_noted_once() {
    let webhooks = json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": { "name": "apps" },
        "webhooks": [{ "name": "apps.example.com", "clientConfig": { "url": "https://127.0.0.1:1" },
            "rules": [{ "operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": ["Deployment"] }],
            "interpreterContextVersions": ["v1alpha1"] }],
    });
    let options = SimulateOptions {
        validates: true,
        ..SimulateOptions::default()
    };
    let mut state = PredictedState::new(
        BTreeMap::new(),
        Bindings::new(),
        super::Quotas::new(),
        BTreeMap::new(),
        &options,
    );
    let mut notes = Notes::default();
    for old in [None, Some(webhooks.clone())] {
        state.record(typed(&webhooks), old, webhooks.clone(), &mut notes);
        assert_eq!(
            notes.lines(),
            [
                "the webhooks of ResourceInterpreterWebhookConfiguration apps are not called: new or changed templates that need them are not placed"
            ]
        );
    }
}
