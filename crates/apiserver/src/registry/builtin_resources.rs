//! The table of built-in resources.

use std::sync::OnceLock;

use crate::resource::{Conversion, NameRule, Put, Resource, ScalePaths, Scope, Source, Style};
use crate::table::{Columns, builtin_columns};

/// A row of the table.
struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    /// Short names, separated by commas.
    short: &'static str,
    scope: Scope,
    /// Letters: `s` status, `c` scale, `g` generation, `a` category all, `r` review, `l` label name,
    /// `p` path-segment name, `v` service name, `e` stored as core event,
    /// `o` stored as autoscaling/v2, `x` category api-extensions, `u` created by PUT, `n` version needed by PUT.
    flags: &'static str,
    /// Package of the OpenAPI definition.
    package: &'static str,
}

const fn row(
    gv: (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    scope: Scope,
    flags: &'static str,
    package: &'static str,
) -> Row {
    Row {
        group: gv.0,
        version: gv.1,
        kind,
        plural,
        short,
        scope,
        flags,
        package,
    }
}

use Scope::{Cluster as C, Namespaced as N};

const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");
const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const NET: (&str, &str) = ("networking.k8s.io", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const AUTHZ: (&str, &str) = ("authorization.k8s.io", "v1");
const AUTHN: (&str, &str) = ("authentication.k8s.io", "v1");

const P_ADMISSION: &str = "io.k8s.api.admissionregistration.v1";
const P_CORE: &str = "io.k8s.api.core.v1";
const P_APPS: &str = "io.k8s.api.apps.v1";
const P_BATCH: &str = "io.k8s.api.batch.v1";
const P_NET: &str = "io.k8s.api.networking.v1";
const P_RBAC: &str = "io.k8s.api.rbac.v1";
const P_AUTHZ: &str = "io.k8s.api.authorization.v1";
const P_AUTHN: &str = "io.k8s.api.authentication.v1";

const TABLE: &[Row] = &[
    row(CORE, "Namespace", "namespaces", "ns", C, "sl", P_CORE),
    row(CORE, "ConfigMap", "configmaps", "cm", N, "", P_CORE),
    row(CORE, "Secret", "secrets", "", N, "", P_CORE),
    row(CORE, "Service", "services", "svc", N, "salu", P_CORE),
    row(
        CORE,
        "ServiceAccount",
        "serviceaccounts",
        "sa",
        N,
        "",
        P_CORE,
    ),
    row(CORE, "Pod", "pods", "po", N, "sag", P_CORE),
    row(CORE, "Node", "nodes", "no", C, "s", P_CORE),
    row(CORE, "PodTemplate", "podtemplates", "", N, "g", P_CORE),
    row(CORE, "Event", "events", "ev", N, "u", P_CORE),
    row(CORE, "Endpoints", "endpoints", "ep", N, "u", P_CORE),
    row(
        CORE,
        "PersistentVolume",
        "persistentvolumes",
        "pv",
        C,
        "s",
        P_CORE,
    ),
    row(
        CORE,
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "pvc",
        N,
        "s",
        P_CORE,
    ),
    row(
        CORE,
        "ResourceQuota",
        "resourcequotas",
        "quota",
        N,
        "s",
        P_CORE,
    ),
    row(CORE, "LimitRange", "limitranges", "limits", N, "u", P_CORE),
    row(
        CORE,
        "ReplicationController",
        "replicationcontrollers",
        "rc",
        N,
        "scga",
        P_CORE,
    ),
    row(
        APPS,
        "Deployment",
        "deployments",
        "deploy",
        N,
        "scga",
        P_APPS,
    ),
    row(APPS, "ReplicaSet", "replicasets", "rs", N, "scga", P_APPS),
    row(
        APPS,
        "StatefulSet",
        "statefulsets",
        "sts",
        N,
        "scga",
        P_APPS,
    ),
    row(APPS, "DaemonSet", "daemonsets", "ds", N, "sga", P_APPS),
    row(
        APPS,
        "ControllerRevision",
        "controllerrevisions",
        "",
        N,
        "",
        P_APPS,
    ),
    row(BATCH, "Job", "jobs", "", N, "sga", P_BATCH),
    row(BATCH, "CronJob", "cronjobs", "cj", N, "sga", P_BATCH),
    row(
        ("autoscaling", "v2"),
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
        N,
        "sa",
        "io.k8s.api.autoscaling.v2",
    ),
    row(
        ("autoscaling", "v1"),
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
        N,
        "sao",
        "io.k8s.api.autoscaling.v1",
    ),
    row(NET, "Ingress", "ingresses", "ing", N, "sg", P_NET),
    row(
        NET,
        "NetworkPolicy",
        "networkpolicies",
        "netpol",
        N,
        "g",
        P_NET,
    ),
    row(NET, "IngressClass", "ingressclasses", "", C, "g", P_NET),
    row(
        ("policy", "v1"),
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "pdb",
        N,
        "sgn",
        "io.k8s.api.policy.v1",
    ),
    row(RBAC, "Role", "roles", "", N, "pu", P_RBAC),
    row(RBAC, "RoleBinding", "rolebindings", "", N, "pu", P_RBAC),
    row(RBAC, "ClusterRole", "clusterroles", "", C, "pu", P_RBAC),
    row(
        RBAC,
        "ClusterRoleBinding",
        "clusterrolebindings",
        "",
        C,
        "pu",
        P_RBAC,
    ),
    row(
        ("coordination.k8s.io", "v1"),
        "Lease",
        "leases",
        "",
        N,
        "un",
        "io.k8s.api.coordination.v1",
    ),
    row(
        ("discovery.k8s.io", "v1"),
        "EndpointSlice",
        "endpointslices",
        "",
        N,
        "g",
        "io.k8s.api.discovery.v1",
    ),
    row(
        ("events.k8s.io", "v1"),
        "Event",
        "events",
        "ev",
        N,
        "eu",
        "io.k8s.api.events.v1",
    ),
    row(
        ("scheduling.k8s.io", "v1"),
        "PriorityClass",
        "priorityclasses",
        "pc",
        C,
        "g",
        "io.k8s.api.scheduling.v1",
    ),
    row(
        ("storage.k8s.io", "v1"),
        "StorageClass",
        "storageclasses",
        "sc",
        C,
        "",
        "io.k8s.api.storage.v1",
    ),
    row(
        ("certificates.k8s.io", "v1"),
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "csr",
        C,
        "s",
        "io.k8s.api.certificates.v1",
    ),
    row(
        ADMISSION,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "",
        C,
        "gxn",
        P_ADMISSION,
    ),
    row(
        ADMISSION,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "",
        C,
        "gxn",
        P_ADMISSION,
    ),
    row(
        ("apiextensions.k8s.io", "v1"),
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd,crds",
        C,
        "sgx",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    ),
    row(
        AUTHZ,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "",
        C,
        "r",
        P_AUTHZ,
    ),
    row(
        AUTHZ,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "",
        C,
        "r",
        P_AUTHZ,
    ),
    row(
        AUTHZ,
        "SubjectAccessReview",
        "subjectaccessreviews",
        "",
        C,
        "r",
        P_AUTHZ,
    ),
    row(
        AUTHZ,
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "",
        N,
        "r",
        P_AUTHZ,
    ),
    row(AUTHN, "TokenReview", "tokenreviews", "", C, "r", P_AUTHN),
    row(
        AUTHN,
        "SelfSubjectReview",
        "selfsubjectreviews",
        "",
        C,
        "r",
        P_AUTHN,
    ),
];

/// The body of pod evictions, which is not a resource of its own.
const EVICTION: Row = row(
    ("policy", "v1"),
    "Eviction",
    "evictions",
    "",
    N,
    "r",
    "io.k8s.api.policy.v1",
);

/// Returns the table name of a resource, `pods` or `deployments.apps`.
pub(super) fn table_name(group: &str, plural: &str) -> String {
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

pub(super) fn resources() -> Vec<Resource> {
    TABLE.iter().map(resource).collect()
}

/// Returns the resource of `Eviction` bodies.
pub(super) fn eviction() -> Resource {
    resource(&EVICTION)
}

fn resource(row: &Row) -> Resource {
    let has = |flag: char| row.flags.contains(flag);
    let mut categories = Vec::new();
    if has('a') {
        categories.push("all".to_owned());
    }
    if has('x') {
        categories.push("api-extensions".to_owned());
    }
    let conversion = match () {
        () if has('e') => Conversion::EventsV1,
        () if has('o') => Conversion::AutoscalingV1,
        () => Conversion::None,
    };
    let table = if conversion == Conversion::EventsV1 {
        "events".to_owned()
    } else {
        table_name(row.group, row.plural)
    };
    let selector = if row.kind == "ReplicationController" {
        None
    } else {
        Some("status.selector".to_owned())
    };
    Resource {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        kind: row.kind.to_owned(),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        list_kind: format!("{}List", row.kind),
        short_names: row
            .short
            .split(',')
            .filter(|s| !s.is_empty())
            .map(str::to_owned)
            .collect(),
        categories,
        scope: row.scope,
        style: if has('r') {
            Style::Review
        } else {
            Style::Stored
        },
        name_rule: match () {
            () if has('l') => NameRule::Label,
            () if has('v') => NameRule::Service,
            () if has('p') => NameRule::PathSegment,
            () => NameRule::Subdomain,
        },
        conversion,
        status: has('s'),
        scale: has('c').then(|| ScalePaths {
            spec: "spec.replicas".to_owned(),
            status: "status.replicas".to_owned(),
            selector,
        }),
        generation: has('g'),
        put: Put {
            creates: has('u'),
            needs_version: has('n'),
        },
        source: Source::Builtin {
            definition: format!("{}.{}", row.package, row.kind),
            compiled: OnceLock::new(),
        },
        columns: Columns::Builtin(builtin_columns(row.group, row.plural)),
        selectable: Vec::new(),
        table: table.into(),
        defined_at: None,
        deprecation: (row.kind == "Endpoints").then(|| {
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()
        }),
    }
}
