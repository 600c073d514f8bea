//! What one replica asks for.

use berth_api::cluster::ResourceList;
use berth_api::quantity::{Quantity, QuantityError};

use crate::estimate::vector::{PodShape, in_units};

/// Why a resource request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource {resource:?}: {source}")]
pub struct ResourceRequestError {
    /// The resource.
    pub resource: String,
    /// What is wrong with its quantity.
    pub source: QuantityError,
}

/// One resource that a replica asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAsk {
    /// The resource.
    pub resource: String,
    /// How much of it, more than 0.
    pub quantity: Quantity,
    /// The same in thousandths for cpu, whole units for everything else, rounded up.
    pub units: i64,
}

/// What one replica asks for. Resources of which it asks nothing are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    asks: Vec<ResourceAsk>,
}

impl ResourceRequest {
    /// Reads a resource list.
    ///
    /// # Errors
    /// When a quantity cannot be read.
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

    /// What is asked for, by resource name.
    pub fn asks(&self) -> &[ResourceAsk] {
        &self.asks
    }

    /// The request as the first-fit simulation counts it.
    pub(crate) fn pod_shape(&self) -> PodShape {
        PodShape::new(
            self.asks
                .iter()
                .map(|ask| (ask.resource.as_str(), ask.quantity)),
        )
    }
}
