//! A check of the APIs that policies select. An API that the control plane does not serve is reported once for each
//! policy. It is reported again if it was served, or if the policy did not select it, in the meantime.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::claim::PolicyKey;
use super::policy::{PolicyRecord, PolicyState};
use crate::did_you_mean::kind_hint;
use crate::resource_selector::is_same_kind;
use crate::resource_type::ResourceType;

/// The delay before a check. In this time, the detector discovers a CustomResourceDefinition that is applied together
/// with the policy.
const GRACE: Duration = Duration::from_secs(2);

/// The API version and the kind of a resource.
type ApiKind = (String, String);

/// The served APIs and the reported selectors.
#[derive(Debug, Default)]
pub(super) struct UnservedApis {
    served: BTreeSet<ApiKind>,
    reported: HashMap<PolicyKey, BTreeSet<ApiKind>>,
    due: Option<Instant>,
}

impl UnservedApis {
    /// Replaces the served APIs and schedules a check.
    pub(super) fn serve(&mut self, types: &[ResourceType]) {
        let kinds = types.iter().map(|resource| {
            let api = &resource.api;
            (api.api_version.clone(), api.kind.clone())
        });
        self.served = kinds.collect();
        self.due.get_or_insert_with(|| Instant::now() + GRACE);
    }

    /// Schedules a check if a new or changed policy selects an unserved API.
    pub(super) fn policy_changed(&mut self, policy: &PolicyRecord) {
        let is_discovered = !self.served.is_empty();
        if is_discovered && policy.kinds.iter().any(|kind| !self.serves(kind)) {
            self.due.get_or_insert_with(|| Instant::now() + GRACE);
        }
    }

    /// Removes the reports about a deleted policy.
    pub(super) fn forget(&mut self, policy: &PolicyKey) {
        self.reported.remove(policy);
    }

    /// Returns the time of the next check.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the selectors for unserved APIs that were not reported yet: the policy of each selector, and a message.
    pub(super) fn check<'a>(
        &mut self,
        policies: impl Iterator<Item = &'a Arc<PolicyRecord>>,
    ) -> Vec<(&'a PolicyRecord, String)> {
        self.due = None;
        let mut unreported = Vec::new();
        for policy in policies.filter(|policy| !matches!(policy.state, PolicyState::Terminating)) {
            let mut unserved = BTreeSet::new();
            for (index, kind) in policy.kinds.iter().enumerate() {
                if self.serves(kind) || !unserved.insert(kind.clone()) {
                    continue;
                }
                let reported = self.reported.get(&policy.key);
                if !reported.is_some_and(|kinds| kinds.contains(kind)) {
                    unreported.push((&**policy, self.message(index, kind)));
                }
            }
            if unserved.is_empty() {
                self.reported.remove(&policy.key);
            } else {
                self.reported.insert(policy.key.clone(), unserved);
            }
        }
        unreported
    }

    /// Reports whether the kind is served in this version or in another version of its group. A selector matches the
    /// objects of all versions.
    fn serves(&self, (api_version, kind): &ApiKind) -> bool {
        self.served.contains(&(api_version.clone(), kind.clone()))
            || self
                .served
                .iter()
                .any(|(served, name)| is_same_kind((served, name), (api_version, kind)))
    }

    fn message(&self, index: usize, (api_version, kind): &ApiKind) -> String {
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

    fn messages(apis: &mut UnservedApis, policy: &Arc<PolicyRecord>) -> Vec<String> {
        let unreported = apis.check(std::iter::once(policy));
        unreported.into_iter().map(|(_, message)| message).collect()
    }

    #[tokio::test]
    async fn another_version_of_a_served_kind_is_served() {
        let mut apis = UnservedApis::default();
        apis.serve(&[(*ResourceType::deployments()).clone()]);
        let object = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "default" },
            "spec": { "resourceSelectors": [{ "apiVersion": "apps/v1beta1", "kind": "Deployment" },
                { "apiVersion": "extensions/v1beta1", "kind": "Deployment" }] },
        }));
        let policy = PolicyRecord::from_object(PolicyKind::Namespaced, &object.unwrap());
        let found = messages(&mut apis, &Arc::new(policy));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("spec.resourceSelectors[1] matches nothing"),
            "{found:?}"
        );
    }

    #[tokio::test]
    async fn each_unserved_api_is_reported_once_while_the_policy_selects_it() {
        let mut apis = UnservedApis::default();
        let typo = policy(&["Deployment", "Deploymnt"]);
        // The served APIs are not known yet.
        apis.policy_changed(&typo);
        assert_eq!(apis.due(), None);
        apis.serve(&[(*ResourceType::deployments()).clone()]);
        assert!(apis.due().is_some());
        let expected = "spec.resourceSelectors[1] matches nothing: the control plane does not serve Deploymnt in apps/v1; \
             did you mean Deployment?";
        assert_eq!(messages(&mut apis, &typo), [expected]);
        assert_eq!(apis.due(), None);
        apis.policy_changed(&typo);
        assert!(messages(&mut apis, &typo).is_empty(), "reported already");
        assert_eq!(
            messages(&mut apis, &policy(&["Widget", "Deploymnt"])).len(),
            1
        );
        // The policy no longer selects the API, and then selects it again.
        assert!(messages(&mut apis, &policy(&["Deployment"])).is_empty());
        assert_eq!(messages(&mut apis, &typo), [expected]);
        apis.forget(&typo.key);
        assert_eq!(messages(&mut apis, &typo), [expected]);
    }
}
