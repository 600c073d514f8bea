//! Selectors of policies that name an API which the control plane does not serve: each is reported once, for as long as
//! it is not served.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::claim::PolicyKey;
use super::policy::{PolicyRecord, Standing};
use crate::nearest::kind_hint;
use crate::resource_type::ResourceType;

/// The delay before a check: a definition that is applied together with a policy is discovered meanwhile.
const GRACE: Duration = Duration::from_secs(2);

/// `apiVersion` and kind.
type ApiKind = (String, String);

/// The APIs that are served, and the selectors that have been reported.
#[derive(Debug, Default)]
pub(super) struct UnservedApis {
    served: BTreeSet<ApiKind>,
    reported: HashMap<PolicyKey, BTreeSet<ApiKind>>,
    due: Option<Instant>,
}

impl UnservedApis {
    /// Replaces the APIs that are served.
    pub(super) fn serve(&mut self, types: &[ResourceType]) {
        let kinds = types.iter().map(|resource| {
            let api = &resource.api;
            (api.api_version.clone(), api.kind.clone())
        });
        self.served = kinds.collect();
        self.due.get_or_insert_with(|| Instant::now() + GRACE);
    }

    /// Schedules a check where a policy came or changed that names an unserved API.
    pub(super) fn policy_changed(&mut self, policy: &PolicyRecord) {
        let is_discovered = !self.served.is_empty();
        if is_discovered && policy.kinds.iter().any(|kind| !self.served.contains(kind)) {
            self.due.get_or_insert_with(|| Instant::now() + GRACE);
        }
    }

    /// Forgets a policy that was deleted.
    pub(super) fn forget(&mut self, policy: &PolicyKey) {
        self.reported.remove(policy);
    }

    /// When the next check is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the selectors that name an unserved API and have not been reported since it is unserved.
    pub(super) fn check<'a>(
        &mut self,
        policies: impl Iterator<Item = &'a Arc<PolicyRecord>>,
    ) -> Vec<(&'a PolicyRecord, String)> {
        self.due = None;
        let mut news = Vec::new();
        for policy in policies.filter(|policy| !matches!(policy.standing, Standing::Leaving)) {
            let mut unserved = BTreeSet::new();
            for (index, kind) in policy.kinds.iter().enumerate() {
                if self.served.contains(kind) || !unserved.insert(kind.clone()) {
                    continue;
                }
                let reported = self.reported.get(&policy.key);
                if !reported.is_some_and(|kinds| kinds.contains(kind)) {
                    news.push((&**policy, self.fault(index, kind)));
                }
            }
            if unserved.is_empty() {
                self.reported.remove(&policy.key);
            } else {
                self.reported.insert(policy.key.clone(), unserved);
            }
        }
        news
    }

    fn fault(&self, index: usize, (api_version, kind): &ApiKind) -> String {
        let served = self.served.iter();
        let hint = kind_hint(
            api_version,
            kind,
            served.map(|(version, kind)| (version.as_str(), kind.as_str())),
        );
        format!(
            "spec.resourceSelectors[{index}] matches nothing: the control plane does not serve {kind} in \
             {api_version}{}",
            hint.map_or_else(String::new, |hint| format!("; {hint}"))
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::claim::PolicyKind;
    use super::*;

    fn policy(kinds: &[&str]) -> Arc<PolicyRecord> {
        let selectors: Vec<_> = kinds
            .iter()
            .map(|kind| json!({ "apiVersion": "apps/v1", "kind": kind }))
            .collect();
        let object = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "default" },
            "spec": { "resourceSelectors": selectors },
        }));
        Arc::new(PolicyRecord::from_object(
            PolicyKind::Namespaced,
            &object.unwrap(),
        ))
    }

    fn faults(apis: &mut UnservedApis, policy: &Arc<PolicyRecord>) -> Vec<String> {
        let news = apis.check(std::iter::once(policy));
        news.into_iter().map(|(_, fault)| fault).collect()
    }

    #[tokio::test]
    async fn each_unserved_api_is_reported_once_until_it_is_served() {
        let mut apis = UnservedApis::default();
        let typo = policy(&["Deployment", "Deploymnt"]);
        // What is served is not known yet.
        apis.policy_changed(&typo);
        assert_eq!(apis.due(), None);
        apis.serve(&[(*ResourceType::deployments()).clone()]);
        assert!(apis.due().is_some());
        let expected = "spec.resourceSelectors[1] matches nothing: the control plane does not serve Deploymnt in apps/v1; \
             did you mean Deployment?";
        assert_eq!(faults(&mut apis, &typo), [expected]);
        assert_eq!(apis.due(), None);
        apis.policy_changed(&typo);
        assert!(faults(&mut apis, &typo).is_empty(), "reported already");
        assert_eq!(
            faults(&mut apis, &policy(&["Widget", "Deploymnt"])).len(),
            1
        );
        // Served, and not served again.
        assert!(faults(&mut apis, &policy(&["Deployment"])).is_empty());
        assert_eq!(faults(&mut apis, &typo), [expected]);
        apis.forget(&typo.key);
        assert_eq!(faults(&mut apis, &typo), [expected]);
    }
}
