//! The simulated image registry, which decides which images can be pulled.

use k8s_openapi::api::core::v1::Container;
use regex::Regex;

/// A registry that contains all images, except the images that match a pattern.
#[derive(Clone, Debug, Default)]
pub struct ImageRegistry {
    unpullable: Option<Regex>,
}

impl ImageRegistry {
    /// Creates a registry that lacks some images. `unpullable` matches a part of the names of these images.
    #[must_use]
    pub fn without(unpullable: Regex) -> Self {
        Self {
            unpullable: Some(unpullable),
        }
    }

    /// Reports whether the image of a container can be pulled.
    pub(crate) fn can_pull(&self, container: &Container) -> bool {
        let image = container.image.as_deref().unwrap_or_default();
        let unpullable = self.unpullable.as_ref();
        !unpullable.is_some_and(|unpullable| unpullable.is_match(image))
    }
}
