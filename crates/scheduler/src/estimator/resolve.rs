//! A resolver that finds the address of a cluster's estimator. It reads the Service of the estimator in the control
//! plane.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_apimachinery::api_error::api_error_message;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Api;
use tokio::sync::Semaphore;

use super::options::{EstimatorOptions, WithoutService};
use berth_component_base::kube_client::RateLimit;

/// Time limit for the API server's response.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent lookups. The number is small, because lookups share the rate limit with the writes of
/// decisions.
const MAX_LOOKUPS: usize = 4;

/// The reason why an estimator's address is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    /// The API server returned an error.
    #[error("cannot get service {service}: {}", api_error_message(source))]
    Get {
        /// The Service's name.
        service: String,
        /// The API server's error.
        source: Box<kube::Error>,
    },
    /// The API server did not respond in time.
    #[error("cannot get service {service}: no answer within {TIMEOUT:?}")]
    NoAnswer {
        /// The Service's name.
        service: String,
    },
    /// There is no Service, and the options rule out other ways to find the estimator.
    #[error("there is no service {service}")]
    NoService {
        /// The Service's name.
        service: String,
    },
    /// The Service is not of type `ExternalName`. Only a Service of this type names a host outside the control plane.
    #[error("unsupported service type {0:?}")]
    Type(String),
    /// The Service does not contain the port.
    #[error("service {service} has no port {port}")]
    NoPort {
        /// The Service's name.
        service: String,
        /// The expected port.
        port: u16,
    },
    /// The target port of the Service is not a number.
    #[error("the target port of port {port} of service {service} is not a number")]
    NoTargetPort {
        /// The Service's name.
        service: String,
        /// The expected port.
        port: u16,
    },
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A resolver that looks up the addresses of estimators.
pub(super) struct Resolver {
    client: kube::Client,
    limit: Arc<RateLimit>,
    lookups: Semaphore,
    namespace: String,
    prefix: String,
    port: u16,
    without_service: WithoutService,
}

impl Resolver {
    pub(super) fn new(
        client: kube::Client,
        limit: Arc<RateLimit>,
        options: &EstimatorOptions,
    ) -> Self {
        Self {
            client,
            limit,
            lookups: Semaphore::new(MAX_LOOKUPS),
            namespace: options.namespace.clone(),
            prefix: options.prefix.clone(),
            port: options.port,
            without_service: options.without_service,
        }
    }

    /// Returns the addresses of the estimator of a cluster, in the order in which the caller must try them.
    pub(super) async fn addresses(&self, cluster: &str) -> Result<Vec<Address>, ResolveError> {
        let service = format!("{}-{cluster}", self.prefix);
        let api: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        // This cannot fail, because the semaphore is never closed.
        let _permit = self.lookups.acquire().await;
        self.limit.acquire().await;
        match tokio::time::timeout(TIMEOUT, api.get_opt(&service)).await {
            Ok(Ok(Some(found))) => Ok(vec![external_address(&found, service, self.port)?]),
            Ok(Ok(None)) => match self.without_service {
                WithoutService::Resolve => {
                    Ok(in_cluster_addresses(&service, &self.namespace, self.port))
                }
                WithoutService::NoEstimator => Err(ResolveError::NoService { service }),
            },
            Ok(Err(source)) => Err(ResolveError::Get {
                service,
                source: Box::new(source),
            }),
            Err(_) => Err(ResolveError::NoAnswer { service }),
        }
    }
}

/// Returns the DNS names of a Service in the host cluster.
fn in_cluster_addresses(service: &str, namespace: &str, port: u16) -> Vec<Address> {
    let hosts = [
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}.svc"),
    ];
    hosts.map(|host| Address { host, port }).to_vec()
}

/// Returns the host and port that a Service of type `ExternalName` names.
fn external_address(found: &Service, service: String, port: u16) -> Result<Address, ResolveError> {
    let spec = found.spec.as_ref();
    let kind = spec.and_then(|spec| spec.type_.as_deref());
    // The API server uses this type by default.
    let kind = kind.unwrap_or("ClusterIP");
    if kind != "ExternalName" {
        return Err(ResolveError::Type(kind.to_owned()));
    }
    let ports = spec.and_then(|spec| spec.ports.as_deref());
    let entry = ports
        .unwrap_or_default()
        .iter()
        .find(|entry| entry.port == i32::from(port));
    let Some(entry) = entry else {
        return Err(ResolveError::NoPort { service, port });
    };
    let host = spec.and_then(|spec| spec.external_name.clone());
    match target_port(entry) {
        Some(target) => Ok(Address {
            host: host.unwrap_or_default(),
            port: target,
        }),
        None => Err(ResolveError::NoTargetPort { service, port }),
    }
}

fn target_port(entry: &ServicePort) -> Option<u16> {
    match entry.target_port {
        Some(IntOrString::Int(number)) => u16::try_from(number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resolved(spec: Value) -> Result<String, String> {
        let service: Service = serde_json::from_value(json!({ "spec": spec })).unwrap();
        external_address(&service, "estimator-m1".into(), 10352)
            .map(|address| address.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn external_name_services_give_host_and_target_port() {
        let named = |ports: Value| json!({ "type": "ExternalName", "externalName": "estimator.m1.example", "ports": ports });
        for (spec, expected) in [
            (
                named(
                    json!([{ "port": 1, "targetPort": 2 }, { "port": 10352, "targetPort": 30352 }]),
                ),
                Ok("estimator.m1.example:30352"),
            ),
            (
                json!({ "type": "ExternalName", "externalName": "fd00::1", "ports": [{ "port": 10352, "targetPort": 9 }] }),
                Ok("[fd00::1]:9"),
            ),
            (
                json!({ "type": "ClusterIP", "ports": [{ "port": 10352, "targetPort": 9 }] }),
                Err("unsupported service type \"ClusterIP\""),
            ),
            (json!({}), Err("unsupported service type \"ClusterIP\"")),
            (
                named(json!([{ "port": 1, "targetPort": 2 }])),
                Err("service estimator-m1 has no port 10352"),
            ),
            (
                named(json!([{ "port": 10352, "targetPort": "grpc" }])),
                Err("the target port of port 10352 of service estimator-m1 is not a number"),
            ),
        ] {
            let resolved = resolved(spec.clone());
            let resolved = resolved.as_deref().map_err(String::as_str);
            assert_eq!(resolved, expected, "{spec}");
        }
    }

    #[test]
    fn in_cluster_addresses_are_the_dns_names_of_the_service() {
        let addresses =
            in_cluster_addresses("karmada-scheduler-estimator-m1", "karmada-system", 10352);
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(
            addresses,
            [
                "karmada-scheduler-estimator-m1.karmada-system.svc.cluster.local:10352",
                "karmada-scheduler-estimator-m1.karmada-system.svc:10352",
            ]
        );
    }
}
