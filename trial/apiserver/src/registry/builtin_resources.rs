//! The table of built-in resources.

use std::sync::OnceLock;

use crate::resource::{Conversion, NameRule, Put, Resource, ScalePaths, Scope, Source, Style};
use crate::table::{Columns, builtin_columns};

/// A group, its version, and the package of its OpenAPI definitions.
type Group = (&'static str, &'static str, &'static str);

/// A row of the table: group, kind, short names separated by commas, scope, and flags.
///
/// Flags: `s` has a status, `c` has a scale subresource, `g` has a generation, `a` is in the category `all`, `r` is a
/// review, `l` has labels as names, `p` has path segments as names, `v` has Service names, `e` is stored as a core
/// event, `o` is stored as autoscaling/v2, `x` is in the category `api-extensions`, `u` can be created with PUT, `n`
/// needs a resourceVersion in PUT.
type Row = (Group, &'static str, &'static str, Scope, &'static str);

use Scope::{Cluster as C, Namespaced as N};

const CORE: Group = ("", "v1", "io.k8s.api.core.v1");
const APPS: Group = ("apps", "v1", "io.k8s.api.apps.v1");
const BATCH: Group = ("batch", "v1", "io.k8s.api.batch.v1");
const AUTOSCALING_V2: Group = ("autoscaling", "v2", "io.k8s.api.autoscaling.v2");
const AUTOSCALING_V1: Group = ("autoscaling", "v1", "io.k8s.api.autoscaling.v1");
const NET: Group = ("networking.k8s.io", "v1", "io.k8s.api.networking.v1");
const POLICY: Group = ("policy", "v1", "io.k8s.api.policy.v1");
const RBAC: Group = ("rbac.authorization.k8s.io", "v1", "io.k8s.api.rbac.v1");
const COORDINATION: Group = ("coordination.k8s.io", "v1", "io.k8s.api.coordination.v1");
const DISCOVERY: Group = ("discovery.k8s.io", "v1", "io.k8s.api.discovery.v1");
const EVENTS: Group = ("events.k8s.io", "v1", "io.k8s.api.events.v1");
const SCHEDULING: Group = ("scheduling.k8s.io", "v1", "io.k8s.api.scheduling.v1");
const STORAGE: Group = ("storage.k8s.io", "v1", "io.k8s.api.storage.v1");
const CERTIFICATES: Group = ("certificates.k8s.io", "v1", "io.k8s.api.certificates.v1");
const ADMISSION: Group = (
    "admissionregistration.k8s.io",
    "v1",
    "io.k8s.api.admissionregistration.v1",
);
const EXTENSIONS: Group = (
    "apiextensions.k8s.io",
    "v1",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
);
const AUTHZ: Group = ("authorization.k8s.io", "v1", "io.k8s.api.authorization.v1");
const AUTHN: Group = (
    "authentication.k8s.io",
    "v1",
    "io.k8s.api.authentication.v1",
);

const TABLE: &[Row] = &[
    (CORE, "Namespace", "ns", C, "sl"),
    (CORE, "ConfigMap", "cm", N, ""),
    (CORE, "Secret", "", N, ""),
    (CORE, "Service", "svc", N, "salu"),
    (CORE, "ServiceAccount", "sa", N, ""),
    (CORE, "Pod", "po", N, "sag"),
    (CORE, "Node", "no", C, "s"),
    (CORE, "PodTemplate", "", N, "g"),
    (CORE, "Event", "ev", N, "u"),
    (CORE, "Endpoints", "ep", N, "u"),
    (CORE, "PersistentVolume", "pv", C, "s"),
    (CORE, "PersistentVolumeClaim", "pvc", N, "s"),
    (CORE, "ResourceQuota", "quota", N, "s"),
    (CORE, "LimitRange", "limits", N, "u"),
    (CORE, "ReplicationController", "rc", N, "scga"),
    (APPS, "Deployment", "deploy", N, "scga"),
    (APPS, "ReplicaSet", "rs", N, "scga"),
    (APPS, "StatefulSet", "sts", N, "scga"),
    (APPS, "DaemonSet", "ds", N, "sga"),
    (APPS, "ControllerRevision", "", N, ""),
    (BATCH, "Job", "", N, "sga"),
    (BATCH, "CronJob", "cj", N, "sga"),
    (AUTOSCALING_V2, "HorizontalPodAutoscaler", "hpa", N, "sa"),
    (AUTOSCALING_V1, "HorizontalPodAutoscaler", "hpa", N, "sao"),
    (NET, "Ingress", "ing", N, "sg"),
    (NET, "NetworkPolicy", "netpol", N, "g"),
    (NET, "IngressClass", "", C, "g"),
    (POLICY, "PodDisruptionBudget", "pdb", N, "sgn"),
    (RBAC, "Role", "", N, "pu"),
    (RBAC, "RoleBinding", "", N, "pu"),
    (RBAC, "ClusterRole", "", C, "pu"),
    (RBAC, "ClusterRoleBinding", "", C, "pu"),
    (COORDINATION, "Lease", "", N, "un"),
    (DISCOVERY, "EndpointSlice", "", N, "g"),
    (EVENTS, "Event", "ev", N, "eu"),
    (SCHEDULING, "PriorityClass", "pc", C, "g"),
    (STORAGE, "StorageClass", "sc", C, ""),
    (CERTIFICATES, "CertificateSigningRequest", "csr", C, "s"),
    (ADMISSION, "MutatingWebhookConfiguration", "", C, "gxn"),
    (ADMISSION, "ValidatingWebhookConfiguration", "", C, "gxn"),
    (EXTENSIONS, "CustomResourceDefinition", "crd,crds", C, "sgx"),
    (AUTHZ, "SelfSubjectAccessReview", "", C, "r"),
    (AUTHZ, "SelfSubjectRulesReview", "", C, "r"),
    (AUTHZ, "SubjectAccessReview", "", C, "r"),
    (AUTHZ, "LocalSubjectAccessReview", "", N, "r"),
    (AUTHN, "TokenReview", "", C, "r"),
    (AUTHN, "SelfSubjectReview", "", C, "r"),
];

/// The body of pod evictions, which is not a resource of its own.
const EVICTION: Row = (POLICY, "Eviction", "", N, "r");

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

/// Returns the table name of a resource, for example `pods` or `deployments.apps`.
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

/// Returns the resource for the bodies of pod evictions.
pub(super) fn eviction() -> Resource {
    resource(&EVICTION)
}

fn resource(row: &Row) -> Resource {
    let ((group, version, package), kind, short, scope, flags) = *row;
    let plural = plural(kind);
    let has = |flag: char| flags.contains(flag);
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
        table_name(group, &plural)
    };
    let selector = if kind == "ReplicationController" {
        None
    } else {
        Some("status.selector".to_owned())
    };
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        singular: kind.to_lowercase(),
        list_kind: format!("{kind}List"),
        short_names: short
            .split(',')
            .filter(|s| !s.is_empty())
            .map(str::to_owned)
            .collect(),
        categories,
        scope,
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
            definition: format!("{package}.{kind}"),
            compiled: OnceLock::new(),
        },
        columns: Columns::Builtin(builtin_columns(group, &plural)),
        plural,
        selectable: Vec::new(),
        table: table.into(),
        defined_at: None,
        deprecation: (kind == "Endpoints").then(|| {
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()
        }),
    }
}
