//! Resource requests of replicas.

use berth_api::cluster::ResourceList;
use berth_api::quantity::{Quantity, QuantityError};

use crate::resource_vector::{PodShape, in_units};

/// The reason why a resource request is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource {resource:?}: {source}")]
pub struct ResourceRequestError {
    /// The resource.
    pub resource: String,
    /// The error of its quantity.
    pub source: QuantityError,
}

/// The request of a replica for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAsk {
    /// The resource.
    pub resource: String,
    /// The positive amount.
    pub quantity: Quantity,
    /// The amount in thousandths for cpu, or in whole units for other resources, rounded up.
    pub units: i64,
}

/// The request of a replica. Resources with a zero amount are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    asks: Vec<ResourceAsk>,
}

impl ResourceRequest {
    /// Parses a resource list.
    ///
    /// # Errors
    /// When a quantity is malformed.
    pub fn new(list: &ResourceList) -> Result<Self, ResourceRequestError> {
        let mut asks = Vec::with_capacity(list.len());
        for (resource, text) in list {
            let quantity = text.parse().map_err(|source| ResourceRequestError {
                resource: resource.clone(),
                source,
            })?;
            if quantity > Quantity::ZERO {
                asks.push(ResourceAsk {
                    units: in_units(resource, quantity),
                    resource: resource.clone(),
                    quantity,
                });
            }
        }
        Ok(Self { asks })
    }

    /// Returns the requests, by resource name.
    pub fn asks(&self) -> &[ResourceAsk] {
        &self.asks
    }

    /// Returns the request in the units of the first-fit simulation.
    pub(crate) fn pod_shape(&self) -> PodShape {
        PodShape::new(
            self.asks
                .iter()
                .map(|ask| (ask.resource.as_str(), ask.quantity)),
        )
    }
}
