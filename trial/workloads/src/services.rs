//! Services: EndpointSlices with the addresses of the selected pods. No traffic is routed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::{Cache, key};
use crate::owned_pods::{self, controller_of};
use crate::plan::Plan;
use crate::pod_template;
use crate::scope::Scope;

const SERVICE: &str = "kubernetes.io/service-name";
const MANAGER: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Maximum number of addresses in a slice.
const MAX_ADDRESSES: usize = 100;

pub(crate) fn plan(cache: &Cache, scope: &Scope, plan: &mut Plan) {
    for service in cache.services.iter() {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let is_concerned = scope.covers(&service.metadata) || scope.has_changes_in(namespace);
        if let Some(spec) = &service.spec
            && is_concerned
            && service.metadata.deletion_timestamp.is_none()
        {
            plan_service(service, spec, cache, plan.of(&service.metadata));
        }
    }
}

fn plan_service(service: &Service, spec: &ServiceSpec, cache: &Cache, actions: &mut Vec<Action>) {
    let Some(selector) = spec.selector.as_ref().filter(|s| !s.is_empty()) else {
        return;
    };
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let existing = cache.slices.within(namespace).filter(|slice| {
        let owner = controller_of(&slice.metadata);
        owner.is_some_and(|owner| Some(&owner.uid) == service.metadata.uid.as_ref())
    });
    let mut existing: BTreeMap<String, &EndpointSlice> =
        existing.map(|slice| (slice.name_any(), slice)).collect();
    let wanted = if spec.type_.as_deref() == Some("ExternalName") {
        Vec::new()
    } else {
        let pods = cache.pods.within(namespace).filter(|pod| {
            let mut selector = selector.iter();
            selector.all(|(key, value)| pod.labels().get(key) == Some(value))
        });
        slices(service, spec, pods, cache)
    };
    for wanted in wanted {
        match existing.remove(&wanted.name_any()) {
            None => actions.push(Action::CreateSlice(Box::new(wanted))),
            Some(known) if semantically_eq(known, &wanted) => {}
            Some(known) => {
                let mut changed = known.clone();
                changed.metadata.labels = wanted.metadata.labels;
                changed.endpoints = wanted.endpoints;
                changed.ports = wanted.ports;
                actions.push(Action::ReplaceSlice(Box::new(changed)));
            }
        }
    }
    actions.extend(
        existing
            .values()
            .map(|slice| Action::DeleteSlice(key(*slice))),
    );
}

fn semantically_eq(known: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    known.endpoints == wanted.endpoints
        && known.ports == wanted.ports
        && known.metadata.labels == wanted.metadata.labels
}

/// Returns the slices for the pods of a Service. Pods with different port numbers are in different slices.
fn slices<'a>(
    service: &Service,
    spec: &ServiceSpec,
    pods: impl Iterator<Item = &'a Pod>,
    cache: &Cache,
) -> Vec<EndpointSlice> {
    let mut by_ports: Vec<(Vec<EndpointPort>, Vec<Endpoint>)> = Vec::new();
    for pod in pods {
        let Some(endpoint) = endpoint(service, spec, pod, cache) else {
            continue;
        };
        let ports = spec.ports.iter().flatten();
        let ports: Vec<EndpointPort> = ports.filter_map(|port| number(port, pod)).collect();
        match by_ports.iter_mut().find(|(known, _)| *known == ports) {
            Some((_, endpoints)) => endpoints.push(endpoint),
            None => by_ports.push((ports, vec![endpoint])),
        }
    }
    if by_ports.is_empty() {
        // A Service without endpoints has one empty slice.
        return vec![slice(service, spec, &[], &[], 0)];
    }
    let mut all = Vec::new();
    for (ports, endpoints) in &by_ports {
        for (index, endpoints) in endpoints.chunks(MAX_ADDRESSES).enumerate() {
            all.push(slice(service, spec, ports, endpoints, index));
        }
    }
    all
}

fn slice(
    service: &Service,
    spec: &ServiceSpec,
    ports: &[EndpointPort],
    endpoints: &[Endpoint],
    index: usize,
) -> EndpointSlice {
    let name = service.name_any();
    let mut labels = service.labels().clone();
    labels.insert(SERVICE.to_owned(), name.clone());
    labels.insert(MANAGER.to_owned(), MANAGED_BY.to_owned());
    if spec.cluster_ip.as_deref() == Some("None") {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    // The name of a slice depends on its ports and its index, so that it stays the same when addresses change.
    let salt = format!("{} {index}", service.uid().unwrap_or_default());
    let suffix = if endpoints.is_empty() {
        pod_template::short_name(&declared(spec), &salt, 5)
    } else {
        pod_template::short_name(&ports, &salt, 5)
    };
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{suffix}")),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: owned_pods::owner_references(service),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".to_owned(),
        endpoints: Some(endpoints.to_vec()),
        ports: Some(ports.to_vec()),
    }
}

/// Returns the ports of a Service as if all target ports were numbers. The port of the Service replaces a named target
/// port.
fn declared(spec: &ServiceSpec) -> Vec<EndpointPort> {
    let ports = spec.ports.iter().flatten();
    let target = |port: &ServicePort| match &port.target_port {
        Some(IntOrString::Int(number)) => *number,
        _ => port.port,
    };
    ports.map(|port| published(port, target(port))).collect()
}

/// Resolves a port of a Service for a pod. Returns `None` if the pod has no port with the name of the target port.
fn number(port: &ServicePort, pod: &Pod) -> Option<EndpointPort> {
    let number = match &port.target_port {
        None | Some(IntOrString::Int(0)) => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => {
            let protocol = |of: Option<&String>| of.map_or("TCP", String::as_str).to_owned();
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
            let named = ports.find(|known| {
                known.name.as_ref() == Some(name)
                    && protocol(known.protocol.as_ref()) == protocol(port.protocol.as_ref())
            });
            named?.container_port
        }
    };
    Some(published(port, number))
}

fn published(port: &ServicePort, number: i32) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(number),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    }
}

/// Returns the endpoint for a pod. Returns `None` if the pod has no address or is finished.
fn endpoint(service: &Service, spec: &ServiceSpec, pod: &Pod, cache: &Cache) -> Option<Endpoint> {
    let address = pod.status.as_ref()?.pod_ip.clone()?;
    if owned_pods::is_finished(pod) {
        return None;
    }
    let node_name = owned_pods::node(pod).map(str::to_owned);
    let node = node_name
        .as_ref()
        .and_then(|node| cache.nodes.get(&(String::new(), node.clone())));
    let serving = owned_pods::is_ready(pod);
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let published = spec.publish_not_ready_addresses == Some(true);
    let named = pod.spec.as_ref().filter(|named| {
        named.subdomain.as_deref() == service.metadata.name.as_deref() && named.subdomain.is_some()
    });
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(published || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: named.and_then(|named| named.hostname.clone()),
        zone: node.and_then(|node| node.labels().get(ZONE).cloned()),
        node_name,
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    })
}
