//! Resolution of the hosts of webhooks. The host of a Service becomes the endpoints of the Service, because the server
//! runs outside the cluster network and cannot reach cluster IPs.

use berth_https_client::Host;
use serde_json::Value;

use crate::store::{Key, Store};
use crate::table_names;

/// The label of an EndpointSlice that contains the name of its Service.
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// Returns the addresses of a host and port. For the host `NAME.NAMESPACE.svc`, returns the endpoints of the Service if
/// the Service exists or if the host must be a Service. Returns any other host unchanged.
pub(crate) fn resolve(
    store: &Store,
    host: &str,
    port: u16,
    kind: Host,
) -> Result<Vec<(String, u16)>, String> {
    let service = service_of(host)
        .filter(|(namespace, name)| kind == Host::Service || exists(store, namespace, name));
    match service {
        Some((namespace, name)) => endpoints(store, namespace, name, port),
        None => Ok(vec![(host.to_owned(), port)]),
    }
}

/// Returns the namespace and the name in the host `NAME.NAMESPACE.svc`. Returns `None` for any other host.
fn service_of(host: &str) -> Option<(&str, &str)> {
    let (name, namespace) = host.strip_suffix(".svc")?.split_once('.')?;
    (!name.is_empty() && !namespace.is_empty() && !namespace.contains('.'))
        .then_some((namespace, name))
}

/// Reports whether a Service exists.
fn exists(store: &Store, namespace: &str, name: &str) -> bool {
    store
        .get(table_names::SERVICES, &Key::new(namespace, name))
        .is_some()
}

/// Returns the endpoints behind a port of a Service, or an error if the port has no endpoints.
fn endpoints(
    store: &Store,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<Vec<(String, u16)>, String> {
    let key = Key::new(namespace, name);
    let service = store
        .get(table_names::SERVICES, &key)
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
    for slice in store
        .list(table_names::ENDPOINT_SLICES, Some(namespace))
        .items
    {
        if slice
            .labels
            .get(SERVICE_NAME_LABEL)
            .is_some_and(|of| of == name)
        {
            let slice = slice.value();
            let ready = items(&slice["endpoints"]).filter(|e| e["conditions"]["ready"] != false);
            let hosts = ready.flat_map(|endpoint| items(&endpoint["addresses"]));
            found.extend(at_port(hosts, &slice["ports"], named));
        }
    }
    if found.is_empty()
        && let Some(endpoints) = store.get(table_names::ENDPOINTS, &key)
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

/// Combines each host with the number of the port whose name is `named`.
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
