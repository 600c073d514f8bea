//! Numbers for the API resources that clusters serve. Filters compare these numbers instead of names.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::cluster::ApiEnablement;

/// A table that assigns a number to each API resource. An API resource is a pair of `groupVersion` and kind. Numbers
/// are never reused, because there are few kinds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    numbers: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u32>>,
    names: Vec<(Arc<str>, Arc<str>)>,
}

impl Catalogue {
    /// Returns the number of an API resource, or `None` if no cluster has ever served the resource.
    pub(crate) fn get(&self, group_version: &str, kind: &str) -> Option<u32> {
        self.numbers.get(group_version)?.get(kind).copied()
    }

    /// Returns the number of API resources in the table.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Reports whether `numbers` are the numbers of exactly the resources in `enablements`, in the same order.
    pub(crate) fn represents(&self, numbers: &[u32], enablements: &[ApiEnablement]) -> bool {
        let mut numbers = numbers.iter();
        for (group_version, kind) in pairs(enablements) {
            let name = numbers
                .next()
                .and_then(|&number| self.names.get(number as usize));
            if !name.is_some_and(|(gv, k)| &**gv == group_version && &**k == kind) {
                return false;
            }
        }
        numbers.next().is_none()
    }

    /// Returns the numbers of the resources in `enablements`, or `None` if a resource has no number yet.
    pub(crate) fn numbers(&self, enablements: &[ApiEnablement]) -> Option<Vec<u32>> {
        pairs(enablements)
            .map(|(group_version, kind)| self.get(group_version, kind))
            .collect()
    }

    /// Assigns numbers to the resources in `enablements` that have no number yet.
    pub(crate) fn extend(&mut self, enablements: &[ApiEnablement]) {
        for (group_version, kind) in pairs(enablements) {
            if self.get(group_version, kind).is_none() {
                let (group_version, kind): (Arc<str>, Arc<str>) =
                    (group_version.into(), kind.into());
                let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                self.names
                    .push((Arc::clone(&group_version), Arc::clone(&kind)));
                self.numbers
                    .entry(group_version)
                    .or_default()
                    .insert(kind, number);
            }
        }
    }
}

fn pairs(enablements: &[ApiEnablement]) -> impl Iterator<Item = (&str, &str)> {
    enablements.iter().flat_map(|enablement| {
        enablement
            .resources
            .iter()
            .map(|resource| (enablement.group_version.as_str(), resource.kind.as_str()))
    })
}
