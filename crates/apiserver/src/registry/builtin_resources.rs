//! The table of built-in resources.

use std::sync::OnceLock;

use crate::resource::{Conversion, NameRule, Put, Resource, ScalePaths, Scope, Source, Style};
use crate::table::{Columns, builtin_columns};

/// A group with its version and the package of its OpenAPI definitions.
#[derive(Clone, Copy)]
struct Group {
    name: &'static str,
    version: &'static str,
    package: &'static str,
}

/// A row of the table.
struct Row {
    group: Group,
    kind: &'static str,
    /// Short names, separated by commas.
    short: &'static str,
    scope: Scope,
    /// Letters: `s` status, `c` scale, `g` generation, `a` category all, `r` review, `l` label name,
    /// `p` path-segment name, `v` service name, `e` stored as core event,
    /// `o` stored as autoscaling/v2, `x` category api-extensions, `u` created by PUT, `n` version needed by PUT.
    flags: &'static str,
}

const fn group(name: &'static str, version: &'static str, package: &'static str) -> Group {
    Group {
        name,
        version,
        package,
    }
}

const fn row(
    group: Group,
    kind: &'static str,
    short: &'static str,
    scope: Scope,
    flags: &'static str,
) -> Row {
    Row {
        group,
        kind,
        short,
        scope,
        flags,
    }
}

use Scope::{Cluster as C, Namespaced as N};

const CORE: Group = group("", "v1", "io.k8s.api.core.v1");
const APPS: Group = group("apps", "v1", "io.k8s.api.apps.v1");
const BATCH: Group = group("batch", "v1", "io.k8s.api.batch.v1");
const AUTOSCALING_V2: Group = group("autoscaling", "v2", "io.k8s.api.autoscaling.v2");
const AUTOSCALING_V1: Group = group("autoscaling", "v1", "io.k8s.api.autoscaling.v1");
const NET: Group = group("networking.k8s.io", "v1", "io.k8s.api.networking.v1");
const POLICY: Group = group("policy", "v1", "io.k8s.api.policy.v1");
const RBAC: Group = group("rbac.authorization.k8s.io", "v1", "io.k8s.api.rbac.v1");
const COORDINATION: Group = group("coordination.k8s.io", "v1", "io.k8s.api.coordination.v1");
const DISCOVERY: Group = group("discovery.k8s.io", "v1", "io.k8s.api.discovery.v1");
const EVENTS: Group = group("events.k8s.io", "v1", "io.k8s.api.events.v1");
const SCHEDULING: Group = group("scheduling.k8s.io", "v1", "io.k8s.api.scheduling.v1");
const STORAGE: Group = group("storage.k8s.io", "v1", "io.k8s.api.storage.v1");
const CERTIFICATES: Group = group("certificates.k8s.io", "v1", "io.k8s.api.certificates.v1");
const ADMISSION: Group = group(
    "admissionregistration.k8s.io",
    "v1",
    "io.k8s.api.admissionregistration.v1",
);
const EXTENSIONS: Group = group(
    "apiextensions.k8s.io",
    "v1",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
);
const AUTHZ: Group = group("authorization.k8s.io", "v1", "io.k8s.api.authorization.v1");
const AUTHN: Group = group(
    "authentication.k8s.io",
    "v1",
    "io.k8s.api.authentication.v1",
);

const TABLE: &[Row] = &[
    row(CORE, "Namespace", "ns", C, "sl"),
    row(CORE, "ConfigMap", "cm", N, ""),
    row(CORE, "Secret", "", N, ""),
    row(CORE, "Service", "svc", N, "salu"),
    row(CORE, "ServiceAccount", "sa", N, ""),
    row(CORE, "Pod", "po", N, "sag"),
    row(CORE, "Node", "no", C, "s"),
    row(CORE, "PodTemplate", "", N, "g"),
    row(CORE, "Event", "ev", N, "u"),
    row(CORE, "Endpoints", "ep", N, "u"),
    row(CORE, "PersistentVolume", "pv", C, "s"),
    row(CORE, "PersistentVolumeClaim", "pvc", N, "s"),
    row(CORE, "ResourceQuota", "quota", N, "s"),
    row(CORE, "LimitRange", "limits", N, "u"),
    row(CORE, "ReplicationController", "rc", N, "scga"),
    row(APPS, "Deployment", "deploy", N, "scga"),
    row(APPS, "ReplicaSet", "rs", N, "scga"),
    row(APPS, "StatefulSet", "sts", N, "scga"),
    row(APPS, "DaemonSet", "ds", N, "sga"),
    row(APPS, "ControllerRevision", "", N, ""),
    row(BATCH, "Job", "", N, "sga"),
    row(BATCH, "CronJob", "cj", N, "sga"),
    row(AUTOSCALING_V2, "HorizontalPodAutoscaler", "hpa", N, "sa"),
    row(AUTOSCALING_V1, "HorizontalPodAutoscaler", "hpa", N, "sao"),
    row(NET, "Ingress", "ing", N, "sg"),
    row(NET, "NetworkPolicy", "netpol", N, "g"),
    row(NET, "IngressClass", "", C, "g"),
    row(POLICY, "PodDisruptionBudget", "pdb", N, "sgn"),
    row(RBAC, "Role", "", N, "pu"),
    row(RBAC, "RoleBinding", "", N, "pu"),
    row(RBAC, "ClusterRole", "", C, "pu"),
    row(RBAC, "ClusterRoleBinding", "", C, "pu"),
    row(COORDINATION, "Lease", "", N, "un"),
    row(DISCOVERY, "EndpointSlice", "", N, "g"),
    row(EVENTS, "Event", "ev", N, "eu"),
    row(SCHEDULING, "PriorityClass", "pc", C, "g"),
    row(STORAGE, "StorageClass", "sc", C, ""),
    row(CERTIFICATES, "CertificateSigningRequest", "csr", C, "s"),
    row(ADMISSION, "MutatingWebhookConfiguration", "", C, "gxn"),
    row(ADMISSION, "ValidatingWebhookConfiguration", "", C, "gxn"),
    row(EXTENSIONS, "CustomResourceDefinition", "crd,crds", C, "sgx"),
    row(AUTHZ, "SelfSubjectAccessReview", "", C, "r"),
    row(AUTHZ, "SelfSubjectRulesReview", "", C, "r"),
    row(AUTHZ, "SubjectAccessReview", "", C, "r"),
    row(AUTHZ, "LocalSubjectAccessReview", "", N, "r"),
    row(AUTHN, "TokenReview", "", C, "r"),
    row(AUTHN, "SelfSubjectReview", "", C, "r"),
];

/// The body of pod evictions, which is not a resource of its own.
const EVICTION: Row = row(POLICY, "Eviction", "", N, "r");

/// Returns the plural of a kind in lower case.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if let Some(stem) = kind.strip_suffix('y') {
        format!("{stem}ies")
    } else if kind.ends_with("ss") {
        format!("{kind}es")
    } else if kind.ends_with('s') {
        kind
    } else {
        format!("{kind}s")
    }
}

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
    let (group, plural) = (row.group, plural(row.kind));
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
        table_name(group.name, &plural)
    };
    let selector = if row.kind == "ReplicationController" {
        None
    } else {
        Some("status.selector".to_owned())
    };
    Resource {
        group: group.name.to_owned(),
        version: group.version.to_owned(),
        kind: row.kind.to_owned(),
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
            definition: format!("{}.{}", group.package, row.kind),
            compiled: OnceLock::new(),
        },
        columns: Columns::Builtin(builtin_columns(group.name, &plural)),
        plural,
        selectable: Vec::new(),
        table: table.into(),
        defined_at: None,
        deprecation: (row.kind == "Endpoints").then(|| {
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()
        }),
    }
}
