//! Limits by ResourceQuotas (feature gate ResourceQuotaEstimate).
//!
//! A quota limits cpu, memory and extended resources. Of its scopes, only `PriorityClass` can match, because a request
//! contains neither the quality of service nor the deadline of its pods.

use std::collections::{BTreeMap, HashMap};

use berth_api::label_selector::LabelRequirement;
use berth_api::node_resources::{in_units, is_extended};
use berth_api::pod_requests::amounts;
use k8s_openapi::api::core::v1::{ResourceQuota, ScopedResourceSelectorRequirement};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::pod_template::{AssumedWorkload, Component, PodTemplate};

const REQUESTS: &str = "requests.";
const PRIORITY_CLASS: &str = "PriorityClass";

/// The quotas of a cluster, by namespace and name.
#[derive(Debug, Default)]
pub struct Quotas(HashMap<String, BTreeMap<String, Quota>>);

/// A quota with its free amounts.
#[derive(Debug)]
struct Quota {
    /// The scopes. The quota applies if one of them matches, or if there are none.
    scopes: Vec<Scope>,
    /// The free amounts by resource, in the units of the resources. An exceeded quota has negative amounts.
    free: BTreeMap<String, i64>,
}

#[derive(Debug)]
enum Scope {
    /// The pods have a priority class.
    HasPriorityClass,
    /// The priority class of the pods satisfies the requirement.
    PriorityClass(LabelRequirement),
    /// A scope that matches no request.
    Unmatched,
}

impl Quotas {
    /// Adds or updates a quota.
    pub fn apply(&mut self, quota: &ResourceQuota) {
        let (namespace, name) = names(&quota.metadata);
        let quotas = self.0.entry(namespace.to_owned()).or_default();
        quotas.insert(name.to_owned(), Quota::new(quota));
    }

    /// Removes a quota.
    pub fn remove(&mut self, metadata: &ObjectMeta) {
        let (namespace, name) = names(metadata);
        if let Some(quotas) = self.0.get_mut(namespace) {
            quotas.remove(name);
        }
        self.0.retain(|_, quotas| !quotas.is_empty());
    }

    /// Removes the quotas that do not satisfy the condition about namespace and name.
    pub fn retain(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        for (namespace, quotas) in &mut self.0 {
            quotas.retain(|name, _| is_kept(namespace, name));
        }
        self.0.retain(|_, quotas| !quotas.is_empty());
    }

    /// Returns the number of pods of a template that the quotas of a namespace allow. The empty namespace stands for
    /// all namespaces. `None` stands for no limit.
    pub(crate) fn max_replicas(
        &self,
        namespace: &str,
        template: &PodTemplate,
        assumed: &[AssumedWorkload],
    ) -> Option<i32> {
        let all = self.0.iter();
        let quotas = all.filter(|(of, _)| namespace.is_empty() || *of == namespace);
        let quotas = quotas.flat_map(|(_, quotas)| quotas.values());
        let applying = quotas.filter(|quota| quota.applies_to(&template.priority_class));
        let limits =
            applying.filter_map(|quota| quota.limit(namespace, assumed, &template.requests));
        limits.min()
    }

    /// Returns the number of sets of components that the quotas of a namespace allow. `None` stands for no limit.
    pub(crate) fn max_sets(
        &self,
        namespace: &str,
        components: &[Component],
        assumed: &[AssumedWorkload],
    ) -> Option<i32> {
        let quotas = self.0.get(namespace)?.values();
        let limits = quotas.filter_map(|quota| {
            let counted: Vec<_> = components.iter().filter(|it| quota.counts(it)).collect();
            if counted.is_empty() {
                return None;
            }
            quota.limit(namespace, assumed, &total(counted.into_iter()))
        });
        limits.min()
    }
}

impl Quota {
    fn new(quota: &ResourceQuota) -> Self {
        let spec = quota.spec.as_ref();
        let scopes = spec.and_then(|spec| spec.scopes.as_deref());
        let of_scopes = scopes.unwrap_or_default().iter().map(|scope| {
            if scope == PRIORITY_CLASS {
                Scope::HasPriorityClass
            } else {
                Scope::Unmatched
            }
        });
        let selector = spec.and_then(|spec| spec.scope_selector.as_ref());
        let selectors = selector.and_then(|selector| selector.match_expressions.as_deref());
        let of_selectors = selectors.unwrap_or_default().iter().map(Scope::new);
        Self {
            scopes: of_scopes.chain(of_selectors).collect(),
            free: free(quota),
        }
    }

    /// Reports whether the quota applies to pods with a priority class. The class is empty if the pods have none.
    fn applies_to(&self, priority_class: &str) -> bool {
        self.scopes.is_empty()
            || self
                .scopes
                .iter()
                .any(|scope| scope.matches(priority_class))
    }

    /// Reports whether the quota counts the pods of a component.
    fn counts(&self, component: &Component) -> bool {
        let template = component.template.as_ref();
        self.scopes.is_empty() || template.is_some_and(|it| self.applies_to(&it.priority_class))
    }

    /// Returns the number of times that the free amounts contain the requests, after the assumed workloads of a
    /// namespace. No request fits if these workloads exceed the quota. `None` stands for no limit.
    fn limit(
        &self,
        namespace: &str,
        assumed: &[AssumedWorkload],
        requests: &BTreeMap<String, i64>,
    ) -> Option<i32> {
        if self.free.is_empty() {
            return None;
        }
        let assumed = assumed.iter().filter(|it| it.namespace == namespace);
        let components = assumed.flat_map(|workload| &workload.components);
        let used = total(components.filter(|it| it.template.is_some() && self.counts(it)));
        let mut free = self.free.clone();
        for (resource, amount) in used {
            if let Some(left) = free.get_mut(&resource) {
                *left = left.saturating_sub(amount);
                if *left < 0 {
                    return Some(0);
                }
            }
        }
        divided(&free, requests)
    }
}

impl Scope {
    fn new(selector: &ScopedResourceSelectorRequirement) -> Self {
        if selector.scope_name != PRIORITY_CLASS {
            return Self::Unmatched;
        }
        let values = selector.values.as_deref().unwrap_or_default();
        match selector.operator.as_str() {
            "Exists" => Self::HasPriorityClass,
            operator @ ("In" | "NotIn" | "DoesNotExist") => {
                let requirement = LabelRequirement::new(PRIORITY_CLASS, operator, values);
                requirement.map_or(Self::Unmatched, Self::PriorityClass)
            }
            _ => Self::Unmatched,
        }
    }

    fn matches(&self, priority_class: &str) -> bool {
        let class = Some(priority_class).filter(|class| !class.is_empty());
        match self {
            Self::HasPriorityClass => class.is_some(),
            Self::PriorityClass(requirement) => requirement.relation().matches(class),
            Self::Unmatched => false,
        }
    }
}

/// Returns the free amounts of the resources that a quota limits and that requests contain.
fn free(quota: &ResourceQuota) -> BTreeMap<String, i64> {
    let status = quota.status.as_ref();
    let hard = amounts(status.and_then(|status| status.hard.as_ref()));
    let used = amounts(status.and_then(|status| status.used.as_ref()));
    let (with_prefix, plain): (Vec<_>, Vec<_>) = hard
        .into_iter()
        .partition(|(name, _)| name.starts_with(REQUESTS));
    let mut free = BTreeMap::new();
    // An amount with the prefix replaces the amount without it.
    for (name, hard) in plain.into_iter().chain(with_prefix) {
        let resource = name.strip_prefix(REQUESTS).unwrap_or(&name);
        if is_limited(resource)
            && let Some(used) = used.get(&name)
        {
            free.insert(resource.to_owned(), in_units(resource, hard - *used));
        }
    }
    free
}

fn is_limited(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || is_extended(resource)
}

/// Returns the requests of all pods of components, for the resources that quotas limit.
fn total<'a>(components: impl Iterator<Item = &'a Component>) -> BTreeMap<String, i64> {
    let mut total = BTreeMap::<String, i64>::new();
    for component in components {
        let requests = component.template.iter().flat_map(|it| &it.requests);
        for (resource, amount) in requests.filter(|(resource, _)| is_limited(resource)) {
            let sum = total.entry(resource.clone()).or_default();
            *sum = sum.saturating_add(amount.saturating_mul(component.replicas));
        }
    }
    total
}

/// Returns the number of times that the free amounts contain the requests. `None` stands for no limit.
fn divided(free: &BTreeMap<String, i64>, requests: &BTreeMap<String, i64>) -> Option<i32> {
    let positive = requests.iter().filter(|(_, amount)| **amount > 0);
    let limits =
        positive.filter_map(|(resource, amount)| Some(free.get(resource)?.max(&0) / amount));
    limits.min().and_then(|limit| i32::try_from(limit).ok())
}

fn names(metadata: &ObjectMeta) -> (&str, &str) {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    (namespace, metadata.name.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests;
