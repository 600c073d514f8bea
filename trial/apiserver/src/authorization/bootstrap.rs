//! The ClusterRoles and ClusterRoleBindings that a new cluster has, as in Kubernetes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The rules of each default ClusterRole. In this YAML file, a list of values is one string with spaces between the
/// values.
const ROLES: &str = include_str!("bootstrap_roles.yaml");

/// The default ClusterRoles whose rules are aggregated from other ClusterRoles.
const AGGREGATED: [&str; 3] = ["admin", "edit", "view"];

/// Pairs of ClusterRoles. The second ClusterRole is aggregated, and includes the rules of the first ClusterRole.
const PARTS: &[(&str, &str)] = &[
    ("system:aggregate-to-admin", "admin"),
    ("system:aggregate-to-edit", "edit"),
    ("system:aggregate-to-view", "view"),
    ("edit", "admin"),
    ("view", "edit"),
];

/// Default ClusterRoles and the groups that they are bound to. The ClusterRoleBinding has the name of the ClusterRole.
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

/// Returns a rule for resources or for non-resource paths.
fn rule(rule: &BTreeMap<String, String>) -> Value {
    let list = |field: &str| -> Value {
        let words = rule.get(field).map_or("", String::as_str);
        let words = words.split_whitespace();
        words.map(|w| if w == "core" { "" } else { w }).collect()
    };
    if rule.contains_key("paths") {
        return json!({"nonResourceURLs": list("paths"), "verbs": list("verbs")});
    }
    json!({"apiGroups": list("groups"), "resources": list("resources"), "verbs": list("verbs")})
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

/// Returns the default roles and bindings in the order of their creation.
pub(crate) fn objects() -> Vec<Value> {
    let mut all = Vec::new();
    let roles: BTreeMap<String, Vec<BTreeMap<String, String>>> =
        serde_saphyr::from_str(ROLES).unwrap_or_default();
    for (name, rules) in &roles {
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
