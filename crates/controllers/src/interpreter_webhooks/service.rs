//! The address of a webhook that runs behind a Service of the control plane. The rules are Karmada's.

use std::sync::Arc;

use berth_apimachinery::api_error::api_error_message;
use berth_https_client::{Host, Resolver};
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;

/// Returns a resolver that reads Services from the control plane.
pub(super) fn resolver(client: kube::Client) -> Resolver {
    Arc::new(move |host, port, kind| {
        let client = client.clone();
        Box::pin(async move {
            let Some((name, namespace)) = name_of(&host).filter(|_| kind == Host::Service) else {
                return Ok(vec![(host, port)]);
            };
            let services: Api<Service> = Api::namespaced(client, namespace);
            let service = services.get_opt(name).await;
            let service = service.map_err(|error| {
                format!(
                    "cannot read the Service {namespace}/{name}: {}",
                    api_error_message(&error)
                )
            })?;
            let address = match service {
                Some(service) => address(&service, port)?,
                // The Service may exist in the cluster that runs the control plane, whose DNS then resolves the name.
                None => host,
            };
            Ok(vec![(address, port)])
        })
    })
}

/// Splits the host name `NAME.NAMESPACE.svc` of a Service.
fn name_of(host: &str) -> Option<(&str, &str)> {
    host.strip_suffix(".svc")?.split_once('.')
}

/// Returns the external name of a Service, or its cluster IP if the Service has this port.
fn address(service: &Service, port: u16) -> Result<String, String> {
    let spec = service.spec.clone().unwrap_or_default();
    match spec.type_.as_deref().unwrap_or("ClusterIP") {
        "ExternalName" => Ok(spec.external_name.unwrap_or_default()),
        "ClusterIP" | "LoadBalancer" | "NodePort" => {
            let address = spec.cluster_ip.unwrap_or_default();
            if matches!(address.as_str(), "" | "None") {
                return Err("cannot route to a Service without a cluster IP".to_owned());
            }
            let mut ports = spec.ports.iter().flatten();
            if ports.any(|known| known.port == i32::from(port)) {
                Ok(address)
            } else {
                Err(format!("the Service has no port {port}"))
            }
        }
        other => Err(format!("the Service has the unsupported type {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_have_a_cluster_ip_or_an_external_name() {
        let of = |spec: serde_json::Value| {
            let service: Service = serde_json::from_value(json!({ "spec": spec })).unwrap();
            address(&service, 443)
        };
        let ports = json!([{ "port": 443 }]);
        let cluster_ip = json!({ "clusterIP": "10.0.0.1", "ports": ports });
        assert_eq!(of(cluster_ip).as_deref(), Ok("10.0.0.1"));
        let external = json!({ "type": "ExternalName", "externalName": "a.example.com" });
        assert_eq!(of(external).as_deref(), Ok("a.example.com"));
        assert!(of(json!({ "clusterIP": "None", "ports": ports })).is_err());
        assert!(of(json!({ "clusterIP": "10.0.0.1", "ports": [{ "port": 80 }] })).is_err());
        assert_eq!(name_of("a.b.svc"), Some(("a", "b")));
        assert_eq!(name_of("a.example.com"), None);
    }
}
