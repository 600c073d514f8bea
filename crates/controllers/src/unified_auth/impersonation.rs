//! The subjects that the impersonator of a cluster may impersonate, and the Works that grant this right.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::well_known::{
    IMPERSONATOR_ACCOUNT, MANAGED, MANAGED_VALUE, SYSTEM, SYSTEM_VALUE, TEMPLATE_UID, WORK_NAME,
    WORK_NAMESPACE,
};
use berth_api::{Cluster, manifest, names};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Subject};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::owned_work::OwnedWork;
use crate::propagation::binding::desired_work::DesiredWork;

/// In members, the name of the ClusterRole, of the ClusterRoleBinding and of the service account, unless the Cluster has
/// the annotation [`IMPERSONATOR_ACCOUNT`].
const IMPERSONATOR: &str = "karmada-impersonator";
const RBAC: &str = "rbac.authorization.k8s.io";
const ALL: &str = "*";

/// The clusters that a role gives access to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reach {
    All,
    Named(BTreeSet<String>),
}

/// The subjects with access to clusters through the control plane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    grants: Vec<(Reach, Vec<Subject>)>,
}

impl Grants {
    /// Collects the subjects of all ClusterRoleBindings whose ClusterRole gives access to members.
    pub(crate) fn of<'a>(
        roles: impl Iterator<Item = &'a ClusterRole>,
        bindings: impl Iterator<Item = &'a ClusterRoleBinding>,
    ) -> Self {
        let reaches: BTreeMap<String, Reach> = roles
            .filter_map(|role| Some((role.name_any(), reach(role.rules.as_deref()?)?)))
            .collect();
        let grants = bindings
            .filter(|binding| binding.role_ref.kind == "ClusterRole")
            .filter_map(|binding| {
                let reach = reaches.get(&binding.role_ref.name)?.clone();
                Some((reach, binding.subjects.clone().unwrap_or_default()))
            });
        Self {
            grants: grants.collect(),
        }
    }

    /// Returns the RBAC rules that let the impersonator of a cluster impersonate the subjects with access to the
    /// cluster. As in Karmada, the rules ignore the namespaces of service accounts, since a ClusterRole cannot name the
    /// namespace of a resource.
    fn rules(&self, cluster: &str) -> Vec<Value> {
        let mut names: BTreeMap<Impersonated, BTreeSet<&str>> = BTreeMap::new();
        for (reach, subjects) in &self.grants {
            let reached = match reach {
                Reach::All => true,
                Reach::Named(clusters) => clusters.contains(cluster),
            };
            for subject in subjects.iter().filter(|_| reached) {
                if let Some(kind) = Impersonated::of(&subject.kind) {
                    names.entry(kind).or_default().insert(&subject.name);
                }
            }
        }
        names
            .iter()
            .map(|(kind, names)| {
                json!({
                    "verbs": ["impersonate"], "apiGroups": [""], "resources": [kind.resource()],
                    "resourceNames": names,
                })
            })
            .collect()
    }
}

/// A kind of subject. Karmada writes the rules in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Impersonated {
    User,
    ServiceAccount,
    Group,
}

impl Impersonated {
    fn of(kind: &str) -> Option<Self> {
        match kind {
            "User" => Some(Self::User),
            "ServiceAccount" => Some(Self::ServiceAccount),
            "Group" => Some(Self::Group),
            _ => None,
        }
    }

    fn resource(self) -> &'static str {
        match self {
            Self::User => "users",
            Self::ServiceAccount => "serviceaccounts",
            Self::Group => "groups",
        }
    }
}

/// Returns the clusters that rules give access to, or `None` if the rules give access to no cluster.
fn reach(rules: &[PolicyRule]) -> Option<Reach> {
    let mut named: BTreeSet<String> = BTreeSet::new();
    for rule in rules {
        if covers(rule, "search.karmada.io", "proxying/proxy") {
            return Some(Reach::All);
        }
        if covers(rule, "cluster.karmada.io", "clusters/proxy") {
            let clusters = rule.resource_names.as_deref().unwrap_or_default();
            if clusters.is_empty() {
                return Some(Reach::All);
            }
            named.extend(clusters.iter().cloned());
        }
    }
    (!named.is_empty()).then_some(Reach::Named(named))
}

/// Reports whether a rule covers a resource. The verbs of the rule are ignored, because the control plane checks the
/// verb of each request.
fn covers(rule: &PolicyRule, group: &str, resource: &str) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        let list = list.as_deref().unwrap_or_default();
        list.iter().any(|item| item == ALL || item == wanted)
    };
    has(&rule.api_groups, group) && has(&rule.resources, resource)
}

/// Returns the Works that give the impersonator its rights in a member. Returns `None` for a Cluster that is being
/// deleted or has no impersonator.
pub(crate) fn works(cluster: &Cluster, grants: &Grants) -> Option<Vec<OwnedWork>> {
    if cluster.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let secret = cluster.spec.impersonator_secret_ref.as_ref()?;
    let name = cluster.annotations().get(IMPERSONATOR_ACCOUNT);
    let name = name.map_or(IMPERSONATOR, String::as_str);
    let mut role = object("ClusterRole", name);
    let rules = grants.rules(&cluster.name_any());
    if !rules.is_empty() {
        role["rules"] = json!(rules);
    }
    let mut binding = object("ClusterRoleBinding", name);
    binding["roleRef"] = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": name});
    let account = json!({
        "kind": "ServiceAccount", "name": name, "namespace": secret.namespace,
    });
    binding["subjects"] = json!([account]);
    let works = [("ClusterRole", role), ("ClusterRoleBinding", binding)];
    let works = works.map(|(kind, manifest)| work(cluster, kind, name, manifest));
    Some(works.into())
}

fn object(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind,
        "metadata": { "name": name, "labels": { (SYSTEM): SYSTEM_VALUE } },
    })
}

fn work(cluster: &Cluster, kind: &str, name: &str, mut manifest: Value) -> OwnedWork {
    let cluster_name = cluster.name_any();
    let name = names::work_name(kind, name, "");
    let metadata = &mut manifest["metadata"];
    metadata["labels"][MANAGED] = json!(MANAGED_VALUE);
    metadata["annotations"] = json!({
        (TEMPLATE_UID): "",
        (WORK_NAME): name,
        (WORK_NAMESPACE): names::execution_namespace(&cluster_name),
    });
    manifest::prune(&mut manifest);
    let work = DesiredWork {
        cluster: cluster_name,
        name,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        manifest,
        suspended: false,
        preserved: false,
    };
    OwnedWork::new(work, cluster)
}

#[cfg(test)]
mod tests {
    use berth_api::Work;
    use serde::de::DeserializeOwned;

    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn role(name: &str, group: &str, resource: &str, clusters: &[&str]) -> ClusterRole {
        read(json!({
            "metadata": { "name": name },
            "rules": [{ "apiGroups": [group], "resources": [resource], "verbs": ["*"],
                "resourceNames": clusters }],
        }))
    }

    fn binding(kind: &str, role: &str, subjects: Value) -> ClusterRoleBinding {
        read(json!({
            "metadata": { "name": role },
            "roleRef": { "apiGroup": RBAC, "kind": kind, "name": role },
            "subjects": subjects,
        }))
    }

    fn user(name: &str) -> Value {
        json!([{ "kind": "User", "name": name }])
    }

    #[test]
    fn only_subjects_with_access_to_a_cluster_can_be_impersonated_there() {
        let roles = [
            role("all", "*", "*", &[]),
            role(
                "some",
                "cluster.karmada.io",
                "clusters/proxy",
                &["m1", "m2"],
            ),
            role("search", "search.karmada.io", "proxying/proxy", &[]),
            role("clusters", "cluster.karmada.io", "clusters", &[]),
            role("other", "apps", "clusters/proxy", &[]),
        ];
        let subjects = json!([
            { "kind": "ServiceAccount", "name": "tom", "namespace": "a" },
            { "kind": "Group", "name": "ops" },
            { "kind": "User", "name": "zoe" },
            { "kind": "User", "name": "ann" },
        ]);
        let bindings = [
            binding(
                "ClusterRole",
                "all",
                json!([{ "kind": "Group", "name": "system:masters" }]),
            ),
            binding("ClusterRole", "some", subjects),
            binding("ClusterRole", "search", user("sam")),
            binding("ClusterRole", "clusters", user("carl")),
            binding("ClusterRole", "other", user("otto")),
            binding("Role", "some", user("rob")),
            binding("ClusterRole", "missing", user("mia")),
        ];
        let grants = Grants::of(roles.iter(), bindings.iter());
        let rule = |resource: &str, names: &[&str]| {
            json!({ "verbs": ["impersonate"], "apiGroups": [""], "resources": [resource],
                "resourceNames": names })
        };
        let everywhere = rule("groups", &["system:masters"]);
        assert_eq!(grants.rules("m3"), [rule("users", &["sam"]), everywhere]);
        assert_eq!(
            grants.rules("m1"),
            [
                rule("users", &["ann", "sam", "zoe"]),
                rule("serviceaccounts", &["tom"]),
                rule("groups", &["ops", "system:masters"]),
            ]
        );
    }

    fn cluster(spec: Value) -> Cluster {
        read(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": { "name": "member1", "uid": "u-1" }, "spec": spec,
        }))
    }

    #[test]
    fn the_works_equal_those_of_karmada() {
        let spec = json!({ "syncMode": "Push",
            "impersonatorSecretRef": { "namespace": "karmada-cluster", "name": "x" } });
        let roles = [role("cluster-admin", "*", "*", &[])];
        let masters = json!([{ "kind": "Group", "name": "system:masters" }]);
        let bindings = [binding("ClusterRole", "cluster-admin", masters)];
        let grants = Grants::of(roles.iter(), bindings.iter());
        let works = works(&cluster(spec), &grants).unwrap();
        let works: Vec<Work> = works.iter().map(|work| read(work.new_work("id"))).collect();
        // Karmada's controller generates these names.
        for (work, name) in works.iter().zip([
            "karmada-impersonator-7cbb6bd5c9",
            "karmada-impersonator-84f8c8f8c6",
        ]) {
            assert_eq!(work.name_any(), name);
            assert_eq!(work.namespace().as_deref(), Some("karmada-es-member1"));
            let owner = &work.owner_references()[0];
            assert_eq!(
                (owner.kind.as_str(), owner.uid.as_str()),
                ("Cluster", "u-1")
            );
            let metadata = &work.spec.workload.manifests[0]["metadata"];
            assert_eq!(
                metadata["labels"],
                json!({ "karmada.io/managed": "true", "karmada.io/system": "true",
                    "work.karmada.io/permanent-id": "id" })
            );
            assert_eq!(metadata["annotations"][WORK_NAME], name);
        }
        let account = json!({ "kind": "ServiceAccount", "name": IMPERSONATOR,
            "namespace": "karmada-cluster" });
        let binding = &works[1].spec.workload.manifests[0];
        assert_eq!(binding["subjects"], json!([account]));
    }

    #[test]
    fn an_annotation_of_the_cluster_names_another_account() {
        let mut cluster = cluster(json!({ "syncMode": "Push",
            "impersonatorSecretRef": { "namespace": "karmada-cluster", "name": "x" } }));
        let annotation = (IMPERSONATOR_ACCOUNT.to_owned(), "own".to_owned());
        cluster.metadata.annotations = Some([annotation].into());
        let works = works(&cluster, &Grants::default()).unwrap();
        let manifests: Vec<&Value> = works.iter().map(|it| &it.work.manifest).collect();
        for manifest in &manifests {
            assert_eq!(manifest["metadata"]["name"], "own");
        }
        assert_eq!(manifests[1]["roleRef"]["name"], "own");
        assert_eq!(manifests[1]["subjects"][0]["name"], "own");
        assert_eq!(
            works[1].work.name,
            names::work_name("ClusterRoleBinding", "own", "")
        );
    }

    #[test]
    fn a_cluster_without_impersonator_or_in_deletion_has_no_works() {
        let grants = Grants::default();
        assert_eq!(
            works(&cluster(json!({ "syncMode": "Push" })), &grants),
            None
        );
        let spec = json!({ "syncMode": "Push",
            "impersonatorSecretRef": { "namespace": "n", "name": "x" } });
        let mut cluster = cluster(spec);
        let role = works(&cluster, &grants).unwrap().remove(0);
        assert_eq!(role.work.manifest["rules"], Value::Null);
        cluster.metadata.deletion_timestamp = Some(read(json!("2026-01-01T00:00:00Z")));
        assert_eq!(works(&cluster, &grants), None);
    }
}
