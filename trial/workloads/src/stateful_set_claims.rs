//! The PersistentVolumeClaims of StatefulSets: one claim for each pod and claim template. By default, a claim remains
//! when its pod is deleted.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};

use crate::action::Action;
use crate::cache::{Cache, Key};
use crate::owned_pods;

/// Creates the missing claims of a pod, and adds the claims to the volumes of the pod.
pub(crate) fn create_missing(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    pod: &mut Pod,
    cache: &Cache,
    actions: &mut Vec<Action>,
) {
    let Some(pod_spec) = &mut pod.spec else {
        return;
    };
    for template in spec.volume_claim_templates.iter().flatten() {
        let volume = template.name_any();
        let claim = claim(set, spec, template, pod.metadata.name.as_deref());
        let name = claim.name_any();
        let volumes = pod_spec.volumes.get_or_insert_default();
        // The claim replaces a volume with the same name in the pod template.
        volumes.retain(|known| known.name != volume);
        volumes.push(Volume {
            name: volume,
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: name.clone(),
                read_only: None,
            }),
            ..Volume::default()
        });
        let key = (set.namespace().unwrap_or_default(), name);
        if cache.claims.get(&key).is_none() {
            let set = Box::new(set.object_ref(&()));
            let pod = pod.metadata.name.clone().unwrap_or_default();
            actions.push(Action::CreateClaim(Box::new(claim), pod, set));
        }
    }
}

/// Returns the claims that must be deleted together with a pod that the StatefulSet no longer needs.
pub(crate) fn claims_to_delete<'a>(
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    pod: &'a Pod,
    cache: &'a Cache,
) -> impl Iterator<Item = Key> + 'a {
    let retention = spec.persistent_volume_claim_retention_policy.as_ref();
    let go = retention.and_then(|policy| policy.when_scaled.as_deref()) == Some("Delete");
    let templates = spec.volume_claim_templates.iter().flatten();
    templates
        .filter(move |_| go)
        .map(move |template| {
            let name = claim_name(template, pod.metadata.name.as_deref());
            (set.namespace().unwrap_or_default(), name)
        })
        .filter(|key| cache.claims.get(key).is_some())
}

/// Returns the name of a claim, such as `data-db-0` for the template `data` and the pod `db-0`.
fn claim_name(template: &PersistentVolumeClaim, pod: Option<&str>) -> String {
    format!("{}-{}", template.name_any(), pod.unwrap_or_default())
}

fn claim(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    template: &PersistentVolumeClaim,
    pod: Option<&str>,
) -> PersistentVolumeClaim {
    let mut labels: BTreeMap<String, String> = template.labels().clone();
    labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
    let retention = spec.persistent_volume_claim_retention_policy.as_ref();
    let goes_with_set = retention.and_then(|policy| policy.when_deleted.as_deref());
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim_name(template, pod)),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: template.metadata.annotations.clone(),
            owner_references: match goes_with_set {
                Some("Delete") => owned_pods::owner_references(set),
                _ => None,
            },
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}
