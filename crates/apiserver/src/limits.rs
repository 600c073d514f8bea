//! LimitRanges: what containers get where they say nothing, and how large pods, containers and claims may be.

use std::collections::BTreeMap;

use berth_apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::store::{Key, Stored};
use crate::verbs::Call;

/// Where it is noted what was filled in.
const NOTE: &str = "kubernetes.io/limit-ranger";
/// The table of classes of storage.
const CLASSES: &str = "storageclasses.storage.k8s.io";
/// Lists of containers of a pod, and what one of them is called.
const CONTAINERS: [(&str, &str); 2] = [
    ("containers", "container"),
    ("initContainers", "init container"),
];

/// Amounts by resource.
type Amounts = BTreeMap<String, Quantity>;

/// The limits of all LimitRanges of a namespace.
fn limits(call: &Call, key: &Key) -> Vec<Value> {
    let page = call.shared.store.list("limitranges", Some(&key.namespace));
    let of = |range: &Stored| range.value()["spec"]["limits"].take();
    let lists = page.items.iter().map(|range| of(range));
    lists
        .flat_map(|list| list.as_array().cloned().unwrap_or_default())
        .collect()
}

fn amounts(value: &Value) -> Amounts {
    let map = value.as_object().into_iter().flatten();
    map.filter_map(|(name, text)| Some((name.clone(), Quantity::parse(text.as_str()?).ok()?)))
        .collect()
}

/// Fills in what the containers of a pod leave open that is new or gets other resources.
pub(crate) fn fill_in(call: &Call, key: &Key, value: &mut Value) {
    if !call.resource.is("", "pods") {
        return;
    }
    let mut notes = Vec::new();
    for limit in limits(call, key)
        .iter()
        .filter(|l| l["type"] == "Container")
    {
        for (list, title) in CONTAINERS {
            for container in value["spec"][list].as_array_mut().into_iter().flatten() {
                let name = container["name"].as_str().unwrap_or_default().to_owned();
                for (part, defaults, what) in [
                    ("requests", "defaultRequest", "request"),
                    ("limits", "default", "limit"),
                ] {
                    let set = defaulted(&mut container["resources"], part, &limit[defaults]);
                    if !set.is_empty() {
                        notes.push(format!("{} {what} for {title} {name}", set.join(", ")));
                    }
                }
            }
        }
    }
    // Only of a new pod it is noted.
    if !notes.is_empty() && call.subresource.is_none() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        if !value["metadata"]["annotations"].is_object() {
            value["metadata"]["annotations"] = json!({});
        }
        value["metadata"]["annotations"][NOTE] = json!(note);
    }
}

/// Sets the resources that are not there, and returns their names.
fn defaulted(resources: &mut Value, part: &str, defaults: &Value) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults.as_object().into_iter().flatten() {
        if resources[part].get(name).is_none() {
            if !resources[part].is_object() {
                resources[part] = Value::Object(Map::new());
            }
            resources[part][name.as_str()] = amount.clone();
            set.push(name.clone());
        }
    }
    set
}

/// Refuses what is too small or too large.
pub(crate) fn check(call: &Call, key: &Key, value: &Value) -> Result<(), ApiError> {
    let (of_pod, of_claim) = (
        call.resource.is("", "pods"),
        call.resource.is("", "persistentvolumeclaims"),
    );
    if !of_pod && !of_claim {
        return Ok(());
    }
    let mut problems = Vec::new();
    for limit in limits(call, key) {
        match limit["type"].as_str() {
            Some("Container") if of_pod => {
                for (list, _) in CONTAINERS {
                    for container in value["spec"][list].as_array().into_iter().flatten() {
                        let needs = Needs::of(&container["resources"]);
                        needs.judge("Container", &limit, &mut problems);
                    }
                }
            }
            Some("Pod") if of_pod => Needs::of_pod(value).judge("Pod", &limit, &mut problems),
            Some("PersistentVolumeClaim") if of_claim => {
                let needs = Needs {
                    requests: amounts(&value["spec"]["resources"]["requests"]),
                    limits: None,
                };
                needs.judge("PersistentVolumeClaim", &limit, &mut problems);
            }
            _ => {}
        }
    }
    let why = match problems.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let (group, plural) = (&call.resource.group, &call.resource.plural);
    Err(ApiError::forbidden(group, plural, &key.name, &why))
}

/// Refuses to let a claim grow whose class does not allow that.
pub(crate) fn check_growth(
    call: &Call,
    key: &Key,
    old: &Value,
    new: &Value,
) -> Result<(), ApiError> {
    if !call.resource.is("", "persistentvolumeclaims") {
        return Ok(());
    }
    let size = |claim: &Value| {
        let asked = claim["spec"]["resources"]["requests"]["storage"].as_str();
        asked.and_then(|text| Quantity::parse(text).ok())
    };
    let class = new["spec"]["storageClassName"].as_str().unwrap_or_default();
    let expands = || {
        let class = call.shared.store.get(CLASSES, &Key::new("", class));
        class.is_some_and(|class| class.value()["allowVolumeExpansion"] == true)
    };
    if size(new) <= size(old) || expands() {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
               support resize";
    Err(ApiError::forbidden(
        "",
        "persistentvolumeclaims",
        &key.name,
        why,
    ))
}

/// What something asks for.
pub(crate) struct Needs {
    pub(crate) requests: Amounts,
    /// None for what has no limits, such as claims.
    pub(crate) limits: Option<Amounts>,
}

impl Needs {
    fn of(resources: &Value) -> Self {
        Self {
            requests: amounts(&resources["requests"]),
            limits: Some(amounts(&resources["limits"])),
        }
    }

    /// What its containers need, unless the pod as a whole says something else.
    pub(crate) fn of_pod(pod: &Value) -> Self {
        let mut needs = Self::of_containers(pod);
        let whole = &pod["spec"]["resources"];
        needs.requests.extend(amounts(&whole["requests"]));
        if let Some(limits) = &mut needs.limits {
            limits.extend(amounts(&whole["limits"]));
        }
        needs
    }

    /// The sum of the containers, or what the largest of those needs that run before them.
    pub(crate) fn of_containers(pod: &Value) -> Self {
        let sum = |part: &str| {
            let mut total = Amounts::new();
            let of = |list: &str| pod["spec"][list].as_array().cloned().unwrap_or_default();
            for container in of("containers") {
                for (name, amount) in amounts(&container["resources"][part]) {
                    let known = total.get(&name).copied().unwrap_or(Quantity::ZERO);
                    total.insert(name, known + amount);
                }
            }
            for container in of("initContainers") {
                for (name, amount) in amounts(&container["resources"][part]) {
                    let known = total.get(&name).copied().unwrap_or(Quantity::ZERO);
                    total.insert(name, known.max(amount));
                }
            }
            total
        };
        Self {
            requests: sum("requests"),
            limits: Some(sum("limits")),
        }
    }

    /// Adds what a limit has against it.
    fn judge(&self, title: &str, limit: &Value, problems: &mut Vec<String>) {
        let request = |name: &str| self.requests.get(name).copied();
        let most = |name: &str| self.limits.as_ref().and_then(|l| l.get(name)).copied();
        for (name, min) in amounts(&limit["min"]) {
            let begin = format!("minimum {name} usage per {title} is {min}");
            let small = most(&name).filter(|asked| *asked < min);
            match (request(&name), small) {
                (None, _) => problems.push(format!("{begin}.  No request is specified")),
                (Some(asked), _) if asked < min => {
                    problems.push(format!("{begin}, but request is {asked}"));
                }
                (_, Some(asked)) => problems.push(format!("{begin}, but limit is {asked}")),
                _ => {}
            }
        }
        for (name, max) in amounts(&limit["max"]) {
            let begin = format!("maximum {name} usage per {title} is {max}");
            let large = request(&name).filter(|asked| *asked > max);
            match (most(&name), large) {
                (None, _) if self.limits.is_some() => {
                    problems.push(format!("{begin}.  No limit is specified"));
                }
                (Some(asked), _) if asked > max => {
                    problems.push(format!("{begin}, but limit is {asked}"));
                }
                (_, Some(asked)) => problems.push(format!("{begin}, but request is {asked}")),
                _ => {}
            }
        }
        for (name, ratio) in amounts(&limit["maxLimitRequestRatio"]) {
            let begin = format!("{name} max limit to request ratio per {title} is {ratio}");
            let given = |amount: Option<Quantity>| amount.filter(|amount| !amount.is_zero());
            match (given(request(&name)), given(most(&name))) {
                (None, _) => problems.push(format!(
                    "{begin}, but no request is specified or request is 0"
                )),
                (_, None) => {
                    problems.push(format!("{begin}, but no limit is specified or limit is 0"));
                }
                (Some(asked), Some(most)) => {
                    let found = most.ratio(asked);
                    if found > ratio.ratio(Quantity::from_integer(1)) {
                        problems.push(format!("{begin}, but provided ratio is {found:.6}"));
                    }
                }
            }
        }
    }
}
