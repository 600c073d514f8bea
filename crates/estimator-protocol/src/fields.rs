//! Fields of messages that contain Kubernetes types.
//!
//! Karmada moved these types to other fields: clients up to 1.17 set only the old fields, clients of 1.18 set both, and
//! clients since 1.19 set only the new fields. The new field has precedence.

use std::collections::BTreeMap;

use berth_api::quantity::Quantity;
use berth_api::toleration::Toleration;
use k8s_openapi::api::core::v1::NodeSelector;

use crate::kubernetes_types::{
    DecodeError, decode_node_selector, decode_quantity, decode_toleration,
};
use crate::wire::pb;

impl pb::NodeClaim {
    /// Returns the required node affinity. `None` selects all nodes.
    ///
    /// # Errors
    /// When the bytes are malformed.
    pub fn decode_affinity(&self) -> Result<Option<NodeSelector>, DecodeError> {
        let bytes = newer(&self.node_affinity_bytes, &self.node_affinity);
        (!bytes.is_empty())
            .then(|| decode_node_selector(bytes))
            .transpose()
    }

    /// Returns the tolerations.
    ///
    /// # Errors
    /// When the bytes are malformed.
    pub fn decode_tolerations(&self) -> Result<Vec<Toleration>, DecodeError> {
        let all = newer(&self.tolerations_bytes, &self.tolerations);
        all.iter().map(|bytes| decode_toleration(bytes)).collect()
    }
}

impl pb::ReplicaRequirements {
    /// Returns the requested quantities by resource.
    ///
    /// # Errors
    /// When the bytes of a quantity are malformed.
    pub fn decode_resource_request(&self) -> Result<BTreeMap<String, Quantity>, DecodeError> {
        decode_resources(&self.resource_request_bytes, &self.resource_request)
    }
}

impl pb::ComponentReplicaRequirements {
    /// Returns the requested quantities by resource.
    ///
    /// # Errors
    /// When the bytes of a quantity are malformed.
    pub fn decode_resource_request(&self) -> Result<BTreeMap<String, Quantity>, DecodeError> {
        decode_resources(&self.resource_request_bytes, &self.resource_request)
    }
}

fn newer<'a, T>(new: &'a [T], old: &'a [T]) -> &'a [T] {
    if new.is_empty() { old } else { new }
}

type Encoded = BTreeMap<String, Vec<u8>>;

fn decode_resources(
    new: &Encoded,
    old: &Encoded,
) -> Result<BTreeMap<String, Quantity>, DecodeError> {
    let fields = if new.is_empty() { old } else { new };
    let decoded = fields
        .iter()
        .map(|(resource, bytes)| Ok((resource.clone(), decode_quantity(bytes)?)));
    decoded.collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeSelectorTerm;

    use super::*;
    use crate::kubernetes_types::{node_selector, quantity, toleration};

    /// A generation of clients.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Generation {
        Old,
        Both,
        New,
    }

    const ALL: [Generation; 3] = [Generation::Old, Generation::Both, Generation::New];

    /// Returns the values of the old and of the new field.
    fn fields<T: Clone + Default>(generation: Generation, value: T) -> (T, T) {
        match generation {
            Generation::Old => (value, T::default()),
            Generation::Both => (value.clone(), value),
            Generation::New => (T::default(), value),
        }
    }

    #[test]
    fn clients_of_every_version_are_understood() {
        let affinity = NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm::default()],
        };
        let tolerations = vec![Toleration {
            key: Some("gpu".into()),
            ..Toleration::default()
        }];
        let cpu = Quantity::parse("500m").unwrap();
        let encoded: Encoded = [("cpu".to_owned(), quantity(cpu))].into();
        for generation in ALL {
            let (node_affinity, node_affinity_bytes) = fields(generation, node_selector(&affinity));
            let list = tolerations.iter().map(toleration).collect();
            let (old, tolerations_bytes) = fields::<Vec<Vec<u8>>>(generation, list);
            let claim = pb::NodeClaim {
                node_affinity,
                node_affinity_bytes,
                tolerations: old,
                tolerations_bytes,
                ..pb::NodeClaim::default()
            };
            assert_eq!(claim.decode_affinity(), Ok(Some(affinity.clone())));
            assert_eq!(claim.decode_tolerations(), Ok(tolerations.clone()));
            let (resource_request, resource_request_bytes) = fields(generation, encoded.clone());
            let requirements = pb::ReplicaRequirements {
                resource_request,
                resource_request_bytes,
                ..pb::ReplicaRequirements::default()
            };
            let expected = Ok([("cpu".to_owned(), cpu)].into());
            assert_eq!(requirements.decode_resource_request(), expected);
        }
        let empty = pb::NodeClaim::default();
        assert_eq!(empty.decode_affinity(), Ok(None));
        assert_eq!(empty.decode_tolerations(), Ok(Vec::new()));
    }

    #[test]
    fn malformed_bytes_are_refused() {
        let claim = pb::NodeClaim {
            node_affinity_bytes: vec![0x0a, 9],
            tolerations: vec![vec![0x0a, 9]],
            ..pb::NodeClaim::default()
        };
        assert!(claim.decode_affinity().is_err());
        assert!(claim.decode_tolerations().is_err());
        let requirements = pb::ComponentReplicaRequirements {
            resource_request_bytes: [("cpu".to_owned(), vec![0x0a, 9])].into(),
            ..pb::ComponentReplicaRequirements::default()
        };
        assert!(requirements.decode_resource_request().is_err());
    }
}
