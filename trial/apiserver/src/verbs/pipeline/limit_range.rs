//! LimitRanges: default requests and limits of containers, and bounds for pods, containers and claims.

use berth_apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::builtins::pod_resources::{PodResources, Quantities, quantities};
use crate::error::ApiError;
use crate::store::{Key, Stored};
use crate::table_names;
use crate::verbs::Call;

/// The annotation that lists the defaults that LimitRanges have set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The container lists of a pod, each with the noun for one of its containers in messages.
const CONTAINERS: [(&str, &str); 2] = [
    ("containers", "container"),
    ("initContainers", "init container"),
];

/// Returns the limits of all LimitRanges of a namespace.
fn limits(call: &Call, key: &Key) -> Vec<Value> {
    let store = &call.shared.store;
    let page = store.list(table_names::LIMIT_RANGES, Some(&key.namespace));
    let of = |range: &Stored| range.value()["spec"]["limits"].take();
    let lists = page.items.iter().map(|range| of(range));
    lists
        .flat_map(|list| list.as_array().cloned().unwrap_or_default())
        .collect()
}

/// Sets the missing requests and limits of a pod's containers to the defaults of the LimitRanges.
pub(super) fn set_defaults(call: &Call, key: &Key, pod: &mut Value) {
    if !call.resource.is("", "pods") {
        return;
    }
    let mut notes = Vec::new();
    for limit in limits(call, key)
        .iter()
        .filter(|l| l["type"] == "Container")
    {
        for (list, title) in CONTAINERS {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                let name = container["name"].as_str().unwrap_or_default().to_owned();
                for (field, defaults, noun) in [
                    ("requests", "defaultRequest", "request"),
                    ("limits", "default", "limit"),
                ] {
                    let set = set_missing(&mut container["resources"], field, &limit[defaults]);
                    if !set.is_empty() {
                        notes.push(format!("{} {noun} for {title} {name}", set.join(", ")));
                    }
                }
            }
        }
    }
    // Only a new pod gets the annotation.
    if !notes.is_empty() && call.subresource.is_none() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        if !pod["metadata"]["annotations"].is_object() {
            pod["metadata"]["annotations"] = json!({});
        }
        pod["metadata"]["annotations"][ANNOTATION] = json!(note);
    }
}

/// Sets missing quantities to their defaults. Returns the names of the resources whose quantity was missing.
fn set_missing(resources: &mut Value, field: &str, defaults: &Value) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults.as_object().into_iter().flatten() {
        if resources[field].get(name).is_none() {
            if !resources[field].is_object() {
                resources[field] = Value::Object(Map::new());
            }
            resources[field][name.as_str()] = amount.clone();
            set.push(name.clone());
        }
    }
    set
}

/// Refuses pods and claims that violate the bounds of the LimitRanges.
pub(super) fn check(call: &Call, key: &Key, value: &Value) -> Result<(), ApiError> {
    let is_pod = call.resource.is("", "pods");
    let is_claim = call.resource.is("", "persistentvolumeclaims");
    if !is_pod && !is_claim {
        return Ok(());
    }
    let mut problems = Vec::new();
    for limit in limits(call, key) {
        match limit["type"].as_str() {
            Some("Container") if is_pod => {
                for (list, _) in CONTAINERS {
                    for container in value["spec"][list].as_array().into_iter().flatten() {
                        let own = PodResources::of(&container["resources"]);
                        compare(
                            "Container",
                            &own.requests,
                            Some(&own.limits),
                            &limit,
                            &mut problems,
                        );
                    }
                }
            }
            Some("Pod") if is_pod => {
                let own = PodResources::of_pod(value);
                compare(
                    "Pod",
                    &own.requests,
                    Some(&own.limits),
                    &limit,
                    &mut problems,
                );
            }
            Some("PersistentVolumeClaim") if is_claim => {
                let requests = quantities(&value["spec"]["resources"]["requests"]);
                compare(
                    "PersistentVolumeClaim",
                    &requests,
                    None,
                    &limit,
                    &mut problems,
                );
            }
            _ => {}
        }
    }
    let message = match problems.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let (group, plural) = (&call.resource.group, &call.resource.plural);
    Err(ApiError::forbidden(group, plural, &key.name, &message))
}

/// Refuses an update that increases the requested storage of a claim whose storage class does not allow expansion.
pub(super) fn check_growth(
    call: &Call,
    key: &Key,
    old: &Value,
    new: &Value,
) -> Result<(), ApiError> {
    if !call.resource.is("", "persistentvolumeclaims") {
        return Ok(());
    }
    let size = |claim: &Value| {
        let requested = claim["spec"]["resources"]["requests"]["storage"].as_str();
        requested.and_then(|text| Quantity::parse(text).ok())
    };
    let class = new["spec"]["storageClassName"].as_str().unwrap_or_default();
    let allows_expansion = || {
        let store = &call.shared.store;
        let class = store.get(table_names::STORAGE_CLASSES, &Key::new("", class));
        class.is_some_and(|class| class.value()["allowVolumeExpansion"] == true)
    };
    if size(new) <= size(old) || allows_expansion() {
        return Ok(());
    }
    let message = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
               support resize";
    Err(ApiError::forbidden(
        "",
        "persistentvolumeclaims",
        &key.name,
        message,
    ))
}

/// Adds a problem for each bound that the requests or limits violate. `limits` is `None` for a claim.
fn compare(
    title: &str,
    requests: &Quantities,
    limits: Option<&Quantities>,
    bounds: &Value,
    problems: &mut Vec<String>,
) {
    let request = |name: &str| requests.get(name).copied();
    let limit = |name: &str| limits.and_then(|limits| limits.get(name)).copied();
    for (name, min) in quantities(&bounds["min"]) {
        let begin = format!("minimum {name} usage per {title} is {min}");
        let small = limit(&name).filter(|limit| *limit < min);
        match (request(&name), small) {
            (None, _) => problems.push(format!("{begin}.  No request is specified")),
            (Some(request), _) if request < min => {
                problems.push(format!("{begin}, but request is {request}"));
            }
            (_, Some(limit)) => problems.push(format!("{begin}, but limit is {limit}")),
            _ => {}
        }
    }
    for (name, max) in quantities(&bounds["max"]) {
        let begin = format!("maximum {name} usage per {title} is {max}");
        let large = request(&name).filter(|request| *request > max);
        match (limit(&name), large) {
            (None, _) if limits.is_some() => {
                problems.push(format!("{begin}.  No limit is specified"));
            }
            (Some(limit), _) if limit > max => {
                problems.push(format!("{begin}, but limit is {limit}"));
            }
            (_, Some(request)) => problems.push(format!("{begin}, but request is {request}")),
            _ => {}
        }
    }
    for (name, ratio) in quantities(&bounds["maxLimitRequestRatio"]) {
        let begin = format!("{name} max limit to request ratio per {title} is {ratio}");
        let given = |amount: Option<Quantity>| amount.filter(|amount| !amount.is_zero());
        match (given(request(&name)), given(limit(&name))) {
            (None, _) => problems.push(format!(
                "{begin}, but no request is specified or request is 0"
            )),
            (_, None) => {
                problems.push(format!("{begin}, but no limit is specified or limit is 0"));
            }
            (Some(request), Some(limit)) => {
                let found = limit.ratio(request);
                if found > ratio.ratio(Quantity::from_integer(1)) {
                    problems.push(format!("{begin}, but provided ratio is {found:.6}"));
                }
            }
        }
    }
}
