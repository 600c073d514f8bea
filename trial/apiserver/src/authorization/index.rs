//! An index of the parsed roles and bindings, updated with each change of the store.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use parking_lot::RwLock;
use serde::Deserialize;

use super::attributes::{Attributes, Target};
use super::rule;
use crate::identity::{Identity, as_service_account};
use crate::store::{Change, Key, Store, Stored};
use crate::table_names::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};

/// A RoleBinding or ClusterRoleBinding. The key of a ClusterRoleBinding has an empty namespace.
#[derive(Debug)]
struct Binding {
    key: Key,
    /// The key of the bound role. The key of a ClusterRole has an empty namespace.
    role: Key,
    subjects: Vec<Subject>,
}

impl Binding {
    fn binds(&self, identity: &Identity) -> bool {
        self.subjects.iter().any(|subject| {
            let name = &subject.name;
            match subject.kind.as_str() {
                "User" => identity.user == *name,
                "Group" => identity.groups.contains(name),
                "ServiceAccount" => {
                    let namespace = subject.namespace.as_deref();
                    let account = (namespace.unwrap_or(&self.key.namespace), name.as_str());
                    as_service_account(&identity.user) == Some(account)
                }
                _ => false,
            }
        })
    }

    /// Returns the reason for which this binding allows a request. Access reviews return this text.
    fn explain(&self) -> String {
        let scope = |key: &Key| {
            if key.namespace.is_empty() {
                "Cluster"
            } else {
                ""
            }
        };
        format!(
            "RBAC: allowed by {}RoleBinding \"{}\" of {}Role \"{}\"",
            scope(&self.key),
            self.key.name,
            scope(&self.role),
            self.role.name
        )
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// The rules of each role. The key of a ClusterRole has an empty namespace.
    roles: HashMap<Key, Arc<[PolicyRule]>>,
    bindings: BTreeMap<Key, Binding>,
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

/// The index of roles and bindings in parsed form.
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

    /// Updates the index after a change. The caller has locked the store.
    pub(crate) fn observe(&self, table: &str, change: &Change) {
        if table.ends_with(".rbac.authorization.k8s.io") {
            let mut inner = self.inner.write();
            inner.replace(table, &change.current().key, change.after().map(|o| &**o));
        }
    }

    /// Reports whether an identity may send a request.
    pub(crate) fn allows(&self, identity: &Identity, attributes: &Attributes<'_>) -> bool {
        identity.is_master() || self.explain(identity, attributes).is_some()
    }

    /// Returns the reason for which a request is allowed, or `None` if it is not. The reason is empty for
    /// administrators.
    pub(crate) fn explain(
        &self,
        identity: &Identity,
        attributes: &Attributes<'_>,
    ) -> Option<String> {
        if identity.is_master() {
            return Some(String::new());
        }
        let namespace = match &attributes.target {
            Target::Resource(target) => target.namespace,
            Target::Path(_) => "",
        };
        let inner = self.inner.read();
        let mut granted = inner.of(identity, namespace);
        let found = granted.find(|(_, rules)| rules.iter().any(|r| rule::allows(r, attributes)));
        found.map(|(binding, _)| binding.explain())
    }

    /// Returns the rules of the roles that are bound to an identity in a namespace.
    pub(crate) fn rules(&self, identity: &Identity, namespace: &str) -> Vec<Arc<[PolicyRule]>> {
        let inner = self.inner.read();
        let granted = inner.of(identity, namespace);
        granted.map(|(_, rules)| rules.clone()).collect()
    }

    /// Returns the rules of a role.
    pub(crate) fn role(&self, key: &Key) -> Option<Arc<[PolicyRule]>> {
        self.inner.read().roles.get(key).cloned()
    }
}

impl Inner {
    /// Returns the bindings that apply to an identity in a namespace, each with the rules of its role.
    fn of<'a>(
        &'a self,
        identity: &'a Identity,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Binding, &'a Arc<[PolicyRule]>)> {
        let at = |namespace: &'a str| {
            let all = self.bindings.range(Key::new(namespace, "")..);
            all.take_while(move |(key, _)| *key.namespace == *namespace)
        };
        let own = (!namespace.is_empty()).then(|| at(namespace));
        at("")
            .chain(own.into_iter().flatten())
            .filter(move |(_, binding)| binding.binds(identity))
            .filter_map(|(_, binding)| Some((binding, self.roles.get(&binding.role)?)))
    }

    fn replace(&mut self, table: &str, key: &Key, after: Option<&Stored>) {
        let value = after.map(Stored::value);
        match table {
            ROLES | CLUSTER_ROLES => {
                let role = value.and_then(|v| serde_json::from_value::<StoredRole>(v).ok());
                match role {
                    Some(role) => {
                        let rules = role.rules.unwrap_or_default().into();
                        self.roles.insert(key.clone(), rules);
                    }
                    None => drop(self.roles.remove(key)),
                }
            }
            ROLE_BINDINGS | CLUSTER_ROLE_BINDINGS => {
                match value.and_then(|v| serde_json::from_value::<StoredBinding>(v).ok()) {
                    Some(stored) => {
                        let namespace = match stored.role_ref.kind.as_str() {
                            "Role" => &*key.namespace,
                            _ => "",
                        };
                        let binding = Binding {
                            key: key.clone(),
                            role: Key::new(namespace, &stored.role_ref.name),
                            subjects: stored.subjects.unwrap_or_default(),
                        };
                        self.bindings.insert(key.clone(), binding);
                    }
                    None => drop(self.bindings.remove(key)),
                }
            }
            _ => {}
        }
    }
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
            index.allows(&alice(), &attributes)
        };
        let rules =
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        let to = |kind: &str, name: &str| {
            json!({"roleRef": {"apiGroup": "x", "kind": kind, "name": "r"},
                "subjects": [{"kind": name, "name": if name == "User" { "alice" } else { "devs" }}]})
        };
        put(&store, ROLE_BINDINGS, "n", "b", to("Role", "User"));
        assert!(!may("n"), "the binding names a missing role");
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
        let attributes = Attributes::on("get", "", "pods", "n", "p");
        assert!(fresh.allows(&alice(), &attributes));
    }
}
