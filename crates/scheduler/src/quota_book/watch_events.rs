//! The watch events of FederatedResourceQuotas.

use berth_api::{Binding, FederatedResourceQuota};

use super::QuotaBook;
use crate::watch::WatchEvent;

/// The state of the list of quotas after a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListedQuotas {
    /// The event completes a list.
    Complete,
    /// The event is about one quota.
    Unchanged,
}

impl QuotaBook {
    /// Handles a watch event. `bindings` are all known bindings.
    pub(crate) fn handle_event<'a>(
        &mut self,
        event: WatchEvent<FederatedResourceQuota>,
        bindings: impl Iterator<Item = &'a Binding>,
    ) -> ListedQuotas {
        match event {
            WatchEvent::Applied(object) => match object.decode() {
                Ok(quota) => self.quota_applied(quota, bindings),
                Err(error) => {
                    let metadata = object.metadata();
                    let name = metadata.name.clone().unwrap_or_default();
                    let namespace = metadata.namespace.clone().unwrap_or_default();
                    tracing::warn!(
                        namespace,
                        quota = name,
                        %error,
                        "cannot read a quota; its last readable state is kept"
                    );
                }
            },
            WatchEvent::Deleted(metadata) => {
                let namespace = metadata.namespace.as_deref().unwrap_or_default();
                self.quota_deleted(namespace, metadata.name.as_deref().unwrap_or_default());
            }
            WatchEvent::Listed(listing) => {
                self.retain_quotas(|namespace, name| listing.contains(namespace, name));
                return ListedQuotas::Complete;
            }
        }
        ListedQuotas::Unchanged
    }
}
