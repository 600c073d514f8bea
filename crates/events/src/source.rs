//! Who tells.

use std::sync::Arc;

/// A component, and the host that it tells of where it is one of many, as a kubelet is.
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

    /// The same component on this host.
    pub(crate) fn on(&self, host: &str) -> Self {
        Self {
            component: Arc::clone(&self.component),
            host: Some(host.into()),
        }
    }
}
