//! Addresses for Services of type LoadBalancer and for Ingresses, as a cloud provider assigns them. No process listens
//! at the addresses.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};
use k8s_openapi::api::networking::v1::{
    Ingress, IngressLoadBalancerIngress, IngressLoadBalancerStatus,
};
use kube::ResourceExt as _;

use crate::action::Action;
use crate::cache::Cache;
use crate::plan::Plan;
use crate::pod_template;
use crate::scope::Scope;

/// The networks for documentation (RFC 5737). The Internet has no routes to them.
const NETWORKS: [[u8; 3]; 3] = [[203, 0, 113], [198, 51, 100], [192, 0, 2]];
const HOSTS: u16 = 254;

pub(crate) fn plan(cache: &Cache, scope: &Scope, plan: &mut Plan) {
    let mut pool = None;
    for service in cache.services.iter() {
        if service.metadata.deletion_timestamp.is_none() && scope.covers(&service.metadata) {
            of_service(service, cache, &mut pool, plan.of(&service.metadata));
        }
    }
    for ingress in cache.ingresses.iter() {
        if ingress.metadata.deletion_timestamp.is_none() && scope.covers(&ingress.metadata) {
            of_ingress(ingress, cache, &mut pool, plan.of(&ingress.metadata));
        }
    }
}

fn of_service(
    service: &Service,
    cache: &Cache,
    pool: &mut Option<Pool>,
    actions: &mut Vec<Action>,
) {
    let spec = service.spec.as_ref();
    let is_balanced = spec.is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
    let has = service_addresses(service).next();
    let asked = spec.and_then(|spec| spec.load_balancer_ip.clone());
    let asked = asked.filter(|ip| ip.parse::<Ipv4Addr>().is_ok());
    let wanted = if is_balanced {
        let kept = asked.or_else(|| has.map(str::to_owned));
        Some(kept.unwrap_or_else(|| Pool::of(pool, cache).assign(service.uid())))
    } else {
        None
    };
    if wanted.as_deref() == has {
        return;
    }
    let mut service = service.clone();
    let balancer = LoadBalancerStatus {
        ingress: wanted.map(|ip| {
            vec![LoadBalancerIngress {
                ip: Some(ip),
                ip_mode: Some("VIP".to_owned()),
                ..LoadBalancerIngress::default()
            }]
        }),
    };
    service.status.get_or_insert_default().load_balancer = Some(balancer);
    actions.push(Action::ServiceStatus(Box::new(service)));
}

fn of_ingress(
    ingress: &Ingress,
    cache: &Cache,
    pool: &mut Option<Pool>,
    actions: &mut Vec<Action>,
) {
    if ingress_addresses(ingress).next().is_some() {
        return;
    }
    let address = Pool::of(pool, cache).assign(ingress.uid());
    let mut ingress = ingress.clone();
    let balancer = IngressLoadBalancerStatus {
        ingress: Some(vec![IngressLoadBalancerIngress {
            ip: Some(address),
            ..IngressLoadBalancerIngress::default()
        }]),
    };
    ingress.status.get_or_insert_default().load_balancer = Some(balancer);
    actions.push(Action::IngressStatus(Box::new(ingress)));
}

fn service_addresses(service: &Service) -> impl Iterator<Item = &str> {
    let status = service.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let points = balancer.and_then(|balancer| balancer.ingress.as_ref());
    points
        .into_iter()
        .flatten()
        .filter_map(|point| point.ip.as_deref().or(point.hostname.as_deref()))
}

fn ingress_addresses(ingress: &Ingress) -> impl Iterator<Item = &str> {
    let status = ingress.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let points = balancer.and_then(|balancer| balancer.ingress.as_ref());
    points
        .into_iter()
        .flatten()
        .filter_map(|point| point.ip.as_deref().or(point.hostname.as_deref()))
}

/// The assigned addresses. The first assignment collects them from the cache.
struct Pool(BTreeSet<String>);

impl Pool {
    fn of<'a>(pool: &'a mut Option<Self>, cache: &Cache) -> &'a mut Self {
        pool.get_or_insert_with(|| {
            let services = cache.services.iter().flat_map(service_addresses);
            let ingresses = cache.ingresses.iter().flat_map(ingress_addresses);
            Self(services.chain(ingresses).map(str::to_owned).collect())
        })
    }

    /// Returns a free address. The search starts at an address that is derived from the UID. If no address is free, the
    /// result is the first searched address.
    fn assign(&mut self, uid: Option<String>) -> String {
        let all: Vec<String> = NETWORKS
            .iter()
            .flat_map(|[a, b, c]| (1..=HOSTS).map(move |host| format!("{a}.{b}.{c}.{host}")))
            .collect();
        let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
        let start = usize::try_from(pod_template::hash(&uid, "") % count).unwrap_or_default();
        let (before, after) = all.split_at(start);
        let mut addresses = after.iter().chain(before);
        let free = addresses.find(|address| !self.0.contains(*address));
        let found = free.or_else(|| after.first()).cloned().unwrap_or_default();
        self.0.insert(found.clone());
        found
    }
}
