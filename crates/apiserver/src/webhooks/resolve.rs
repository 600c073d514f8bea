//! The addresses of a Service. There is no network with virtual addresses here, so what is behind it is called itself.

use serde_json::Value;

use crate::store::{Key, Store};

const SLICES: &str = "endpointslices.discovery.k8s.io";
/// The label of a slice that names its Service.
const OF_SERVICE: &str = "kubernetes.io/service-name";

/// Splits the host name `NAME.NAMESPACE.svc` of a Service.
pub(super) fn service_of(host: &str) -> Option<(&str, &str)> {
    let (name, namespace) = host.strip_suffix(".svc")?.split_once('.')?;
    (!name.is_empty() && !namespace.is_empty() && !namespace.contains('.'))
        .then_some((namespace, name))
}

/// Reports whether there is such a Service.
pub(super) fn exists(store: &Store, namespace: &str, name: &str) -> bool {
    store.get("services", &Key::new(namespace, name)).is_some()
}

/// Returns hosts and ports behind a port of a Service, or why there are none.
pub(super) fn addresses(
    store: &Store,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<Vec<(String, u16)>, String> {
    let key = Key::new(namespace, name);
    let service = store
        .get("services", &key)
        .ok_or_else(|| format!("service \"{name}\" not found"))?
        .value();
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        let host = spec["externalName"].as_str().unwrap_or_default();
        return Ok(vec![(host.to_owned(), port)]);
    }
    let mut ports = spec["ports"].as_array().into_iter().flatten();
    let named = ports
        .find(|candidate| candidate["port"] == port)
        .map(|found| found["name"].as_str().unwrap_or_default())
        .ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
    let mut found = Vec::new();
    for slice in store.list(SLICES, Some(namespace)).items {
        if slice.labels.get(OF_SERVICE).is_some_and(|of| of == name) {
            let slice = slice.value();
            let ready = items(&slice["endpoints"]).filter(|e| e["conditions"]["ready"] != false);
            let hosts = ready.flat_map(|endpoint| items(&endpoint["addresses"]));
            found.extend(at_port(hosts, &slice["ports"], named));
        }
    }
    if found.is_empty()
        && let Some(endpoints) = store.get("endpoints", &key)
    {
        for subset in items(&endpoints.value()["subsets"]) {
            let hosts = items(&subset["addresses"]).map(|address| &address["ip"]);
            found.extend(at_port(hosts, &subset["ports"], named));
        }
    }
    if found.is_empty() {
        return Err(format!("no endpoints available for service \"{name}\""));
    }
    Ok(found)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Combines hosts with the port of this name.
fn at_port<'a>(
    hosts: impl Iterator<Item = &'a Value>,
    ports: &Value,
    named: &str,
) -> Vec<(String, u16)> {
    let port = items(ports)
        .find(|port| port["name"].as_str().unwrap_or_default() == named)
        .and_then(|port| u16::try_from(port["port"].as_u64()?).ok());
    let Some(port) = port else {
        return Vec::new();
    };
    hosts
        .filter_map(Value::as_str)
        .map(|host| (host.to_owned(), port))
        .collect()
}
