//! What Go knows of types and the OpenAPI definitions do not say: which texts have a type of their own, and which
//! fields are those of a struct within the struct.

/// Types of Go with the fields that have them.
const NAMED: &[(&str, &[&str])] = &[
    (
        "[]types.UID",
        &[
            "UncountedTerminatedPods.failed",
            "UncountedTerminatedPods.succeeded",
        ],
    ),
    (
        "[]v1.Capability",
        &["Capabilities.add", "Capabilities.drop"],
    ),
    ("[]v1.FinalizerName", &["NamespaceSpec.finalizers"]),
    ("[]v1.IPFamily", &["ServiceSpec.ipFamilies"]),
    ("[]v1.KeyUsage", &["CertificateSigningRequestSpec.usages"]),
    (
        "[]v1.PersistentVolumeAccessMode",
        &[
            "PersistentVolumeClaimSpec.accessModes",
            "PersistentVolumeClaimStatus.accessModes",
            "PersistentVolumeSpec.accessModes",
        ],
    ),
    ("[]v1.PolicyType", &["NetworkPolicySpec.policyTypes"]),
    ("[]v1.ResourceQuotaScope", &["ResourceQuotaSpec.scopes"]),
    ("[]v1.UniqueVolumeName", &["NodeStatus.volumesInUse"]),
    (
        "map[string]v1.ExtraValue",
        &[
            "CertificateSigningRequestSpec.extra",
            "SubjectAccessReviewSpec.extra",
            "UserInfo.extra",
        ],
    ),
    (
        "map[v1.ResourceName]resource.Quantity",
        &["NodeAllocatableResourceClaimStatus.resources"],
    ),
    (
        "map[v1.ResourceName]v1.ClaimResourceStatus",
        &["PersistentVolumeClaimStatus.allocatedResourceStatuses"],
    ),
    (
        "types.UID",
        &[
            "ConfigMapNodeConfigSource.uid",
            "ObjectMeta.uid",
            "ObjectReference.uid",
            "OwnerReference.uid",
        ],
    ),
    ("v1.AddressType", &["EndpointSlice.addressType"]),
    ("v1.AppArmorProfileType", &["AppArmorProfile.type"]),
    (
        "v1.AzureDataDiskCachingMode",
        &["AzureDiskVolumeSource.cachingMode"],
    ),
    ("v1.AzureDataDiskKind", &["AzureDiskVolumeSource.kind"]),
    ("v1.CompletionMode", &["JobSpec.completionMode"]),
    ("v1.ConcurrencyPolicy", &["CronJobSpec.concurrencyPolicy"]),
    (
        "v1.ConditionStatus",
        &[
            "CertificateSigningRequestCondition.status",
            "Condition.status",
            "CustomResourceDefinitionCondition.status",
            "DaemonSetCondition.status",
            "DeploymentCondition.status",
            "HorizontalPodAutoscalerCondition.status",
            "JobCondition.status",
            "NamespaceCondition.status",
            "NodeCondition.status",
            "PersistentVolumeClaimCondition.status",
            "PodCondition.status",
            "PodFailurePolicyOnPodConditionsPattern.status",
            "ReplicaSetCondition.status",
            "ReplicationControllerCondition.status",
            "StatefulSetCondition.status",
        ],
    ),
    (
        "v1.ContainerRestartPolicy",
        &[
            "Container.restartPolicy",
            "EphemeralContainer.restartPolicy",
        ],
    ),
    (
        "v1.ContainerRestartRuleAction",
        &["ContainerRestartRule.action"],
    ),
    (
        "v1.ContainerRestartRuleOnExitCodesOperator",
        &["ContainerRestartRuleOnExitCodes.operator"],
    ),
    (
        "v1.ConversionStrategyType",
        &["CustomResourceConversion.strategy"],
    ),
    ("v1.CoordinatedLeaseStrategy", &["LeaseSpec.strategy"]),
    (
        "v1.CustomResourceDefinitionConditionType",
        &["CustomResourceDefinitionCondition.type"],
    ),
    ("v1.DNSPolicy", &["PodSpec.dnsPolicy"]),
    ("v1.DaemonSetConditionType", &["DaemonSetCondition.type"]),
    (
        "v1.DaemonSetUpdateStrategyType",
        &["DaemonSetUpdateStrategy.type"],
    ),
    ("v1.DeploymentConditionType", &["DeploymentCondition.type"]),
    ("v1.DeploymentStrategyType", &["DeploymentStrategy.type"]),
    (
        "v1.FieldSelectorOperator",
        &["FieldSelectorRequirement.operator"],
    ),
    ("v1.FieldValueErrorReason", &["ValidationRule.reason"]),
    ("v1.HostPathType", &["HostPathVolumeSource.type"]),
    ("v1.IPFamilyPolicy", &["ServiceSpec.ipFamilyPolicy"]),
    ("v1.JobConditionType", &["JobCondition.type"]),
    (
        "v1.LabelSelectorOperator",
        &["LabelSelectorRequirement.operator"],
    ),
    ("v1.LimitType", &["LimitRangeItem.type"]),
    ("v1.LoadBalancerIPMode", &["LoadBalancerIngress.ipMode"]),
    (
        "v1.ManagedFieldsOperationType",
        &["ManagedFieldsEntry.operation"],
    ),
    ("v1.MountPropagationMode", &["VolumeMount.mountPropagation"]),
    ("v1.NamespaceConditionType", &["NamespaceCondition.type"]),
    ("v1.NamespacePhase", &["NamespaceStatus.phase"]),
    ("v1.NodeAddressType", &["NodeAddress.type"]),
    ("v1.NodeConditionType", &["NodeCondition.type"]),
    (
        "v1.NodeInclusionPolicy",
        &[
            "TopologySpreadConstraint.nodeAffinityPolicy",
            "TopologySpreadConstraint.nodeTaintsPolicy",
        ],
    ),
    ("v1.NodePhase", &["NodeStatus.phase"]),
    (
        "v1.NodeSelectorOperator",
        &["NodeSelectorRequirement.operator"],
    ),
    ("v1.OSName", &["PodOS.name"]),
    ("v1.PathType", &["HTTPIngressPath.pathType"]),
    (
        "v1.PersistentVolumeClaimConditionType",
        &["PersistentVolumeClaimCondition.type"],
    ),
    (
        "v1.PersistentVolumeClaimModifyVolumeStatus",
        &["ModifyVolumeStatus.status"],
    ),
    (
        "v1.PersistentVolumeClaimPhase",
        &["PersistentVolumeClaimStatus.phase"],
    ),
    (
        "v1.PersistentVolumeClaimRetentionPolicyType",
        &[
            "StatefulSetPersistentVolumeClaimRetentionPolicy.whenDeleted",
            "StatefulSetPersistentVolumeClaimRetentionPolicy.whenScaled",
        ],
    ),
    (
        "v1.PersistentVolumeMode",
        &[
            "PersistentVolumeClaimSpec.volumeMode",
            "PersistentVolumeSpec.volumeMode",
        ],
    ),
    (
        "v1.PersistentVolumePhase",
        &["PersistentVolumeStatus.phase"],
    ),
    (
        "v1.PersistentVolumeReclaimPolicy",
        &[
            "PersistentVolumeSpec.persistentVolumeReclaimPolicy",
            "StorageClass.reclaimPolicy",
        ],
    ),
    (
        "v1.PodConditionType",
        &[
            "PodCondition.type",
            "PodFailurePolicyOnPodConditionsPattern.type",
            "PodReadinessGate.conditionType",
        ],
    ),
    (
        "v1.PodFSGroupChangePolicy",
        &["PodSecurityContext.fsGroupChangePolicy"],
    ),
    (
        "v1.PodFailurePolicyAction",
        &["PodFailurePolicyRule.action"],
    ),
    (
        "v1.PodFailurePolicyOnExitCodesOperator",
        &["PodFailurePolicyOnExitCodesRequirement.operator"],
    ),
    (
        "v1.PodManagementPolicyType",
        &["StatefulSetSpec.podManagementPolicy"],
    ),
    ("v1.PodPhase", &["PodStatus.phase"]),
    ("v1.PodQOSClass", &["PodStatus.qosClass"]),
    ("v1.PodReplacementPolicy", &["JobSpec.podReplacementPolicy"]),
    ("v1.PodResizeStatus", &["PodStatus.resize"]),
    (
        "v1.PodSELinuxChangePolicy",
        &["PodSecurityContext.seLinuxChangePolicy"],
    ),
    (
        "v1.PreemptionPolicy",
        &["PodSpec.preemptionPolicy", "PriorityClass.preemptionPolicy"],
    ),
    ("v1.ProcMountType", &["SecurityContext.procMount"]),
    (
        "v1.Protocol",
        &[
            "ContainerPort.protocol",
            "EndpointPort.protocol",
            "IngressPortStatus.protocol",
            "NetworkPolicyPort.protocol",
            "PortStatus.protocol",
            "ServicePort.protocol",
        ],
    ),
    (
        "v1.PullPolicy",
        &[
            "Container.imagePullPolicy",
            "EphemeralContainer.imagePullPolicy",
            "ImageVolumeSource.pullPolicy",
        ],
    ),
    (
        "v1.RecursiveReadOnlyMode",
        &[
            "VolumeMount.recursiveReadOnly",
            "VolumeMountStatus.recursiveReadOnly",
        ],
    ),
    ("v1.ReplicaSetConditionType", &["ReplicaSetCondition.type"]),
    (
        "v1.ReplicationControllerConditionType",
        &["ReplicationControllerCondition.type"],
    ),
    (
        "v1.RequestConditionType",
        &["CertificateSigningRequestCondition.type"],
    ),
    ("v1.ResourceHealthStatus", &["ResourceHealth.health"]),
    ("v1.ResourceID", &["ResourceHealth.resourceID"]),
    (
        "v1.ResourceName",
        &[
            "ContainerResizePolicy.resourceName",
            "ContainerResourceMetricSource.name",
            "ContainerResourceMetricStatus.name",
            "ResourceMetricSource.name",
            "ResourceMetricStatus.name",
            "ResourceStatus.name",
        ],
    ),
    (
        "v1.ResourceQuotaScope",
        &["ScopedResourceSelectorRequirement.scopeName"],
    ),
    (
        "v1.ResourceResizeRestartPolicy",
        &["ContainerResizePolicy.restartPolicy"],
    ),
    ("v1.ResourceScope", &["CustomResourceDefinitionSpec.scope"]),
    ("v1.RestartPolicy", &["PodSpec.restartPolicy"]),
    (
        "v1.ScopeSelectorOperator",
        &["ScopedResourceSelectorRequirement.operator"],
    ),
    ("v1.SeccompProfileType", &["SeccompProfile.type"]),
    ("v1.SecretType", &["Secret.type"]),
    ("v1.ServiceAffinity", &["ServiceSpec.sessionAffinity"]),
    (
        "v1.ServiceExternalTrafficPolicy",
        &["ServiceSpec.externalTrafficPolicy"],
    ),
    (
        "v1.ServiceInternalTrafficPolicy",
        &["ServiceSpec.internalTrafficPolicy"],
    ),
    ("v1.ServiceType", &["ServiceSpec.type"]),
    (
        "v1.Signal",
        &["ContainerStatus.stopSignal", "Lifecycle.stopSignal"],
    ),
    (
        "v1.StatefulSetConditionType",
        &["StatefulSetCondition.type"],
    ),
    (
        "v1.StatefulSetUpdateStrategyType",
        &["StatefulSetUpdateStrategy.type"],
    ),
    ("v1.StorageMedium", &["EmptyDirVolumeSource.medium"]),
    (
        "v1.SupplementalGroupsPolicy",
        &["PodSecurityContext.supplementalGroupsPolicy"],
    ),
    ("v1.TaintEffect", &["Taint.effect", "Toleration.effect"]),
    (
        "v1.TerminationMessagePolicy",
        &[
            "Container.terminationMessagePolicy",
            "EphemeralContainer.terminationMessagePolicy",
        ],
    ),
    ("v1.TolerationOperator", &["Toleration.operator"]),
    ("v1.URIScheme", &["HTTPGetAction.scheme"]),
    (
        "v1.UnhealthyPodEvictionPolicyType",
        &["PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy"],
    ),
    ("v1.UniqueVolumeName", &["AttachedVolume.name"]),
    (
        "v1.UnsatisfiableConstraintAction",
        &["TopologySpreadConstraint.whenUnsatisfiable"],
    ),
    ("v1.VolumeBindingMode", &["StorageClass.volumeBindingMode"]),
    ("v2.HPAScalingPolicyType", &["HPAScalingPolicy.type"]),
    (
        "v2.HorizontalPodAutoscalerConditionType",
        &["HorizontalPodAutoscalerCondition.type"],
    ),
    (
        "v2.MetricSourceType",
        &["MetricSpec.type", "MetricStatus.type"],
    ),
    ("v2.MetricTargetType", &["MetricTarget.type"]),
    ("v2.ScalingPolicySelect", &["HPAScalingRules.selectPolicy"]),
];

/// The fields of a struct that stand in a struct within it.
enum Inner {
    These(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

/// Structs, the struct within them, and its fields.
const EMBEDDED: &[(&str, &str, Inner)] = &[
    (
        "Probe",
        "ProbeHandler",
        Inner::These(&["exec", "httpGet", "tcpSocket", "grpc"]),
    ),
    ("IngressRule", "IngressRuleValue", Inner::These(&["http"])),
    ("Volume", "VolumeSource", Inner::AllBut(&["name"])),
    (
        "PersistentVolumeSpec",
        "PersistentVolumeSource",
        Inner::AllBut(&[
            "capacity",
            "accessModes",
            "claimRef",
            "persistentVolumeReclaimPolicy",
            "storageClassName",
            "mountOptions",
            "volumeMode",
            "nodeAffinity",
            "volumeAttributesClassName",
        ]),
    ),
    // The only kind that is part of another one.
    (
        "PersistentVolumeClaim",
        "TypeMeta",
        Inner::These(&["apiVersion", "kind"]),
    ),
    (
        "EphemeralContainer",
        "EphemeralContainerCommon",
        Inner::AllBut(&["targetContainerName"]),
    ),
    (
        "ConfigMapVolumeSource",
        "LocalObjectReference",
        Inner::These(&["name"]),
    ),
    (
        "ConfigMapKeySelector",
        "LocalObjectReference",
        Inner::These(&["name"]),
    ),
    (
        "SecretKeySelector",
        "LocalObjectReference",
        Inner::These(&["name"]),
    ),
    (
        "ConfigMapEnvSource",
        "LocalObjectReference",
        Inner::These(&["name"]),
    ),
    (
        "SecretEnvSource",
        "LocalObjectReference",
        Inner::These(&["name"]),
    ),
    (
        "ConfigMapProjection",
        "LocalObjectReference",
        Inner::These(&["name"]),
    ),
    (
        "SecretProjection",
        "LocalObjectReference",
        Inner::These(&["name"]),
    ),
];

/// What Go calls the type of a field, if it has a name of its own.
pub(super) fn named(owner: &str, field: &str) -> Option<&'static str> {
    let is_it = |place: &str| place.split_once('.') == Some((owner, field));
    let found = NAMED
        .iter()
        .find(|(_, places)| places.iter().any(|place| is_it(place)));
    found.map(|(name, _)| *name)
}

/// The struct within a struct that has a field.
pub(super) fn embedded(owner: &str, field: &str) -> Option<&'static str> {
    let found = EMBEDDED.iter().find(|(of, _, fields)| {
        *of == owner
            && match fields {
                Inner::These(fields) => fields.contains(&field),
                Inner::AllBut(others) => !others.contains(&field),
            }
    });
    found.map(|(_, name, _)| *name)
}

/// All places that have a name.
#[cfg(test)]
pub(super) fn places() -> impl Iterator<Item = &'static str> {
    NAMED.iter().flat_map(|(_, places)| places.iter().copied())
}
