//! The shortage of a FederatedResourceQuota that keeps a binding from being placed: the limit, the usage, and the largest
//! consumers.

use berth_api::federated_quota::{Amounts, QUOTA_EXCEEDED, usage};
use berth_api::placement::ReplicaSchedulingType;
use berth_api::{Binding, FederatedResourceQuota, condition};
use berth_apimachinery::quantity::Quantity;
use serde::{Deserialize, Serialize};

/// Maximum number of consumers in a report.
const MAX_CONSUMERS: usize = 3;

/// The shortage of one resource of a quota. Amounts are in the notation of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaShortage {
    /// The namespace of the quota.
    pub namespace: String,
    /// The name of the quota.
    pub quota: String,
    /// The resource.
    pub resource: String,
    /// The limit.
    pub limit: String,
    /// The present usage by all bindings of the namespace.
    pub used: String,
    /// The additional usage that the binding needs.
    pub needs: String,
    /// The other workloads that use most of the resource, the largest first.
    pub consumers: Vec<QuotaConsumer>,
}

/// The usage of a quota by a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaConsumer {
    /// The kind and name of the workload, such as `Deployment web`.
    pub workload: String,
    /// The usage.
    pub used: String,
}

impl QuotaShortage {
    /// Returns the shortage that the condition of a binding reports. Returns `None` if no quota refused the binding, or
    /// if the quota has room by now. `quotas` and `bindings` are those of the namespace.
    pub fn of(
        binding: &Binding,
        quotas: &[FederatedResourceQuota],
        bindings: &[Binding],
    ) -> Option<Self> {
        let scheduled = condition::scheduled(&binding.status.conditions)?;
        if !is_quota_refusal(binding) {
            return None;
        }
        let refusal = Refusal::parse(&scheduled.message)?;
        let mut quotas = quotas.iter();
        let quota = quotas.find(|quota| quota.metadata.name.as_deref() == Some(refusal.quota))?;
        let limit: Quantity = quota.spec.overall.get(refusal.resource)?.parse().ok()?;
        let namespace = binding.key.namespace.as_ref();
        let of_namespace = bindings
            .iter()
            .filter(|other| other.key.namespace.as_ref() == namespace);
        let mut total = Amounts::default();
        let mut consumers = Vec::new();
        for other in of_namespace {
            let amounts = usage(&other.spec);
            let amount = amounts.get(refusal.resource);
            total = total + amounts;
            if other.key != binding.key && amount > Quantity::ZERO {
                consumers.push((amount, other));
            }
        }
        let used = total.get(refusal.resource);
        let needs =
            needs_of_all_replicas(binding, refusal.resource).unwrap_or(refusal.requested - used);
        if used + needs <= limit {
            return None;
        }
        consumers.sort_by(|(left, a), (right, b)| right.cmp(left).then_with(|| a.key.cmp(&b.key)));
        let consumers = consumers.into_iter().take(MAX_CONSUMERS);
        Some(Self {
            namespace: refusal.namespace.to_owned(),
            quota: refusal.quota.to_owned(),
            resource: refusal.resource.to_owned(),
            limit: limit.to_string(),
            used: used.to_string(),
            needs: needs.to_string(),
            consumers: consumers
                .map(|(amount, other)| consumer(amount, other))
                .collect(),
        })
    }

    /// Returns the cause in one sentence.
    pub(crate) fn cause(&self) -> String {
        let amounts = [&*self.used, &self.limit, &self.needs];
        sentence(&self.namespace, &self.quota, &self.resource, amounts)
    }

    /// Returns the next action.
    pub(crate) fn fix(&self) -> String {
        let mut fix = raise(&self.namespace, &self.quota, &self.resource);
        let largest = self.consumers.iter();
        let largest: Vec<String> = largest
            .map(|consumer| format!("{} ({})", consumer.workload, consumer.used))
            .collect();
        if !largest.is_empty() {
            fix.push_str(", or free usage; the largest consumers are ");
            fix.push_str(&largest.join(", "));
        }
        fix
    }
}

/// Reports whether the condition of a binding names a quota that refused it.
pub fn is_quota_refusal(binding: &Binding) -> bool {
    condition::scheduled(&binding.status.conditions)
        .is_some_and(|scheduled| scheduled.status != "True" && scheduled.reason == QUOTA_EXCEEDED)
}

/// Returns the cause in one sentence, from the binding and the message of the refusal alone.
pub(crate) fn cause(binding: &Binding, message: &str) -> String {
    let Some(refusal) = Refusal::parse(message) else {
        return message.to_owned();
    };
    let Refusal {
        namespace,
        quota,
        resource,
        requested,
        limit,
    } = refusal;
    match needs_of_all_replicas(binding, resource) {
        Some(needs) => {
            let (used, needs) = ((requested - needs).to_string(), needs.to_string());
            sentence(namespace, quota, resource, [&used, limit, &needs])
        }
        None => format!(
            "quota {namespace}/{quota}: this would raise the usage of {resource} to {requested} of {limit}"
        ),
    }
}

fn sentence(
    namespace: &str,
    quota: &str,
    resource: &str,
    [used, limit, needs]: [&str; 3],
) -> String {
    format!("quota {namespace}/{quota}: {used} of {limit} {resource} used; this needs {needs} more")
}

/// Returns the next action after the refusal with this message.
pub(crate) fn fix(message: &str) -> String {
    match Refusal::parse(message) {
        Some(Refusal {
            namespace,
            quota,
            resource,
            ..
        }) => {
            let raise = raise(namespace, quota, resource);
            format!("{raise}, free usage in the namespace, or request less")
        }
        None => match cluster_queue(message) {
            Some(queue) => format!(
                "raise spec.quotas (kubectl edit clusterqueues.scheduling.berth {queue}), free usage of the queue or its cohort, or request less"
            ),
            None => "raise the quota, or request less".to_owned(),
        },
    }
}

/// Returns the ClusterQueue that a refusal names.
fn cluster_queue(message: &str) -> Option<&str> {
    let (queue, _) = message.strip_prefix("ClusterQueue ")?.split_once(": ")?;
    Some(queue)
}

fn raise(namespace: &str, quota: &str, resource: &str) -> String {
    format!(
        "raise spec.overall.{resource} (kubectl edit federatedresourcequota -n {namespace} {quota})"
    )
}

/// Returns the additional usage that a binding needs to divide all its replicas. Returns `None` if its clusters determine
/// the usage.
fn needs_of_all_replicas(binding: &Binding, resource: &str) -> Option<Quantity> {
    let placement = binding.spec.placement.as_ref()?;
    let scheduling = placement.replica_scheduling.as_ref()?;
    let divided = Some(ReplicaSchedulingType::Divided);
    if scheduling.replica_scheduling_type != divided || !binding.spec.components.is_empty() {
        return None;
    }
    let requirements = binding.spec.replica_requirements.as_ref()?;
    let replicas = i64::from(binding.spec.replicas);
    let wanted = Amounts::of(&requirements.resource_request).times(replicas);
    Some(wanted.get(resource) - usage(&binding.spec).get(resource))
}

fn consumer(amount: Quantity, binding: &Binding) -> QuotaConsumer {
    let resource = &binding.spec.resource;
    QuotaConsumer {
        workload: format!("{} {}", resource.kind, resource.name),
        used: amount.to_string(),
    }
}

/// The message of a refusal.
struct Refusal<'a> {
    namespace: &'a str,
    quota: &'a str,
    resource: &'a str,
    requested: Quantity,
    limit: &'a str,
}

impl<'a> Refusal<'a> {
    /// Parses the message of the scheduler or of an admission webhook. The latter has a prefix.
    fn parse(message: &'a str) -> Option<Self> {
        let (_, rest) = message.split_once("FederatedResourceQuota(")?;
        let (name, rest) = rest.split_once(") exceeded for resource ")?;
        let (namespace, quota) = name.split_once('/')?;
        let (resource, rest) = rest.split_once(": requested sum ")?;
        let (requested, rest) = rest.split_once(", limit ")?;
        Some(Self {
            namespace,
            quota,
            resource,
            requested: Quantity::parse(requested).ok()?,
            limit: rest.trim_end_matches('.'),
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::scheduling;

    const REFUSAL: &str =
        "FederatedResourceQuota(shop/team) exceeded for resource cpu: requested sum 42, limit 40.";

    fn binding(name: &str, placed: i32, changes: Value) -> Binding {
        let mut object = json!({
            "metadata": { "namespace": "shop", "name": format!("{name}-deployment") },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name },
                "replicas": 2,
                "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
                "clusters": [{ "name": "m1", "replicas": placed }],
            },
        });
        for (field, value) in changes.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        let object: berth_api::ResourceBinding = serde_json::from_value(object).unwrap();
        object.into()
    }

    fn refused(placed: i32, kind: &str, message: &str) -> Binding {
        let scheduling = json!({ "replicaScheduling": { "replicaSchedulingType": kind } });
        let mut refused = binding("web", placed, json!({ "placement": scheduling }));
        refused.status.conditions = serde_json::from_value(json!([{ "type": "Scheduled",
            "status": "False", "reason": "QuotaExceeded", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z" }]))
        .unwrap();
        refused
    }

    fn quota(cpu: &str) -> FederatedResourceQuota {
        serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "team" },
            "spec": { "overall": { "cpu": cpu } },
        }))
        .unwrap()
    }

    #[test]
    fn the_shortage_names_the_quota_and_its_largest_consumers() {
        let refused = refused(0, "Divided", REFUSAL);
        let others = [("a", 3), ("b", 20), ("c", 10), ("d", 7)]
            .map(|(name, placed)| binding(name, placed, json!({})));
        let all: Vec<Binding> = others.into_iter().chain([refused.clone()]).collect();
        let shortage = QuotaShortage::of(&refused, &[quota("40")], &all).unwrap();
        let found = scheduling::finding(&refused, Timestamp::MAX).unwrap();
        let explained = found.with_quota(&shortage);
        assert_eq!(
            explained.message,
            "quota shop/team: 40 of 40 cpu used; this needs 2 more"
        );
        assert_eq!(
            explained.fix.as_deref(),
            Some(
                "raise spec.overall.cpu (kubectl edit federatedresourcequota -n shop team), or free usage; the largest consumers are Deployment b (20), Deployment c (10), Deployment d (7)"
            )
        );
        assert_eq!(explained.quota, Some(shortage));
    }

    #[test]
    fn the_need_follows_from_the_replicas_or_from_the_refusal() {
        let webhook = format!("admission webhook \"h\" denied the request: {REFUSAL}");
        for (about, kind, message, placed, limit, expected) in [
            ("divided", "Divided", REFUSAL, 0, "40", Some("2")),
            ("grows", "Divided", REFUSAL, 1, "40", Some("1")),
            ("duplicated", "Duplicated", REFUSAL, 0, "40", Some("3")),
            ("by the webhook", "Divided", &webhook, 0, "40", Some("2")),
            ("room by now", "Divided", REFUSAL, 0, "41", None),
            ("another message", "Divided", "no", 0, "40", None),
        ] {
            let refused = refused(placed, kind, message);
            let all = [binding("a", 39, json!({})), refused.clone()];
            let shortage = QuotaShortage::of(&refused, &[quota(limit)], &all);
            let needs = shortage.map(|shortage| shortage.needs);
            assert_eq!(needs.as_deref(), expected, "{about}");
        }
        let no_quota = QuotaShortage::of(&refused(0, "Divided", REFUSAL), &[], &[]);
        assert_eq!(no_quota, None);
    }

    #[test]
    fn lists_show_the_cause_from_the_message_alone() {
        for (kind, message, expected) in [
            (
                "Divided",
                REFUSAL,
                "quota shop/team: 40 of 40 cpu used; this needs 2 more",
            ),
            (
                "Duplicated",
                REFUSAL,
                "quota shop/team: this would raise the usage of cpu to 42 of 40",
            ),
            ("Divided", "no", "no"),
        ] {
            let refused = refused(0, kind, message);
            let found = scheduling::finding(&refused, Timestamp::MAX).unwrap();
            assert_eq!(found.message, expected);
        }
    }

    #[test]
    fn the_next_action_names_the_quota_in_the_message() {
        assert_eq!(
            fix(REFUSAL),
            "raise spec.overall.cpu (kubectl edit federatedresourcequota -n shop team), free usage in the namespace, or request less"
        );
        assert_eq!(fix("no"), "raise the quota, or request less");
    }
}
