//! A number for each API resource that any cluster serves, so that filters compare numbers instead of names.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::cluster::ApiEnablement;

/// Assigns a number to each pair of `groupVersion` and kind. Numbers are never reused, because kinds are few.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    numbers: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u32>>,
    names: Vec<(Arc<str>, Arc<str>)>,
}

impl Catalogue {
    /// Returns the number of a resource that some cluster has served.
    pub(crate) fn get(&self, group_version: &str, kind: &str) -> Option<u32> {
        self.numbers.get(group_version)?.get(kind).copied()
    }

    /// Returns the count of numbered resources.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Reports whether the numbers represent exactly these resources in this order.
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

    /// Returns the numbers of these resources, or `None` if one is new.
    pub(crate) fn numbers(&self, enablements: &[ApiEnablement]) -> Option<Vec<u32>> {
        pairs(enablements)
            .map(|(group_version, kind)| self.get(group_version, kind))
            .collect()
    }

    /// Assigns numbers to new resources.
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
