//! ResourceQuotas: refuses writes that exceed a quota, and computes the usage of a quota. `tasks::quotas` writes the
//! usage to the status.
//!
//! Usage is counted on demand from the existing objects. A lock serializes the writes that may increase the usage in
//! namespaces with quotas, so that two concurrent writes cannot both use the last unit.

mod scope;

use std::collections::{BTreeMap, BTreeSet};

use berth_apimachinery::quantity::Quantity;
use parking_lot::MutexGuard;
use scope::Scope;
use serde_json::{Value, json};

use crate::builtins::pod_resources::PodResources;
use crate::error::ApiError;
use crate::resource::{Resource, Subresource};
use crate::shared::Shared;
use crate::store::Key;
use crate::table_names::QUOTAS;
use crate::verbs::Call;

/// Core resources that quotas also count under their plain name, such as `pods` besides `count/pods`.
const PLAIN_NAMES: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
/// Resources that every container of a pod must declare if a quota limits these resources.
const COMPUTE_RESOURCES: &[&str] = &[
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// Amounts, keyed by the resource names in the `hard` field of quotas.
type Amounts = BTreeMap<String, Quantity>;

/// Returns the name under which quotas count the objects of a resource, such as `count/deployments.apps`.
fn count_name(group: &str, plural: &str) -> String {
    if group.is_empty() {
        format!("count/{plural}")
    } else {
        format!("count/{plural}.{group}")
    }
}

/// Returns the amounts by which an object increases the usage of its namespace.
fn usage_of(group: &str, plural: &str, value: &Value) -> Amounts {
    let one = Quantity::from_integer(1);
    let mut all = Amounts::from([(count_name(group, plural), one)]);
    if !group.is_empty() {
        return all;
    }
    if PLAIN_NAMES.contains(&plural) {
        all.insert(plural.to_owned(), one);
    }
    match plural {
        "pods" => of_pod(value, &mut all),
        "services" => of_service(value, &mut all),
        "persistentvolumeclaims" => of_claim(value, &mut all),
        _ => {}
    }
    all
}

fn of_pod(pod: &Value, all: &mut Amounts) {
    if is_terminated(pod) {
        // A terminated pod is counted only under `count/pods`.
        all.remove("pods");
        return;
    }
    let resources = PodResources::of_pod(pod);
    for (name, amount) in resources.requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            all.insert(name.clone(), amount);
        }
        all.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in resources.limits {
        all.insert(format!("limits.{name}"), amount);
    }
}

fn is_terminated(pod: &Value) -> bool {
    matches!(
        pod["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    )
}

fn of_service(service: &Value, all: &mut Amounts) {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().map_or(0, Vec::len);
    let ports = Quantity::from_integer(i64::try_from(ports).unwrap_or(i64::MAX));
    match spec["type"].as_str() {
        Some("NodePort") => drop(all.insert("services.nodeports".to_owned(), ports)),
        Some("LoadBalancer") => {
            all.insert(
                "services.loadbalancers".to_owned(),
                Quantity::from_integer(1),
            );
            if spec["allocateLoadBalancerNodePorts"] != false {
                all.insert("services.nodeports".to_owned(), ports);
            }
        }
        _ => {}
    }
}

fn of_claim(claim: &Value, all: &mut Amounts) {
    let spec = &claim["spec"];
    let requested = spec["resources"]["requests"]["storage"].as_str();
    let storage = requested
        .and_then(|text| Quantity::parse(text).ok())
        .unwrap_or(Quantity::ZERO);
    all.insert("requests.storage".to_owned(), storage);
    if let Some(class) = spec["storageClassName"].as_str() {
        let prefix = format!("{class}.storageclass.storage.k8s.io");
        all.insert(format!("{prefix}/requests.storage"), storage);
        all.insert(
            format!("{prefix}/persistentvolumeclaims"),
            Quantity::from_integer(1),
        );
    }
}

/// A parsed ResourceQuota.
struct Quota {
    name: String,
    hard: Amounts,
    /// The scopes of the quota. A quota with scopes counts only the pods that match all scopes.
    scopes: Vec<Scope>,
}

impl Quota {
    fn of(value: &Value) -> Self {
        let spec = &value["spec"];
        let hard = spec["hard"].as_object().into_iter().flatten();
        Self {
            name: value["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            hard: hard
                .filter_map(|(name, text)| {
                    Some((name.clone(), Quantity::parse(text.as_str()?).ok()?))
                })
                .collect(),
            scopes: Scope::all_of(spec),
        }
    }

    /// Reports whether the object is counted under this quota.
    fn counts(&self, group: &str, plural: &str, value: &Value) -> bool {
        let is_pod = group.is_empty() && plural == "pods";
        self.scopes
            .iter()
            .all(|scope| is_pod && scope.matches(value))
    }
}

fn quotas(shared: &Shared, namespace: &str) -> Vec<Quota> {
    let page = shared.store.list(QUOTAS, Some(namespace));
    page.items.iter().map(|q| Quota::of(&q.value())).collect()
}

/// Returns the usage of a quota: the sum over the existing objects in the namespace.
fn used(shared: &Shared, namespace: &str, quota: &Quota) -> Amounts {
    let mut all: Amounts = quota
        .hard
        .keys()
        .map(|name| (name.clone(), Quantity::ZERO))
        .collect();
    let snapshot = shared.registry.snapshot();
    let tables: Vec<_> = snapshot
        .by_table
        .values()
        .filter(|r| r.namespaced())
        .collect();
    for resource in tables {
        let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
        if !applies_to(quota, group, plural) {
            continue;
        }
        for object in shared.store.list(&resource.table, Some(namespace)).items {
            let value = object.value();
            if !quota.counts(group, plural, &value) {
                continue;
            }
            for (name, amount) in usage_of(group, plural, &value) {
                if let Some(sum) = all.get_mut(&name) {
                    *sum = *sum + amount;
                }
            }
        }
    }
    all
}

/// Reports whether a quota limits the objects of a resource.
fn applies_to(quota: &Quota, group: &str, plural: &str) -> bool {
    let count = count_name(group, plural);
    quota.hard.keys().any(|name| {
        *name == count
            || group.is_empty()
                && match plural {
                    "pods" => !name.starts_with("count/") && !name.starts_with("services"),
                    "services" => name.starts_with("services"),
                    "persistentvolumeclaims" => {
                        name.contains("storage") || name == "persistentvolumeclaims"
                    }
                    other => name == other,
                }
    })
}

/// Locks the quotas of all namespaces for a write that may increase usage. Returns `None` if the namespace of the write
/// has no quotas. The caller must hold the lock until the object is stored.
pub(crate) fn global_lock<'a>(call: &'a Call, key: &Key) -> Option<MutexGuard<'a, ()>> {
    let limited = call.resource.namespaced()
        && !call
            .shared
            .store
            .list(QUOTAS, Some(&key.namespace))
            .items
            .is_empty();
    limited.then(|| call.shared.quota_lock.lock())
}

/// Reports whether an update of this resource and subresource may increase the usage of the object.
pub(crate) fn may_grow(call: &Call) -> bool {
    let resource = &*call.resource;
    let growing = ["services", "persistentvolumeclaims"];
    match call.subresource {
        None => resource.group.is_empty() && growing.contains(&resource.plural.as_str()),
        Some(part) => part == Subresource::Resize,
    }
}

/// Refuses a new object or an update that raises the usage above a quota. `old` is `None` for a new object. The caller
/// must hold the quota lock.
pub(crate) fn check(
    call: &Call,
    key: &Key,
    value: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let resource = &*call.resource;
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    let old_usage = old
        .map(|old| usage_of(group, plural, old))
        .unwrap_or_default();
    let mut requested = usage_of(group, plural, value);
    for (name, amount) in &mut requested {
        *amount = *amount - old_usage.get(name).copied().unwrap_or(Quantity::ZERO);
    }
    requested.retain(|_, amount| *amount > Quantity::ZERO);
    if requested.is_empty() && old.is_some() {
        return Ok(());
    }
    let refused = |message: String| Err(ApiError::forbidden(group, plural, &key.name, &message));
    for quota in quotas(&call.shared, &key.namespace) {
        if !quota.counts(group, plural, value) {
            continue;
        }
        if let Some(missing) = undeclared(resource, value, &quota) {
            return refused(format!(
                "failed quota: {}: must specify {missing}",
                quota.name
            ));
        }
        let used = used(&call.shared, &key.namespace, &quota);
        let exceeded: BTreeSet<&String> = requested
            .iter()
            .filter(|(name, amount)| {
                let limit = quota.hard.get(*name).zip(used.get(*name));
                limit.is_some_and(|(hard, used)| *used + **amount > *hard)
            })
            .map(|(name, _)| name)
            .collect();
        if exceeded.is_empty() {
            continue;
        }
        let shown = |amounts: &Amounts| {
            let of = exceeded
                .iter()
                .filter_map(|name| amounts.get_key_value(*name));
            of.map(|(name, amount)| format!("{name}={amount}"))
                .collect::<Vec<_>>()
                .join(",")
        };
        return refused(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name,
            shown(&requested),
            shown(&used),
            shown(&quota.hard)
        ));
    }
    Ok(())
}

/// Returns text for an error message: each resource in [`COMPUTE_RESOURCES`] that the quota limits, with the containers
/// that do not declare this resource. Returns `None` if every container declares all limited resources.
fn undeclared(resource: &Resource, pod: &Value, quota: &Quota) -> Option<String> {
    if !resource.is("", "pods") {
        return None;
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let lists = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array());
    for container in lists.into_iter().flatten().flatten() {
        for name in COMPUTE_RESOURCES
            .iter()
            .filter(|name| quota.hard.contains_key(**name))
        {
            let (part, what) = match name.split_once('.') {
                Some(("limits", what)) => ("limits", what),
                Some((_, what)) => ("requests", what),
                None => ("requests", *name),
            };
            if container["resources"][part].get(what).is_none() {
                let of = container["name"].as_str().unwrap_or_default();
                missing.entry(name).or_default().push(of);
            }
        }
    }
    let parts: Vec<String> = missing
        .iter()
        .map(|(name, of)| format!("{name} for: {}", of.join(",")))
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the status of the ResourceQuota `value`: its limits and its current usage.
pub(crate) fn status(shared: &Shared, namespace: &str, value: &Value) -> Value {
    let quota = Quota::of(value);
    let used: BTreeMap<String, String> = used(shared, namespace, &quota)
        .into_iter()
        .map(|(name, amount)| (name, amount.to_string()))
        .collect();
    json!({"hard": value["spec"]["hard"], "used": used})
}
