//! The generator of random requests for the differential test. Most requests contain a valid object in which a few
//! values are replaced by unusual values.

use serde_json::{Map, Value, json};

use crate::harness::server::{ApiResponse, TestServer};
use crate::numbers::Numbers;

/// Valid objects of built-in kinds, and the paths of their collections.
const BASES: &str = include_str!("../data/invalid.json");
/// Path of the collection of a custom kind.
pub(super) const POLICIES: &str =
    "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies";
/// Names in [`BASES`] that the test omits: a server changes objects of these kinds itself, or the kinds are
/// cluster-scoped.
const EXCLUDED: [&str; 8] = [
    "quota",
    "node",
    "namespace",
    "ingressclass",
    "clusterrole",
    "clusterrolebinding",
    "storageclass",
    "priorityclass",
];
const NAMES: [&str; 3] = ["a", "a", "b"];
const MANAGERS: [&str; 3] = ["one", "two", "three"];
const MAX_EXTRA_REQUESTS: u64 = 10;

/// A kind, the path of its collection, and a valid object.
pub(super) struct Kind {
    pub(super) path: String,
    base: Value,
}

impl Kind {
    /// Creates the kind of a namespaced collection. Reads the names of kind and version from discovery.
    async fn new(server: &TestServer, path: &str, mut base: Value) -> Self {
        let (version, plural) = path.split_once("/namespaces/default/").unwrap();
        let known = server.raw("GET", version, &[], "").await.json;
        let resources = known["resources"].as_array().unwrap();
        let resource = resources.iter().find(|resource| resource["name"] == plural);
        base["kind"] = resource.unwrap()["kind"].clone();
        base["apiVersion"] = known["groupVersion"].clone();
        Self {
            path: path.to_owned(),
            base,
        }
    }

    pub(super) async fn all(server: &TestServer) -> Vec<Self> {
        let recorded: Value = serde_json::from_str(BASES).unwrap();
        let mut all = Vec::new();
        for (name, base) in recorded["bases"].as_object().unwrap() {
            if !EXCLUDED.contains(&name.as_str()) {
                all.push(Self::new(server, base[0].as_str().unwrap(), base[1].clone()).await);
            }
        }
        let policy = json!({"metadata": {}, "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]},
                "clusterTolerations": [{"key": "a", "operator": "Exists"}]}}});
        all.push(Self::new(server, POLICIES, policy).await);
        all
    }
}

/// A change of one field: sets the field to a value, or removes the field if the value is `None`.
#[derive(Debug, Clone)]
struct Change {
    pointer: String,
    value: Option<Value>,
}

impl Change {
    fn apply(&self, object: &mut Value) {
        let Some((parent, last)) = self.pointer.rsplit_once('/') else {
            return;
        };
        let last = last.replace("~1", "/").replace("~0", "~");
        match (object.pointer_mut(parent), &self.value) {
            (Some(Value::Object(object)), Some(value)) => drop(object.insert(last, value.clone())),
            (Some(Value::Object(object)), None) => drop(object.remove(&last)),
            (Some(Value::Array(items)), value) => {
                let Some(at) = last.parse::<usize>().ok().filter(|at| *at < items.len()) else {
                    return;
                };
                match value {
                    Some(value) => items[at] = value.clone(),
                    None => drop(items.remove(at)),
                }
            }
            _ => {}
        }
    }
}

#[derive(Debug, Clone)]
enum Body {
    Nothing,
    Fixed(Value),
    /// The last state of the object in a response, or the given object before the first response. The changes are
    /// applied to this state. If the flag is false, the resource version is removed.
    Live(Value, Vec<Change>, bool),
}

#[derive(Debug, Clone)]
pub(super) struct Request {
    method: &'static str,
    name: &'static str,
    /// The part of the URL after the path of the collection or object.
    rest: String,
    media: &'static str,
    body: Body,
}

/// The last state of each object in the responses of one server, keyed by name.
#[derive(Default)]
pub(super) struct LastStates(Map<String, Value>);

impl Request {
    pub(super) async fn send(
        &self,
        server: &TestServer,
        kind: &Kind,
        namespace: &str,
        states: &mut LastStates,
    ) -> ApiResponse {
        let path = kind.path.replace("default", namespace);
        let collection = self.name.is_empty() || self.method == "POST";
        let target = if collection {
            path
        } else {
            format!("{path}/{}", self.name)
        };
        let body = match &self.body {
            Body::Nothing => String::new(),
            Body::Fixed(value) => value.to_string(),
            Body::Live(default, changes, versioned) => {
                let mut object = states.0.get(self.name).unwrap_or(default).clone();
                for change in changes {
                    change.apply(&mut object);
                }
                if let (false, Some(meta)) = (versioned, object["metadata"].as_object_mut()) {
                    meta.remove("resourceVersion");
                }
                object.to_string()
            }
        };
        let url = format!("{target}{}", self.rest);
        let header = ("content-type", self.media);
        let response = server.raw(self.method, &url, &[header], body).await;
        let is_object = response.json["metadata"]["name"] == self.name;
        if response.code < 300
            && is_object
            && !self.rest.contains("dryRun")
            && !self.rest.contains("/scale")
        {
            states.0.insert(self.name.to_owned(), response.json.clone());
        }
        response
    }
}

/// Adds the JSON pointer of each field to `out`, with parents before their children.
fn pointers(value: &Value, path: &str, out: &mut Vec<String>) {
    let mut step = |name: &str, inner: &Value| {
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        if !["/metadata/name", "/apiVersion", "/kind"].contains(&path.as_str()) {
            out.push(path.clone());
            pointers(inner, &path, out);
        }
    };
    match value {
        Value::Object(object) => object.iter().for_each(|(name, inner)| step(name, inner)),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(at, inner)| step(&at.to_string(), inner));
        }
        _ => {}
    }
}

fn random_change(numbers: &mut Numbers, object: &Value) -> Change {
    let mut all = Vec::new();
    pointers(object, "", &mut all);
    let pointer = numbers.one_of(&all).clone();
    let unusual = [
        json!(null),
        json!(""),
        json!("x"),
        json!("A b"),
        json!("é日本"),
        json!("x".repeat(64)),
        json!("x".repeat(260)),
        json!("a.b/c"),
        json!("-a"),
        json!("50%"),
        json!("1Gi"),
        json!("0"),
        json!("true"),
        json!(0),
        json!(1),
        json!(-1),
        json!(65536),
        json!(2_147_483_648_i64),
        json!(1.5),
        json!(true),
        json!(false),
        json!({}),
        json!([]),
        json!([null]),
        json!([{}]),
        json!({"a": null}),
        json!({"a": "b"}),
        json!(["a", "a"]),
        json!("2025-01-01T00:00:00Z"),
    ];
    match numbers.below(8) {
        0 | 1 => Change {
            pointer,
            value: None,
        },
        2 => Change {
            pointer: format!("{pointer}Unknown"),
            value: Some(json!("x")),
        },
        _ => Change {
            pointer,
            value: Some(numbers.one_of(&unusual).clone()),
        },
    }
}

/// Returns a merge patch that makes a change. The patch contains the complete second-level field with the changed
/// value, such as `spec.template`.
fn merge_patch(object: &Value, change: &Change) -> Value {
    let mut changed = object.clone();
    change.apply(&mut changed);
    let steps: Vec<&str> = change.pointer.split('/').skip(1).take(2).collect();
    let at = format!("/{}", steps.join("/"));
    let mut patch = changed.pointer(&at).cloned().unwrap_or(Value::Null);
    for step in steps.iter().rev() {
        patch = json!({(*step).replace("~1", "/"): patch});
    }
    patch
}

fn random_options(numbers: &mut Numbers) -> Vec<&'static str> {
    let mut options = Vec::new();
    if numbers.below(10) == 0 {
        options.push("dryRun=All");
    }
    if numbers.below(6) == 0 {
        options.push("fieldValidation=Strict");
    }
    options
}

fn random_request(numbers: &mut Numbers, kind: &Kind, is_first: bool) -> Request {
    let name = *numbers.one_of(&NAMES);
    let mut object = kind.base.clone();
    object["metadata"]["name"] = json!(name);
    if numbers.below(4) == 0 {
        let labels = [json!({"a": "x"}), json!({"a": "y"}), json!({})];
        object["metadata"]["labels"] = numbers.one_of(&labels).clone();
    }
    if numbers.below(6) == 0 {
        object["metadata"]["finalizers"] = json!(["a.b/c"]);
    }
    let changes: Vec<Change> = (0..numbers.below(3))
        .map(|_| random_change(numbers, &object))
        .collect();
    let mut unusual = object.clone();
    for change in &changes {
        change.apply(&mut unusual);
    }
    let mut options = random_options(numbers);
    let request = |method, rest: String, media, body| Request {
        method,
        name,
        rest,
        media,
        body,
    };
    let which = if is_first {
        numbers.below(2) * 9
    } else {
        numbers.below(20)
    };
    let query = |options: &[&str]| format!("?{}", options.join("&"));
    match which {
        0..=4 => request(
            "POST",
            query(&options),
            "application/json",
            Body::Fixed(unusual),
        ),
        5..=8 => {
            let body = Body::Live(object, changes, numbers.below(2) == 0);
            request("PUT", query(&options), "application/json", body)
        }
        9..=12 => {
            let manager = format!("fieldManager={}", numbers.one_of(&MANAGERS));
            options.push(&manager);
            if numbers.below(2) == 0 {
                options.push("force=true");
            }
            request(
                "PATCH",
                query(&options),
                "application/apply-patch+yaml",
                Body::Fixed(unusual),
            )
        }
        13..=16 => {
            let change = random_change(numbers, &object);
            // A strategic merge patch of a list item with an unusual merge key makes kube-apiserver close the
            // connection.
            let of_item = change
                .pointer
                .split('/')
                .any(|step| step.parse::<usize>().is_ok());
            let (media, body) = match numbers.below(3) {
                1 if !of_item => (
                    "application/strategic-merge-patch+json",
                    merge_patch(&object, &change),
                ),
                0 | 1 => (
                    "application/merge-patch+json",
                    merge_patch(&object, &change),
                ),
                _ => {
                    let operation = if change.value.is_some() {
                        "replace"
                    } else {
                        "remove"
                    };
                    let step =
                        json!([{"op": operation, "path": change.pointer, "value": change.value}]);
                    ("application/json-patch+json", step)
                }
            };
            request("PATCH", query(&options), media, Body::Fixed(body))
        }
        17..=18 => {
            let how = ["Background", "Other"];
            let body = json!({"propagationPolicy": numbers.one_of(&how), "preconditions": {}});
            request(
                "DELETE",
                String::new(),
                "application/json",
                Body::Fixed(body),
            )
        }
        _ => {
            let queries = [
                "",
                "labelSelector=a",
                "labelSelector=a+in+(x)",
                "fieldSelector=metadata.name%3Da",
                "limit=1",
            ];
            let query = format!("?{}", numbers.one_of(&queries));
            Request {
                name: "",
                ..request("GET", query, "application/json", Body::Nothing)
            }
        }
    }
}

/// Returns the kind and the sequence of requests for a seed.
pub(super) fn sequence(seed: u64, kinds: &[Kind]) -> (&Kind, Vec<Request>) {
    let mut numbers = Numbers::new(seed);
    let kind = numbers.one_of(kinds);
    let count = 3 + numbers.below(MAX_EXTRA_REQUESTS);
    let requests = (0..count)
        .map(|at| random_request(&mut numbers, kind, at == 0))
        .collect();
    (kind, requests)
}
