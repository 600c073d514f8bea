//! Which fields of Go tell nothing from an empty value: those that are pointers, and some that are always written. All
//! others that may be left out are left out when they are empty.

/// Structs with such fields.
const KEPT: &[(&str, &[&str])] = &[
    ("AppArmorProfile", &["localhostProfile"]),
    (
        "AzureDiskVolumeSource",
        &["cachingMode", "fsType", "kind", "readOnly"],
    ),
    ("AzureFilePersistentVolumeSource", &["secretNamespace"]),
    ("CSIVolumeSource", &["fsType", "readOnly"]),
    ("CertificateSigningRequestSpec", &["expirationSeconds"]),
    ("ClientIPConfig", &["timeoutSeconds"]),
    (
        "ClusterTrustBundleProjection",
        &["name", "optional", "signerName"],
    ),
    ("ConfigMap", &["immutable"]),
    ("ConfigMapEnvSource", &["optional"]),
    ("ConfigMapKeySelector", &["optional"]),
    ("ConfigMapProjection", &["optional"]),
    ("ConfigMapVolumeSource", &["defaultMode", "optional"]),
    ("Container", &["restartPolicy"]),
    ("ContainerStatus", &["started", "stopSignal"]),
    (
        "CronJobSpec",
        &[
            "failedJobsHistoryLimit",
            "startingDeadlineSeconds",
            "successfulJobsHistoryLimit",
            "suspend",
            "timeZone",
        ],
    ),
    ("DaemonSetSpec", &["revisionHistoryLimit"]),
    ("DaemonSetStatus", &["collisionCount"]),
    (
        "DeploymentSpec",
        &[
            "progressDeadlineSeconds",
            "replicas",
            "revisionHistoryLimit",
        ],
    ),
    (
        "DeploymentStatus",
        &["collisionCount", "terminatingReplicas"],
    ),
    ("DownwardAPIVolumeFile", &["mode"]),
    ("DownwardAPIVolumeSource", &["defaultMode"]),
    ("Endpoint", &["hostname", "nodeName", "zone"]),
    ("EndpointAddress", &["nodeName"]),
    ("EndpointConditions", &["ready", "serving", "terminating"]),
    ("EndpointPort", &["appProtocol", "name", "port", "protocol"]),
    ("EphemeralContainer", &["restartPolicy"]),
    ("Event", &["reportingComponent", "reportingInstance"]),
    ("FCVolumeSource", &["lun"]),
    ("FileKeySelector", &["optional"]),
    ("GRPCAction", &["service"]),
    ("GlusterfsPersistentVolumeSource", &["endpointsNamespace"]),
    (
        "HPAScalingRules",
        &["selectPolicy", "stabilizationWindowSeconds"],
    ),
    ("HTTPIngressPath", &["pathType"]),
    (
        "HorizontalPodAutoscalerSpec",
        &["minReplicas", "targetCPUUtilizationPercentage"],
    ),
    (
        "HorizontalPodAutoscalerStatus",
        &["currentCPUUtilizationPercentage", "observedGeneration"],
    ),
    ("HostPathVolumeSource", &["type"]),
    ("ISCSIPersistentVolumeSource", &["initiatorName"]),
    ("ISCSIVolumeSource", &["initiatorName"]),
    (
        "IngressClassParametersReference",
        &["apiGroup", "namespace", "scope"],
    ),
    ("IngressPortStatus", &["error"]),
    ("IngressSpec", &["ingressClassName"]),
    (
        "JSONSchemaProps",
        &[
            "maxItems",
            "maxLength",
            "maxProperties",
            "maximum",
            "minItems",
            "minLength",
            "minProperties",
            "minimum",
            "multipleOf",
            "x-kubernetes-list-type",
            "x-kubernetes-map-type",
            "x-kubernetes-preserve-unknown-fields",
        ],
    ),
    (
        "JobSpec",
        &[
            "activeDeadlineSeconds",
            "backoffLimit",
            "backoffLimitPerIndex",
            "completionMode",
            "completions",
            "managedBy",
            "manualSelector",
            "maxFailedIndexes",
            "parallelism",
            "podReplacementPolicy",
            "suspend",
            "ttlSecondsAfterFinished",
        ],
    ),
    ("JobStatus", &["failedIndexes", "ready", "terminating"]),
    ("KeyToPath", &["mode"]),
    (
        "LeaseSpec",
        &[
            "holderIdentity",
            "leaseDurationSeconds",
            "leaseTransitions",
            "preferredHolder",
            "strategy",
        ],
    ),
    ("Lifecycle", &["stopSignal"]),
    ("LoadBalancerIngress", &["ipMode"]),
    ("LocalVolumeSource", &["fsType"]),
    ("MetricTarget", &["averageUtilization"]),
    ("MetricValueStatus", &["averageUtilization"]),
    ("NetworkPolicyPort", &["endPort", "protocol"]),
    ("NodeFeatures", &["supplementalGroupsPolicy"]),
    ("NodeRuntimeHandler", &["name"]),
    (
        "NodeRuntimeHandlerFeatures",
        &["recursiveReadOnlyMounts", "userNamespaces"],
    ),
    ("NodeSwapStatus", &["capacity"]),
    ("ObjectMeta", &["deletionGracePeriodSeconds"]),
    ("OwnerReference", &["blockOwnerDeletion", "controller"]),
    (
        "PersistentVolumeClaimSpec",
        &[
            "storageClassName",
            "volumeAttributesClassName",
            "volumeMode",
        ],
    ),
    (
        "PersistentVolumeClaimStatus",
        &["currentVolumeAttributesClassName"],
    ),
    (
        "PersistentVolumeSpec",
        &["volumeAttributesClassName", "volumeMode"],
    ),
    ("PodCertificateProjection", &["maxExpirationSeconds"]),
    ("PodDNSConfigOption", &["value"]),
    ("PodDisruptionBudgetSpec", &["unhealthyPodEvictionPolicy"]),
    (
        "PodDisruptionBudgetStatus",
        &[
            "currentHealthy",
            "desiredHealthy",
            "disruptionsAllowed",
            "expectedPods",
        ],
    ),
    ("PodFailurePolicyOnExitCodesRequirement", &["containerName"]),
    ("PodFailurePolicyOnPodConditionsPattern", &["status"]),
    (
        "PodResourceClaim",
        &["resourceClaimName", "resourceClaimTemplateName"],
    ),
    ("PodResourceClaimStatus", &["resourceClaimName"]),
    ("PodSchedulingGroup", &["podGroupName"]),
    (
        "PodSecurityContext",
        &[
            "fsGroup",
            "fsGroupChangePolicy",
            "runAsGroup",
            "runAsNonRoot",
            "runAsUser",
            "seLinuxChangePolicy",
            "supplementalGroupsPolicy",
        ],
    ),
    (
        "PodSpec",
        &[
            "activeDeadlineSeconds",
            "automountServiceAccountToken",
            "enableServiceLinks",
            "hostUsers",
            "hostnameOverride",
            "preemptionPolicy",
            "priority",
            "runtimeClassName",
            "setHostnameAsFQDN",
            "shareProcessNamespace",
            "terminationGracePeriodSeconds",
        ],
    ),
    ("PortStatus", &["error"]),
    ("PriorityClass", &["preemptionPolicy", "value"]),
    ("Probe", &["terminationGracePeriodSeconds"]),
    ("ProjectedVolumeSource", &["defaultMode"]),
    ("ReplicaSetSpec", &["replicas"]),
    ("ReplicaSetStatus", &["terminatingReplicas"]),
    ("ReplicationControllerSpec", &["replicas"]),
    ("ResourceHealth", &["message"]),
    ("RollingUpdateStatefulSetStrategy", &["partition"]),
    ("SeccompProfile", &["localhostProfile"]),
    ("Secret", &["immutable"]),
    ("SecretEnvSource", &["optional"]),
    ("SecretKeySelector", &["optional"]),
    ("SecretProjection", &["optional"]),
    ("SecretVolumeSource", &["defaultMode", "optional"]),
    (
        "SecurityContext",
        &[
            "allowPrivilegeEscalation",
            "privileged",
            "procMount",
            "readOnlyRootFilesystem",
            "runAsGroup",
            "runAsNonRoot",
            "runAsUser",
        ],
    ),
    ("ServiceAccount", &["automountServiceAccountToken"]),
    ("ServiceAccountTokenProjection", &["expirationSeconds"]),
    ("ServicePort", &["appProtocol"]),
    (
        "ServiceSpec",
        &[
            "allocateLoadBalancerNodePorts",
            "internalTrafficPolicy",
            "ipFamilyPolicy",
            "loadBalancerClass",
            "trafficDistribution",
        ],
    ),
    ("StatefulSetOrdinals", &["start"]),
    (
        "StatefulSetSpec",
        &["replicas", "revisionHistoryLimit", "serviceName"],
    ),
    (
        "StatefulSetStatus",
        &["availableReplicas", "collisionCount"],
    ),
    (
        "StorageClass",
        &["allowVolumeExpansion", "reclaimPolicy", "volumeBindingMode"],
    ),
    ("SuccessPolicyRule", &["succeededCount", "succeededIndexes"]),
    ("Toleration", &["tolerationSeconds"]),
    (
        "TopologySpreadConstraint",
        &["minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy"],
    ),
    ("TypedLocalObjectReference", &["apiGroup"]),
    ("TypedObjectReference", &["apiGroup", "namespace"]),
    ("VolumeMount", &["mountPropagation", "recursiveReadOnly"]),
    ("VolumeMountStatus", &["recursiveReadOnly"]),
    (
        "WindowsSecurityContextOptions",
        &[
            "gmsaCredentialSpec",
            "gmsaCredentialSpecName",
            "hostProcess",
            "runAsUserName",
        ],
    ),
];

/// Whether an empty value of a field stays.
pub(super) fn stays(owner: &str, field: &str) -> bool {
    let found = KEPT.iter().find(|(of, _)| *of == owner);
    found.is_some_and(|(_, fields)| fields.contains(&field))
}

/// All fields of the table.
#[cfg(test)]
pub(super) fn places() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEPT.iter()
        .flat_map(|(owner, fields)| fields.iter().map(move |field| (*owner, *field)))
}
