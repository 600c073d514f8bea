//! Discovery documents of groups, versions and resources, in the legacy and the aggregated form.

use std::collections::BTreeSet;

use axum::body::Body;
use berth_apimachinery::go_platform::go_platform;
use http::{HeaderMap, Response};
use serde_json::{Value, json};

use super::{etag, respond};
use crate::registry::{GroupVersion, Snapshot};
use crate::resource::{Resource, Style};

/// The Kubernetes version whose API the server implements.
const GIT_VERSION: &str = concat!(
    "v1.36.0+berth",
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);

pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35", "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": go_platform(),
    })
}

/// Reports whether the client accepts the aggregated form of discovery.
fn accepts_aggregated(accept: &str) -> bool {
    accept.split(',').any(|entry| {
        let mut parameters = entry.split(';').map(str::trim);
        entry.contains("as=APIGroupDiscoveryList") && parameters.any(|p| p == "v=v2")
    })
}

fn verbs(resource: &Resource) -> Vec<&'static str> {
    if resource.style == Style::Review {
        return vec!["create"];
    }
    let all = "create delete deletecollection get list patch update watch";
    let mut verbs: Vec<&str> = all.split(' ').collect();
    if resource.is("", "namespaces") {
        verbs.retain(|verb| *verb != "deletecollection");
    }
    verbs
}

/// Returns the name, the kind and the verbs of each subresource of a resource.
fn subresources(
    snapshot: &Snapshot,
    resource: &Resource,
) -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let own = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let mut all = Vec::new();
    if resource.status {
        all.push(("status", own.clone(), vec!["get", "patch", "update"]));
    }
    if resource.scale.is_some() {
        let scale = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        all.push(("scale", scale, vec!["get", "patch", "update"]));
    }
    if resource.is("", "serviceaccounts") {
        let token =
            json!({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"});
        all.push(("token", token, vec!["create"]));
    }
    if resource.is("certificates.k8s.io", "certificatesigningrequests") {
        all.push(("approval", own.clone(), vec!["get", "patch", "update"]));
    }
    if resource.is("", "pods") {
        let core = |kind: &str| json!({"group": "", "version": "v1", "kind": kind});
        all.push(("attach", core("PodAttachOptions"), vec!["create", "get"]));
        all.push(("binding", core("Binding"), vec!["create"]));
        let change = || vec!["get", "patch", "update"];
        all.push(("ephemeralcontainers", own.clone(), change()));
        let eviction = json!({"group": "policy", "version": "v1", "kind": "Eviction"});
        all.push(("eviction", eviction, vec!["create"]));
        all.push(("exec", core("PodExecOptions"), vec!["create", "get"]));
        all.push(("log", own.clone(), vec!["get"]));
        let forward = core("PodPortForwardOptions");
        all.push(("portforward", forward, vec!["create", "get"]));
        all.push(("resize", own.clone(), change()));
    }
    if resource.is("", "namespaces") {
        all.push(("finalize", own, vec!["update"]));
    }
    let connected = snapshot.connected.iter();
    for connected in connected.filter(|c| resource.is(c.group, c.resource)) {
        let options =
            json!({"group": resource.group, "version": resource.version, "kind": connected.kind});
        let verbs = vec!["create", "delete", "get", "patch", "update"];
        all.push((connected.subresource, options, verbs));
    }
    all
}

fn discovery_group(snapshot: &Snapshot, name: &str, versions: &[(String, GroupVersion)]) -> Value {
    let resource = |r: &Resource| {
        let sub: Vec<Value> = subresources(snapshot, r)
            .into_iter()
            .map(|(name, kind, verbs)| json!({"subresource": name, "responseKind": kind, "verbs": verbs}))
            .collect();
        let mut value = json!({
            "resource": r.plural,
            "responseKind": {"group": r.group, "version": r.version, "kind": r.kind},
            "scope": if r.namespaced() { "Namespaced" } else { "Cluster" },
            "singularResource": r.singular, "verbs": verbs(r),
        });
        for (key, list) in [
            ("shortNames", &r.short_names),
            ("categories", &r.categories),
        ] {
            if !list.is_empty() {
                value[key] = json!(list);
            }
        }
        if !sub.is_empty() {
            value["subresources"] = Value::Array(sub);
        }
        value
    };
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, resources)| {
            let resources: Vec<Value> = resources.values().map(|r| resource(r)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions})
}

/// Returns the aggregated discovery document of the core group, or of all other groups, if the client accepts this
/// form.
pub(crate) fn aggregated(
    snapshot: &Snapshot,
    headers: &HeaderMap,
    accept: &str,
    core: bool,
) -> Option<Response<Body>> {
    const MEDIA: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    if !accepts_aggregated(accept) {
        return None;
    }
    let groups: Vec<Value> = snapshot
        .groups
        .iter()
        .filter(|(g, _)| g.is_empty() == core)
        .map(|(g, v)| discovery_group(snapshot, g, v))
        .collect();
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups});
    let contents = format!("{list}\n").into_bytes();
    Some(etag::by_contents(headers, contents, |contents| {
        respond::public(respond::bytes_as(MEDIA, contents))
    }))
}

pub(crate) fn core_root() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]})
}

fn group_value(name: &str, versions: &[(String, GroupVersion)]) -> Value {
    let entry = |v: &String| json!({"groupVersion": format!("{name}/{v}"), "version": v});
    let all: Vec<Value> = versions.iter().map(|(v, _)| entry(v)).collect();
    let preferred = all.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": all, "preferredVersion": preferred})
}

pub(crate) fn groups_root(snapshot: &Snapshot) -> Value {
    let groups: Vec<Value> = snapshot
        .groups
        .iter()
        .filter(|(g, _)| !g.is_empty())
        .map(|(g, v)| group_value(g, v))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub(crate) fn group(snapshot: &Snapshot, name: &str) -> Option<Value> {
    let versions = snapshot.groups.get(name).filter(|_| !name.is_empty())?;
    let mut value = group_value(name, versions);
    value["kind"] = json!("APIGroup");
    value["apiVersion"] = json!("v1");
    Some(value)
}

pub(crate) fn resources(snapshot: &Snapshot, group: &str, version: &str) -> Option<Value> {
    let resources = snapshot.group_version(group, version)?;
    let mut list = Vec::new();
    for r in resources.values() {
        let mut value = json!({
            "name": r.plural, "singularName": r.singular, "namespaced": r.namespaced(), "kind": r.kind,
            "verbs": verbs(r),
        });
        for (key, names) in [
            ("shortNames", &r.short_names),
            ("categories", &r.categories),
        ] {
            if !names.is_empty() {
                value[key] = json!(names);
            }
        }
        list.push(value);
        for (name, kind, verbs) in subresources(snapshot, r) {
            let mut value = json!({
                "name": format!("{}/{name}", r.plural), "singularName": "", "namespaced": r.namespaced(),
                "kind": kind["kind"], "verbs": verbs,
            });
            if (&kind["group"], &kind["version"]) != (&json!(r.group), &json!(r.version)) {
                value["group"] = kind["group"].clone();
                value["version"] = kind["version"].clone();
            }
            list.push(value);
        }
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}),
    )
}

/// Returns the document of the path `/`, which lists the non-resource paths.
pub(crate) fn paths(snapshot: &Snapshot) -> Value {
    let mut paths: BTreeSet<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for (group, versions) in &snapshot.groups {
        let root = match group.as_str() {
            "" => "/api".to_owned(),
            group => format!("/apis/{group}"),
        };
        paths.extend(versions.iter().map(|(v, _)| format!("{root}/{v}")));
        paths.insert(root);
    }
    json!({ "paths": paths })
}
