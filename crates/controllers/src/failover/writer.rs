//! Writes of failover, each for the version that it was decided for.

use berth_api::{ClusterResourceBinding, ResourceBinding};
use berth_events::{EventRecorder, Happening, Severity};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::binding::Bound;
use crate::binding_key::BindingKind;

/// The reason of events about what stays although it should leave.
const FAILED: &str = "EvictWorkloadFromClusterFailed";

/// How a write ended.
#[derive(Debug)]
pub(super) enum Written {
    /// It is stored; the binding as it is now.
    Stored(Box<DynamicObject>),
    /// Somebody else was faster.
    Stale,
    /// The binding is gone.
    Gone,
    /// It failed; to be tried again.
    Failed(Box<kube::Error>),
}

/// What is to be told of a write.
#[derive(Clone, Debug)]
pub(super) enum Telling {
    /// The old copies in these clusters may go.
    Evicted(Vec<String>),
    /// These clusters are left; only a failure is told.
    Leaving(Vec<String>),
}

/// Writes, and tells. Cheap to clone.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) events: EventRecorder,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    /// Patches a binding.
    pub(super) async fn write(
        &self,
        binding: &Bound,
        mut patch: Value,
        telling: Telling,
    ) -> Written {
        patch["metadata"] = json!({ "resourceVersion": binding.version });
        let (api, name) = (self.api(binding), &binding.key.name);
        let parameters = PatchParams {
            field_manager: Some("berth-failover".to_owned()),
            ..PatchParams::default()
        };
        let written = match api.patch(name, &parameters, &Patch::Merge(patch)).await {
            Ok(stored) => Written::Stored(Box::new(stored)),
            Err(kube::Error::Api(status)) if status.code == 409 => Written::Stale,
            Err(kube::Error::Api(status)) if status.code == 404 => Written::Gone,
            Err(error) => Written::Failed(Box::new(error)),
        };
        match (&written, telling) {
            (Written::Stored(_), Telling::Evicted(clusters)) => {
                for cluster in clusters {
                    self.tell(binding, &cluster, true);
                }
            }
            (Written::Failed(_), Telling::Leaving(clusters)) => {
                for cluster in clusters {
                    self.tell(binding, &cluster, false);
                }
            }
            _ => {}
        }
        written
    }

    fn api(&self, binding: &Bound) -> Api<DynamicObject> {
        let client = self.client.clone();
        match binding.kind() {
            BindingKind::Namespaced => {
                let resource = ApiResource::erase::<ResourceBinding>(&());
                Api::namespaced_with(client, &binding.key.namespace, &resource)
            }
            BindingKind::Cluster => {
                Api::all_with(client, &ApiResource::erase::<ClusterResourceBinding>(&()))
            }
        }
    }

    /// In Karmada's words.
    fn tell(&self, binding: &Bound, cluster: &str, well: bool) {
        if well {
            let message = format!("Evict from cluster {cluster} succeed.");
            let reason = "EvictWorkloadFromClusterSucceed";
            let component = match binding.kind() {
                BindingKind::Namespaced => "resource-binding-graceful-eviction-controller",
                BindingKind::Cluster => "cluster-resource-binding-graceful-eviction-controller",
            };
            let events = self.events.of(component);
            record(&events, binding, Severity::Normal, reason, &message);
        } else {
            let message = format!("Evict from cluster {cluster} failed.");
            record(&self.events, binding, Severity::Warning, FAILED, &message);
        }
    }

    /// Tells that a binding does not leave a cluster although it should.
    pub(super) fn refused(&self, binding: &Bound, cluster: &str, why: &str) {
        let message = format!("Evict from cluster {cluster} failed: {why}");
        record(&self.events, binding, Severity::Warning, FAILED, &message);
    }
}

/// On the binding and on the template.
fn record(
    events: &EventRecorder,
    binding: &Bound,
    severity: Severity,
    reason: &'static str,
    message: &str,
) {
    let objects = [
        ObjectReference {
            api_version: Some("work.karmada.io/v1alpha2".to_owned()),
            kind: Some(binding.kind().name().to_owned()),
            namespace: Some(binding.key.namespace.clone()).filter(|text| !text.is_empty()),
            name: Some(binding.key.name.clone()),
            uid: binding.uid.clone(),
            resource_version: binding.version.clone(),
            field_path: None,
        },
        (&binding.spec.resource).into(),
    ];
    for object in objects {
        events.record(Happening {
            object,
            severity,
            reason,
            message: message.to_owned(),
        });
    }
}
