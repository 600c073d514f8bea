//! Tests of zero values. Objects with a zero value in every field must be serialized as by Karmada's Go types.

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::binding::{BindingSpec, BindingStatus};
use crate::cluster::{ClusterSpec, ClusterStatus};
use crate::dependency::DependentObjectReference;
use crate::override_policy::OverrideSpec;
use crate::placement::Placement;
use crate::policy::PropagationSpec;
use crate::taint_policy::ClusterTaintPolicySpec;
use crate::work::{WorkSpec, WorkStatus};
use crate::workload_rebalancer::{WorkloadRebalancerSpec, WorkloadRebalancerStatus};

/// Deserializes an object, and serializes the result.
fn round_trip<T: DeserializeOwned + Serialize>(written: &Value) -> Value {
    let typed: T = serde_json::from_value(written.clone()).unwrap();
    serde_json::to_value(typed).unwrap()
}

#[track_caller]
fn writes<T: DeserializeOwned + Serialize>(written: Value, expected: Value) {
    assert_eq!(round_trip::<T>(&written), expected, "of {written}");
}

fn no_affinity() -> Value {
    json!({ "labelSelector": { "matchLabels": {}, "matchExpressions": [] },
        "fieldSelector": { "matchExpressions": [] }, "clusterNames": [], "exclude": [] })
}

fn empty_affinity() -> Value {
    json!({ "labelSelector": {}, "fieldSelector": {} })
}

fn toleration() -> Value {
    json!({ "key": "", "operator": "", "value": "", "effect": "", "tolerationSeconds": 0 })
}

fn placement() -> Value {
    let named = json!({ "affinityName": "", "clusterNames": [], "exclude": [] });
    let mut term = named.clone();
    term["overflowAffinities"] = json!([named]);
    json!({
        "clusterAffinity": no_affinity(),
        "clusterAffinities": [term],
        "clusterTolerations": [toleration()],
        "spreadConstraints": [{ "spreadByField": "", "spreadByLabel": "", "maxGroups": 0, "minGroups": 0 }],
        "replicaScheduling": { "replicaSchedulingType": "", "replicaDivisionPreference": "",
            "weightPreference": { "dynamicWeight": "", "staticWeightList": [
                { "targetCluster": no_affinity(), "weight": 0 }] } },
        "workloadAffinity": { "affinity": { "groupByLabelKey": "" }, "antiAffinity": { "groupByLabelKey": "" } },
    })
}

fn placement_written() -> Value {
    json!({
        "clusterAffinity": empty_affinity(),
        "clusterAffinities": [{ "affinityName": "", "overflowAffinities": [{ "affinityName": "" }] }],
        "clusterTolerations": [{ "tolerationSeconds": 0 }],
        "spreadConstraints": [{}],
        "replicaScheduling": { "weightPreference": { "staticWeightList": [
            { "targetCluster": empty_affinity(), "weight": 0 }] } },
        "workloadAffinity": { "affinity": { "groupByLabelKey": "" }, "antiAffinity": { "groupByLabelKey": "" } },
    })
}

fn failover() -> Value {
    let state = json!({ "rules": [{ "aliasLabelName": "", "jsonPath": "" }] });
    json!({
        "application": { "decisionConditions": { "tolerationSeconds": 0 }, "purgeMode": "",
            "gracePeriodSeconds": 0, "statePreservation": state },
        "cluster": { "purgeMode": "", "statePreservation": state },
    })
}

fn failover_written() -> Value {
    let mut written = failover();
    for part in ["application", "cluster"] {
        written[part].as_object_mut().unwrap().remove("purgeMode");
    }
    written
}

fn suspension() -> Value {
    json!({ "dispatching": false, "dispatchingOnClusters": { "clusterNames": [] } })
}

fn suspension_written() -> Value {
    json!({ "dispatching": false, "dispatchingOnClusters": {} })
}

fn selector() -> Value {
    json!({ "apiVersion": "", "kind": "", "namespace": "", "name": "",
        "labelSelector": { "matchLabels": {}, "matchExpressions": [{ "key": "", "operator": "", "values": [] }] } })
}

fn selector_written() -> Value {
    json!({ "apiVersion": "", "kind": "",
        "labelSelector": { "matchExpressions": [{ "key": "", "operator": "" }] } })
}

fn condition() -> Value {
    json!({ "type": "", "status": "", "observedGeneration": 0, "reason": "", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" })
}

fn condition_written() -> Value {
    let mut written = condition();
    written
        .as_object_mut()
        .unwrap()
        .remove("observedGeneration");
    written
}

#[test]
fn zero_policies_are_written_as_in_go() {
    writes::<Placement>(placement(), placement_written());
    writes::<PropagationSpec>(
        json!({
            "resourceSelectors": [selector()], "association": false, "propagateDeps": false,
            "placement": placement(), "priority": 0, "preemption": "", "dependentOverrides": [],
            "schedulerName": "", "failover": failover(), "conflictResolution": "",
            "activationPreference": "", "suspension": suspension(), "preserveResourcesOnDeletion": false,
            "schedulePriority": { "priorityClassSource": "", "priorityClassName": "" },
        }),
        json!({
            "resourceSelectors": [selector_written()], "placement": placement_written(), "priority": 0,
            "failover": failover_written(), "suspension": suspension_written(),
            "preserveResourcesOnDeletion": false,
            "schedulePriority": { "priorityClassSource": "", "priorityClassName": "" },
        }),
    );
    // Go always writes structs, even with `omitempty`.
    writes::<PropagationSpec>(
        json!({ "resourceSelectors": [] }),
        json!({ "resourceSelectors": [], "placement": {} }),
    );
    writes::<ClusterTaintPolicySpec>(
        json!({ "targetClusters": no_affinity(), "addOnConditions": [], "removeOnConditions": [
            { "conditionType": "", "operator": "", "statusValues": [] }],
            "taints": [{ "key": "", "effect": "", "value": "" }] }),
        json!({ "targetClusters": empty_affinity(), "removeOnConditions": [
            { "conditionType": "", "operator": "", "statusValues": [] }],
            "taints": [{ "key": "", "effect": "" }] }),
    );
}

#[test]
fn zero_override_policies_are_written_as_in_go() {
    let patch = json!({ "subPath": "", "operator": "", "value": "" });
    let none = json!({ "plaintext": [], "imageOverrider": [], "commandOverrider": [], "argsOverrider": [],
        "labelsOverrider": [], "annotationsOverrider": [], "fieldOverrider": [] });
    writes::<OverrideSpec>(
        json!({ "resourceSelectors": [], "overrideRules": [], "targetCluster": no_affinity(), "overriders": none }),
        json!({ "targetCluster": empty_affinity(), "overriders": {} }),
    );
    writes::<OverrideSpec>(json!({}), json!({ "overriders": {} }));
    writes::<OverrideSpec>(
        json!({ "overrideRules": [{ "targetCluster": {}, "overriders": {
            "plaintext": [{ "path": "", "operator": "", "value": "" }],
            "imageOverrider": [{ "predicate": { "path": "" }, "component": "", "operator": "", "value": "" }],
            "commandOverrider": [{ "containerName": "", "operator": "", "value": [] }],
            "argsOverrider": [{ "containerName": "", "operator": "", "value": [] }],
            "labelsOverrider": [{ "operator": "", "value": {} }],
            "annotationsOverrider": [{ "operator": "", "value": {} }],
            "fieldOverrider": [{ "fieldPath": "", "json": [patch], "yaml": [] }] } }] }),
        json!({ "overriders": {}, "overrideRules": [{ "targetCluster": {}, "overriders": {
            "plaintext": [{ "path": "", "operator": "", "value": "" }],
            "imageOverrider": [{ "predicate": { "path": "" }, "component": "", "operator": "" }],
            "commandOverrider": [{ "containerName": "", "operator": "" }],
            "argsOverrider": [{ "containerName": "", "operator": "" }],
            "labelsOverrider": [{ "operator": "", "value": {} }],
            "annotationsOverrider": [{ "operator": "", "value": {} }],
            "fieldOverrider": [{ "fieldPath": "", "json": [patch] }] } }] }),
    );
}

#[test]
fn zero_bindings_are_written_as_in_go() {
    let terms = json!([{ "matchExpressions": [], "matchFields": [{ "key": "", "operator": "", "values": [] }] }]);
    let claim = json!({ "hardNodeAffinity": { "nodeSelectorTerms": terms }, "nodeSelector": {},
        "tolerations": [toleration()] });
    let claim_written = json!({ "hardNodeAffinity": { "nodeSelectorTerms": [
        { "matchFields": [{ "key": "", "operator": "" }] }] }, "tolerations": [{ "tolerationSeconds": 0 }] });
    let component_needs =
        json!({ "nodeClaim": claim, "resourceRequest": {}, "priorityClassName": "" });
    let mut needs = component_needs.clone();
    needs["namespace"] = json!("");
    let target =
        json!({ "name": "", "replicas": 0, "components": [{ "name": "", "replicas": 0 }] });
    let target_written = json!({ "name": "", "components": [{ "name": "", "replicas": 0 }] });
    let mut stopped = suspension();
    stopped["scheduling"] = json!(false);
    let mut stopped_written = suspension_written();
    stopped_written["scheduling"] = json!(false);
    writes::<BindingSpec>(
        json!({
            "resource": { "apiVersion": "", "kind": "", "namespace": "", "name": "", "uid": "", "resourceVersion": "" },
            "propagateDeps": false, "replicaRequirements": needs, "replicas": 0,
            "components": [{ "name": "", "replicas": 0, "replicaRequirements": component_needs }],
            "clusters": [target], "placement": placement(),
            "gracefulEvictionTasks": [{ "fromCluster": "", "purgeMode": "", "replicas": 0, "reason": "",
                "message": "", "producer": "", "gracePeriodSeconds": 0, "suppressDeletion": false,
                "preservedLabelState": {}, "clustersBeforeFailover": [] }],
            "requiredBy": [{ "namespace": "", "name": "", "clusters": [] }],
            "schedulerName": "", "failover": failover(), "conflictResolution": "", "suspension": stopped,
            "preserveResourcesOnDeletion": false, "schedulePriority": { "priority": 0 },
            "workloadAffinityGroups": { "affinityGroup": "", "antiAffinityGroup": "" },
        }),
        json!({
            "resource": { "apiVersion": "", "kind": "", "name": "" },
            "replicaRequirements": { "nodeClaim": claim_written },
            "components": [{ "name": "", "replicas": 0, "replicaRequirements": { "nodeClaim": claim_written } }],
            "clusters": [target_written], "placement": placement_written(),
            "gracefulEvictionTasks": [{ "fromCluster": "", "replicas": 0, "reason": "", "producer": "",
                "gracePeriodSeconds": 0, "suppressDeletion": false }],
            "requiredBy": [{ "name": "" }],
            "failover": failover_written(), "suspension": stopped_written,
            "preserveResourcesOnDeletion": false, "schedulePriority": {}, "workloadAffinityGroups": {},
        }),
    );
    writes::<BindingStatus>(
        json!({
            "schedulerObservedGeneration": 0, "schedulerObservingAffinityName": "", "conditions": [condition()],
            "aggregatedStatus": [{ "clusterName": "", "status": {}, "applied": false, "appliedMessage": "",
                "health": "" }],
        }),
        json!({ "conditions": [condition_written()], "aggregatedStatus": [{ "clusterName": "", "status": {} }] }),
    );
    writes::<DependentObjectReference>(
        json!({ "apiVersion": "", "kind": "", "namespace": "", "name": "", "labelSelector": {} }),
        json!({ "apiVersion": "", "kind": "", "labelSelector": {} }),
    );
}

#[test]
fn zero_works_are_written_as_in_go() {
    writes::<WorkSpec>(
        json!({ "workload": { "manifests": [] }, "suspendDispatching": false, "preserveResourcesOnDeletion": false }),
        json!({ "workload": {}, "suspendDispatching": false, "preserveResourcesOnDeletion": false }),
    );
    writes::<WorkStatus>(
        json!({ "conditions": [condition()], "manifestStatuses": [{ "identifier": { "ordinal": 0, "group": "",
            "version": "", "kind": "", "resource": "", "namespace": "", "name": "" }, "status": {}, "health": "" }] }),
        json!({ "conditions": [condition_written()], "manifestStatuses": [{ "identifier": { "ordinal": 0,
            "version": "", "kind": "", "resource": "", "name": "" }, "status": {} }] }),
    );
}

#[test]
fn zero_clusters_are_written_as_in_go() {
    writes::<ClusterSpec>(
        json!({
            "id": "", "syncMode": "", "apiEndpoint": "", "secretRef": { "namespace": "", "name": "" },
            "impersonatorSecretRef": { "namespace": "", "name": "" }, "insecureSkipTLSVerification": false,
            "proxyURL": "", "proxyHeader": {}, "provider": "", "region": "", "zone": "", "zones": [],
            "taints": [{ "key": "", "value": "", "effect": "" }],
            "resourceModels": [{ "grade": 0, "ranges": [{ "name": "", "min": "0", "max": "0" }] }],
        }),
        json!({
            "syncMode": "", "secretRef": { "namespace": "", "name": "" },
            "impersonatorSecretRef": { "namespace": "", "name": "" }, "taints": [{ "key": "", "effect": "" }],
            "resourceModels": [{ "grade": 0, "ranges": [{ "name": "", "min": "0", "max": "0" }] }],
        }),
    );
    writes::<ClusterStatus>(
        json!({
            "kubernetesVersion": "", "apiEnablements": [{ "groupVersion": "", "resources": [] }],
            "conditions": [condition()], "nodeSummary": { "totalNum": 0, "readyNum": 0 },
            "resourceSummary": { "allocatable": {}, "allocating": {}, "allocated": {},
                "allocatableModelings": [{ "grade": 0, "count": 0 }] },
            "remedyActions": [],
        }),
        json!({
            "apiEnablements": [{ "groupVersion": "" }], "conditions": [condition_written()], "nodeSummary": {},
            "resourceSummary": { "allocatableModelings": [{ "grade": 0, "count": 0 }] },
        }),
    );
}

#[test]
fn zero_rebalancers_are_written_as_in_go() {
    let workload = json!({ "apiVersion": "", "kind": "", "name": "", "namespace": "" });
    let workload_written = json!({ "apiVersion": "", "kind": "", "name": "" });
    writes::<WorkloadRebalancerSpec>(
        json!({ "workloads": [workload], "ttlSecondsAfterFinished": 0 }),
        json!({ "workloads": [workload_written], "ttlSecondsAfterFinished": 0 }),
    );
    writes::<WorkloadRebalancerStatus>(
        json!({ "observedWorkloads": [{ "workload": workload, "result": "", "reason": "" }],
            "observedGeneration": 0 }),
        json!({ "observedWorkloads": [{ "workload": workload_written }] }),
    );
}

#[test]
fn empty_values_of_known_fields_are_removed_and_other_values_are_kept() {
    let mut raw =
        json!({"a": {"values": [], "b": 0, "new": 1}, "kept": {}, "n": null, "l": [{"x": ""}]});
    remove(&mut raw, &json!({"a": {}, "kept": {}, "l": [{}]}));
    assert_eq!(raw, json!({"a": {"new": 1}, "kept": {}, "l": [{}]}));
}

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!("")), Just(json!("a"))]
}

proptest! {
    /// Each empty string is omitted, whether the other strings are empty or not.
    #[test]
    fn empty_strings_are_omitted_independently(
        key in text(), operator in text(), value in text(), effect in text(),
    ) {
        let written = json!({ "key": key, "operator": operator, "value": value, "effect": effect });
        let mut expected = written.clone();
        expected.as_object_mut().unwrap().retain(|_, value| value != "");
        prop_assert_eq!(round_trip::<crate::toleration::Toleration>(&written), expected);
    }
}
