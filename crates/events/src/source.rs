//! Sources of events.

use std::sync::Arc;

/// A component, and its host if there are several instances, such as kubelets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    pub(crate) component: Arc<str>,
    pub(crate) host: Option<Arc<str>>,
}

impl Source {
    pub(crate) fn new(component: &str) -> Self {
        Self {
            component: component.into(),
            host: None,
        }
    }

    /// Returns the source for a host.
    pub(crate) fn on(&self, host: &str) -> Self {
        Self {
            component: Arc::clone(&self.component),
            host: Some(host.into()),
        }
    }
}
