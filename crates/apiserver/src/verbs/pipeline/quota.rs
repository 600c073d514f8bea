//! ResourceQuotas: refuses a write that exceeds one, and reports their use.
//!
//! Usage is counted on demand from the existing objects. Creations in a namespace with quotas are serialized, so that
//! two cannot both take the last unit.

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
use crate::tables::QUOTAS;
use crate::verbs::Call;

/// Core kinds that are also counted by their plain name.
const COUNTED: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
/// Resources that every container must declare if a quota limits them.
const COMPUTE: &[&str] = &[
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// Amounts by the names that quotas use.
type Amounts = BTreeMap<String, Quantity>;

/// Returns the name under which objects of a resource are counted.
fn counted(group: &str, plural: &str) -> String {
    if group.is_empty() {
        format!("count/{plural}")
    } else {
        format!("count/{plural}.{group}")
    }
}

/// Returns what an object uses of the quotas of its namespace.
fn demand(group: &str, plural: &str, value: &Value) -> Amounts {
    let one = Quantity::from_integer(1);
    let mut all = Amounts::from([(counted(group, plural), one)]);
    if !group.is_empty() {
        return all;
    }
    if COUNTED.contains(&plural) {
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
    if has_ended(pod) {
        // A terminated pod uses only the count of objects.
        all.remove("pods");
        return;
    }
    let needs = PodResources::of_pod(pod);
    for (name, amount) in needs.requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            all.insert(name.clone(), amount);
        }
        all.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in needs.limits {
        all.insert(format!("limits.{name}"), amount);
    }
}

/// Reports whether a pod has ended.
fn has_ended(pod: &Value) -> bool {
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
        let begin = format!("{class}.storageclass.storage.k8s.io");
        all.insert(format!("{begin}/requests.storage"), storage);
        all.insert(
            format!("{begin}/persistentvolumeclaims"),
            Quantity::from_integer(1),
        );
    }
}

/// One quota.
struct Quota {
    name: String,
    hard: Amounts,
    /// Restrictions on pods. A quota with scopes counts only pods.
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

    /// Reports whether an object counts.
    fn counts(&self, group: &str, plural: &str, value: &Value) -> bool {
        let is_pod = group.is_empty() && plural == "pods";
        self.scopes.iter().all(|scope| is_pod && scope.has(value))
    }
}

fn quotas(shared: &Shared, namespace: &str) -> Vec<Quota> {
    let page = shared.store.list(QUOTAS, Some(namespace));
    page.items.iter().map(|q| Quota::of(&q.value())).collect()
}

/// Returns the usage of a quota.
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
            for (name, amount) in demand(group, plural, &value) {
                if let Some(sum) = all.get_mut(&name) {
                    *sum = *sum + amount;
                }
            }
        }
    }
    all
}

/// Reports whether a quota applies to a resource.
fn applies_to(quota: &Quota, group: &str, plural: &str) -> bool {
    let count = counted(group, plural);
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

/// Locks the quotas of a namespace for a write that may increase usage. The lock is held until the object is stored.
pub(crate) fn lock<'a>(call: &'a Call, key: &Key) -> Option<MutexGuard<'a, ()>> {
    let limited = call.resource.namespaced()
        && !call
            .shared
            .store
            .list(QUOTAS, Some(&key.namespace))
            .items
            .is_empty();
    limited.then(|| call.shared.quotas.lock())
}

/// Reports whether a change of an object may increase its usage.
pub(crate) fn may_grow(call: &Call) -> bool {
    let resource = &*call.resource;
    let grows = ["services", "persistentvolumeclaims"];
    match call.subresource {
        None => resource.group.is_empty() && grows.contains(&resource.plural.as_str()),
        Some(part) => part == Subresource::Resize,
    }
}

/// Refuses an object, or the increase of its usage, that exceeds a quota. The caller holds the lock.
pub(crate) fn check(
    call: &Call,
    key: &Key,
    value: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let resource = &*call.resource;
    let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
    let had = old
        .map(|old| demand(group, plural, old))
        .unwrap_or_default();
    let mut requested = demand(group, plural, value);
    for (name, amount) in &mut requested {
        *amount = *amount - had.get(name).copied().unwrap_or(Quantity::ZERO);
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
                let room = quota.hard.get(*name).zip(used.get(*name));
                room.is_some_and(|(hard, used)| *used + **amount > *hard)
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

/// Returns the resources that a quota limits and containers do not declare, with the names of the containers.
fn undeclared(resource: &Resource, pod: &Value, quota: &Quota) -> Option<String> {
    if !resource.is("", "pods") {
        return None;
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let lists = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array());
    for container in lists.into_iter().flatten().flatten() {
        for name in COMPUTE
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

/// Returns the status of a quota.
pub(crate) fn status(shared: &Shared, namespace: &str, value: &Value) -> Value {
    let quota = Quota::of(value);
    let used: BTreeMap<String, String> = used(shared, namespace, &quota)
        .into_iter()
        .map(|(name, amount)| (name, amount.to_string()))
        .collect();
    json!({"hard": value["spec"]["hard"], "used": used})
}
