//! The index of roles and bindings by subject, updated with each change of the store. A decision reads only the bindings of
//! one user and its groups.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use parking_lot::RwLock;
use serde::Deserialize;

use super::attributes::{Attributes, Target};
use super::rule;
use crate::identity::Identity;
use crate::store::{Change, Key, Store, Stored};
use crate::tables::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};

/// A RoleBinding, or a ClusterRoleBinding without a namespace.
#[derive(Debug)]
pub(crate) struct Binding {
    namespace: Box<str>,
    name: Box<str>,
    /// A ClusterRole has no namespace.
    role: Key,
    users: Vec<Box<str>>,
    groups: Vec<Box<str>>,
}

impl Binding {
    fn missing(&self) -> String {
        let kind = if self.role.namespace.is_empty() {
            "clusterrole"
        } else {
            "role"
        };
        format!(
            "{kind}.rbac.authorization.k8s.io \"{}\" not found",
            self.role.name
        )
    }

    /// Returns the reason for an allowed request in access reviews.
    pub(crate) fn explain(&self, identity: &Identity) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.to_string())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let role = if self.role.namespace.is_empty() {
            "ClusterRole"
        } else {
            "Role"
        };
        let subject = if self.users.iter().any(|u| **u == *identity.user) {
            match crate::identity::as_service_account(&identity.user) {
                Some((namespace, name)) => format!("ServiceAccount \"{name}/{namespace}\""),
                None => format!("User \"{}\"", identity.user),
            }
        } else {
            let group = identity
                .groups
                .iter()
                .find(|g| self.groups.iter().any(|have| **have == ***g));
            format!("Group \"{}\"", group.map_or("", String::as_str))
        };
        format!(
            "RBAC: allowed by {kind} \"{name}\" of {role} \"{}\" to {subject}",
            self.role.name
        )
    }
}

/// The decision about a request.
#[derive(Debug)]
pub(crate) enum Decision {
    /// Allowed by a binding, or without one for administrators.
    Allowed(Option<Arc<Binding>>),
    /// Denied. `missing` lists bound roles that do not exist.
    Denied { missing: Vec<String> },
}

/// The bindings of one user or group.
#[derive(Debug, Default)]
struct SubjectBindings {
    cluster_wide: Vec<Arc<Binding>>,
    by_namespace: HashMap<Box<str>, Vec<Arc<Binding>>>,
}

impl SubjectBindings {
    fn add(&mut self, binding: &Arc<Binding>) {
        if binding.namespace.is_empty() {
            self.cluster_wide.push(binding.clone());
        } else {
            self.by_namespace
                .entry(binding.namespace.clone())
                .or_default()
                .push(binding.clone());
        }
    }

    /// Removes a binding. Returns `true` if none is left.
    fn remove(&mut self, binding: &Arc<Binding>) -> bool {
        self.cluster_wide.retain(|b| !Arc::ptr_eq(b, binding));
        if let Some(list) = self.by_namespace.get_mut(&binding.namespace) {
            list.retain(|b| !Arc::ptr_eq(b, binding));
            if list.is_empty() {
                self.by_namespace.remove(&binding.namespace);
            }
        }
        self.cluster_wide.is_empty() && self.by_namespace.is_empty()
    }

    fn at<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Arc<Binding>> {
        self.cluster_wide
            .iter()
            .chain(self.by_namespace.get(namespace).into_iter().flatten())
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// ClusterRoles have no namespace.
    roles: HashMap<Key, Arc<[PolicyRule]>>,
    bindings: HashMap<Key, Arc<Binding>>,
    users: HashMap<Box<str>, SubjectBindings>,
    groups: HashMap<Box<str>, SubjectBindings>,
}

#[derive(Deserialize)]
struct StoredRole {
    rules: Option<Vec<PolicyRule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredBinding {
    role_ref: RoleRef,
    subjects: Option<Vec<Subject>>,
}

/// The index of roles and bindings.
#[derive(Debug, Default)]
pub(crate) struct Index {
    inner: RwLock<Inner>,
}

impl Index {
    /// Loads the roles and bindings of a store.
    pub(crate) fn load(&self, store: &Store) {
        let mut inner = self.inner.write();
        for table in [ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS] {
            for object in store.list(table, None).items {
                inner.replace(table, &object.key, Some(&object));
            }
        }
    }

    /// Observes a change. Called with the store locked.
    pub(crate) fn observe(&self, table: &str, change: &Change) {
        if !table.ends_with(".rbac.authorization.k8s.io") {
            return;
        }
        let current = change.current();
        let after = match change {
            Change::Deleted { .. } => None,
            _ => Some(&**current),
        };
        self.inner.write().replace(table, &current.key, after);
    }

    /// Decides about a request.
    pub(crate) fn decide(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision {
        if identity.is_master() {
            return Decision::Allowed(None);
        }
        let namespace = match &attributes.target {
            Target::Resource(target) => target.namespace,
            Target::Path(_) => "",
        };
        let inner = self.inner.read();
        let mut missing = Vec::new();
        for binding in inner.of(identity, namespace) {
            match inner.roles.get(&binding.role) {
                Some(rules) if rules.iter().any(|r| rule::allows(r, attributes)) => {
                    return Decision::Allowed(Some(binding.clone()));
                }
                Some(_) => {}
                None => missing.push(binding.missing()),
            }
        }
        missing.sort();
        missing.dedup();
        Decision::Denied { missing }
    }

    /// Returns the rules of an identity in a namespace, and the missing roles.
    pub(crate) fn rules(
        &self,
        identity: &Identity,
        namespace: &str,
    ) -> (Vec<Arc<[PolicyRule]>>, Vec<String>) {
        let inner = self.inner.read();
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for binding in inner.of(identity, namespace) {
            match inner.roles.get(&binding.role) {
                Some(found) => rules.push(found.clone()),
                None => missing.push(binding.missing()),
            }
        }
        missing.sort();
        missing.dedup();
        (rules, missing)
    }

    /// Returns the rules of a role.
    pub(crate) fn role(&self, key: &Key) -> Option<Arc<[PolicyRule]>> {
        self.inner.read().roles.get(key).cloned()
    }
}

impl Inner {
    fn of<'a>(
        &'a self,
        identity: &'a Identity,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Binding>> {
        let groups = identity
            .groups
            .iter()
            .filter_map(|g| self.groups.get(g.as_str()));
        self.users
            .get(identity.user.as_str())
            .into_iter()
            .chain(groups)
            .flat_map(move |bound| bound.at(namespace))
    }

    fn replace(&mut self, table: &str, key: &Key, after: Option<&Stored>) {
        match table {
            ROLES | CLUSTER_ROLES => {
                let rules = after
                    .and_then(|o| serde_json::from_value::<StoredRole>(o.value()).ok())
                    .map(|role| role.rules.unwrap_or_default());
                match rules {
                    Some(rules) => drop(self.roles.insert(key.clone(), rules.into())),
                    None => drop(self.roles.remove(key)),
                }
            }
            ROLE_BINDINGS | CLUSTER_ROLE_BINDINGS => {
                if let Some(old) = self.bindings.remove(key) {
                    unbind(&mut self.users, &old.users, &old);
                    unbind(&mut self.groups, &old.groups, &old);
                }
                if let Some(binding) = after.and_then(binding) {
                    let binding = Arc::new(binding);
                    for (map, names) in [
                        (&mut self.users, &binding.users),
                        (&mut self.groups, &binding.groups),
                    ] {
                        for name in names {
                            map.entry(name.clone()).or_default().add(&binding);
                        }
                    }
                    self.bindings.insert(key.clone(), binding);
                }
            }
            _ => {}
        }
    }
}

fn unbind(
    map: &mut HashMap<Box<str>, SubjectBindings>,
    names: &[Box<str>],
    binding: &Arc<Binding>,
) {
    for name in names {
        if map.get_mut(name).is_some_and(|b| b.remove(binding)) {
            map.remove(name);
        }
    }
}

fn binding(object: &Stored) -> Option<Binding> {
    let stored: StoredBinding = serde_json::from_value(object.value()).ok()?;
    let namespace = &*object.key.namespace;
    let role = match stored.role_ref.kind.as_str() {
        "Role" => Key::new(namespace, &stored.role_ref.name),
        _ => Key::new("", &stored.role_ref.name),
    };
    let (mut users, mut groups) = (Vec::new(), Vec::new());
    for subject in stored.subjects.unwrap_or_default() {
        match subject.kind.as_str() {
            "User" => users.push(subject.name.into_boxed_str()),
            "Group" => groups.push(subject.name.into_boxed_str()),
            "ServiceAccount" => {
                let of = subject.namespace.unwrap_or_else(|| namespace.to_owned());
                users.push(format!("system:serviceaccount:{of}:{}", subject.name).into_boxed_str());
            }
            _ => {}
        }
    }
    for names in [&mut users, &mut groups] {
        names.sort_unstable();
        names.dedup();
    }
    Some(Binding {
        namespace: namespace.into(),
        name: (&*object.key.name).into(),
        role,
        users,
        groups,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::storage::Volatile;
    use crate::store::TableName;

    fn store_and_index() -> (Store, Arc<Index>) {
        let index = Arc::new(Index::default());
        let observer = index.clone();
        let store = Store::open(
            Box::new(Volatile),
            Box::new(move |table, change| observer.observe(table, change)),
        )
        .unwrap();
        (store, index)
    }

    fn put(store: &Store, table: &str, namespace: &str, name: &str, mut value: Value) {
        value["metadata"] = json!({ "name": name });
        let table: TableName = table.into();
        store
            .create(&table, Key::new(namespace, name), &mut value)
            .unwrap();
    }

    fn alice() -> Identity {
        Identity {
            user: "alice".to_owned(),
            groups: vec!["devs".to_owned()],
            ..Identity::default()
        }
    }

    #[test]
    fn decisions_change_with_stored_roles_and_bindings() {
        let (store, index) = store_and_index();
        let may = |namespace: &str| {
            let attributes = Attributes::on("get", "", "pods", namespace, "p");
            matches!(
                index.decide(&alice(), &attributes),
                Decision::Allowed(Some(_))
            )
        };
        let rules =
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        let to = |kind: &str, name: &str| {
            json!({"roleRef": {"apiGroup": "x", "kind": kind, "name": "r"},
                "subjects": [{"kind": name, "name": if name == "User" { "alice" } else { "devs" }}]})
        };
        put(&store, ROLE_BINDINGS, "n", "b", to("Role", "User"));
        let attributes = Attributes::on("get", "", "pods", "n", "p");
        assert!(matches!(
            index.decide(&alice(), &attributes),
            Decision::Denied { missing } if missing == ["role.rbac.authorization.k8s.io \"r\" not found"]
        ));
        put(&store, ROLES, "n", "r", rules.clone());
        assert!(may("n") && !may("m"));
        put(&store, CLUSTER_ROLES, "", "r", rules);
        put(
            &store,
            CLUSTER_ROLE_BINDINGS,
            "",
            "b",
            to("ClusterRole", "Group"),
        );
        assert!(may("n") && may("m"));
        let table: TableName = CLUSTER_ROLE_BINDINGS.into();
        let key = Key::new("", "b");
        let stored = store.get(&table, &key).unwrap();
        store
            .remove(&table, &key, stored.version, &mut stored.value())
            .unwrap();
        assert!(may("n") && !may("m"));
        let fresh = Index::default();
        fresh.load(&store);
        assert!(matches!(
            fresh.decide(&alice(), &attributes),
            Decision::Allowed(_)
        ));
    }
}
