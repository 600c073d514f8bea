//! The default roles and bindings of Kubernetes, without those of components that do not run here, such as kubelets and
//! kube-controller-manager.

use serde_json::{Map, Value, json};

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const BOTH: &str = "create delete deletecollection get list patch update watch";

/// A rule with lists separated by blanks: groups, resources and verbs, or paths and verbs. The core group is ''.
enum Rule {
    On(&'static str, &'static str, &'static str),
    Paths(&'static str, &'static str),
}

use Rule::{On, Paths};

const ROLES: &[(&str, &[Rule])] = &[
    ("cluster-admin", &[On("*", "*", "*"), Paths("*", "*")]),
    (
        "system:aggregate-to-admin",
        &[
            On(
                "authorization.k8s.io",
                "localsubjectaccessreviews",
                "create",
            ),
            On("rbac.authorization.k8s.io", "rolebindings roles", BOTH),
        ],
    ),
    (
        "system:aggregate-to-edit",
        &[
            On(
                "''",
                "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
                READ,
            ),
            On("''", "serviceaccounts", "impersonate"),
            On(
                "''",
                "pods pods/attach pods/exec pods/portforward pods/proxy",
                WRITE,
            ),
            On("''", "pods/eviction", "create"),
            On(
                "''",
                "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
                 serviceaccounts services services/proxy",
                WRITE,
            ),
            On("''", "serviceaccounts/token", "create"),
            On("'' events.k8s.io", "events", WRITE),
            On(
                "apps",
                "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale \
                 statefulsets statefulsets/scale",
                WRITE,
            ),
            On("autoscaling", "horizontalpodautoscalers", WRITE),
            On("batch", "cronjobs jobs", WRITE),
            On(
                "extensions",
                "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies \
                 replicasets replicasets/scale replicationcontrollers/scale",
                WRITE,
            ),
            On("policy", "poddisruptionbudgets", WRITE),
            On("networking.k8s.io", "ingresses networkpolicies", WRITE),
            On("coordination.k8s.io", "leases", BOTH),
            On(
                "resource.k8s.io",
                "resourceclaims resourceclaimtemplates",
                WRITE,
            ),
        ],
    ),
    (
        "system:aggregate-to-view",
        &[
            On(
                "''",
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods \
                 replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
                READ,
            ),
            On(
                "''",
                "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
                 resourcequotas resourcequotas/status",
                READ,
            ),
            On("''", "namespaces", READ),
            On("'' events.k8s.io", "events", READ),
            On("discovery.k8s.io", "endpointslices", READ),
            On(
                "apps",
                "controllerrevisions daemonsets daemonsets/status deployments deployments/scale \
                 deployments/status replicasets replicasets/scale replicasets/status statefulsets \
                 statefulsets/scale statefulsets/status",
                READ,
            ),
            On(
                "autoscaling",
                "horizontalpodautoscalers horizontalpodautoscalers/status",
                READ,
            ),
            On("batch", "cronjobs cronjobs/status jobs jobs/status", READ),
            On(
                "extensions",
                "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses \
                 ingresses/status networkpolicies replicasets replicasets/scale replicasets/status \
                 replicationcontrollers/scale",
                READ,
            ),
            On(
                "policy",
                "poddisruptionbudgets poddisruptionbudgets/status",
                READ,
            ),
            On(
                "networking.k8s.io",
                "ingresses ingresses/status networkpolicies",
                READ,
            ),
            On(
                "resource.k8s.io",
                "resourceclaims resourceclaims/status resourceclaimtemplates",
                READ,
            ),
        ],
    ),
    (
        "system:auth-delegator",
        &[
            On("authentication.k8s.io", "tokenreviews", "create"),
            On("authorization.k8s.io", "subjectaccessreviews", "create"),
        ],
    ),
    (
        "system:basic-user",
        &[
            On(
                "authorization.k8s.io",
                "selfsubjectaccessreviews selfsubjectrulesreviews",
                "create",
            ),
            On("authentication.k8s.io", "selfsubjectreviews", "create"),
        ],
    ),
    (
        "system:discovery",
        &[Paths(
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
            "get",
        )],
    ),
    (
        "system:monitoring",
        &[
            Paths(
                "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz",
                "get",
            ),
            On("''", "nodes/metrics", "get"),
        ],
    ),
    (
        "system:public-info-viewer",
        &[Paths("/healthz /livez /readyz /version /version/", "get")],
    ),
    (
        "system:service-account-issuer-discovery",
        &[Paths(
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
            "get",
        )],
    ),
];

/// Aggregated roles.
const AGGREGATED: &[&str] = &["admin", "edit", "view"];

/// The aggregated role that each role is part of.
const PARTS: &[(&str, &str)] = &[
    ("system:aggregate-to-admin", "admin"),
    ("system:aggregate-to-edit", "edit"),
    ("system:aggregate-to-view", "view"),
    ("edit", "admin"),
    ("view", "edit"),
];

/// Roles and the groups they are bound to. The binding has the name of the role.
const BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &["system:masters"]),
    ("system:basic-user", &["system:authenticated"]),
    ("system:discovery", &["system:authenticated"]),
    ("system:monitoring", &["system:monitoring"]),
    (
        "system:public-info-viewer",
        &["system:authenticated", "system:unauthenticated"],
    ),
    (
        "system:service-account-issuer-discovery",
        &["system:serviceaccounts"],
    ),
];

fn list(words: &str) -> Value {
    words
        .split_whitespace()
        .map(|w| if w == "''" { "" } else { w })
        .collect()
}

fn rule(rule: &Rule) -> Value {
    match rule {
        On(groups, resources, verbs) => json!({
            "apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}),
        Paths(paths, verbs) => json!({"nonResourceURLs": list(paths), "verbs": list(verbs)}),
    }
}

fn object(kind: &str, name: &str) -> Value {
    let mut labels = Map::new();
    labels.insert("kubernetes.io/bootstrapping".into(), json!("rbac-defaults"));
    if kind == "ClusterRole" {
        for (_, aggregate) in PARTS.iter().filter(|(part, _)| *part == name) {
            let label = format!("rbac.authorization.k8s.io/aggregate-to-{aggregate}");
            labels.insert(label, json!("true"));
        }
    }
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {
        "name": name, "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}}})
}

/// Returns the objects in the order of their creation.
pub(crate) fn objects() -> Vec<Value> {
    let mut all = Vec::new();
    for (name, rules) in ROLES {
        let mut role = object("ClusterRole", name);
        role["rules"] = rules.iter().map(rule).collect();
        all.push(role);
    }
    for name in AGGREGATED {
        let mut role = object("ClusterRole", name);
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
        let mut labels = Map::new();
        labels.insert(label, json!("true"));
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
        all.push(role);
    }
    for (name, groups) in BINDINGS {
        let mut binding = object("ClusterRoleBinding", name);
        binding["roleRef"] =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let group =
            |g: &&str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": g});
        binding["subjects"] = groups.iter().map(group).collect();
        all.push(binding);
    }
    all
}
