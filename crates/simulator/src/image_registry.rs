//! Decides which images can be pulled.

use k8s_openapi::api::core::v1::Container;
use regex::Regex;

/// A registry with all images but those that match a pattern.
#[derive(Clone, Debug, Default)]
pub struct ImageRegistry {
    unpullable: Option<Regex>,
}

impl ImageRegistry {
    /// Creates a registry without the images that match `unpullable` anywhere in their name.
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
