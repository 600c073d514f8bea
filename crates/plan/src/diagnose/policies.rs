//! The policies of a control plane, as seen from one template: which policy holds it, which others select it and why they
//! do not hold it, and which nearly select it. All functions are pure.

use std::cmp::Ordering;

use berth_api::binding::ObjectReference;
use berth_api::names::is_reserved_namespace;
use berth_controllers::detector::claim::{PolicyKey, PolicyKind};
use berth_controllers::detector::index::Index;
use berth_controllers::detector::policy::{Policy, PolicyRecord, PolicyState};
use berth_controllers::detector::template::Template;
use berth_controllers::did_you_mean::nearest;
use berth_controllers::resource_selector::{Objects, Selector, is_same_kind};
use berth_diagnosis::{NearPolicy, PolicyEvidence};
use std::sync::Arc;

use crate::explain::NameQuery;

/// Maximum number of policies in an answer.
const SHOWN: usize = 3;

/// Returns the evidence of these policies about a template.
pub(super) fn evidence(template: &Template, policies: Vec<PolicyRecord>) -> PolicyEvidence {
    let policies: Vec<Arc<PolicyRecord>> = policies.into_iter().map(Arc::new).collect();
    let holder = template.claim.as_ref().map(|claim| &claim.policy);
    let selecting: Vec<&Arc<PolicyRecord>> = policies
        .iter()
        .filter(|record| {
            record
                .ready()
                .is_some_and(|policy| selects(policy, template))
        })
        .collect();
    let best = best(&policies, template);
    let holds = holder.cloned().or(best);
    let holding = holds.as_ref().and_then(|key| {
        let mut ready = policies.iter().filter_map(|record| record.ready());
        ready.find(|policy| policy.key == *key)
    });
    let others = selecting
        .iter()
        .filter(|record| Some(&record.key) != holds.as_ref());
    let others = others.filter_map(|record| {
        let loses = why_it_loses(record.ready()?, holding?, template);
        Some(format!(
            "{} selects it, too, and {loses}",
            title(&record.key)
        ))
    });
    let mut near: Vec<(u8, NearPolicy)> = policies
        .iter()
        .filter(|record| {
            record
                .ready()
                .is_none_or(|policy| !selects(policy, template))
        })
        .filter_map(|record| near_policy(record, template))
        .collect();
    near.sort_by(|(a, one), (b, other)| (a, &one.policy).cmp(&(b, &other.policy)));
    let reserved = is_reserved_namespace(&template.key.namespace).then(|| NearPolicy {
        policy: "the detector".to_owned(),
        difference: format!(
            "it never propagates objects of the namespace {}",
            template.key.namespace
        ),
        fix: "use a namespace that is not reserved for the system".to_owned(),
    });
    let near = reserved
        .into_iter()
        .chain(near.into_iter().map(|(_, near)| near));
    PolicyEvidence {
        holds: holds.as_ref().map(title),
        others: others.take(SHOWN).collect(),
        near: near.take(SHOWN).collect(),
    }
}

/// Returns the object of a query, if a policy names it, and the kind and name of the policy. The namespace is unknown if a
/// ClusterPropagationPolicy names the object in all namespaces.
pub(super) fn naming(
    query: &NameQuery,
    policies: &[PolicyRecord],
) -> Option<(ObjectReference, String)> {
    let mut ready = policies.iter().filter_map(|record| record.ready());
    ready.find_map(|policy| {
        let selector = policy.selectors.iter().find(|selector| {
            let is_named =
                matches!(&selector.objects, Objects::Named(name) if name == query.name());
            let is_in = |namespace: &str| match policy.key.kind {
                PolicyKind::Namespaced => policy.key.namespace == namespace,
                PolicyKind::Cluster => {
                    selector.namespace.is_empty() || selector.namespace == namespace
                }
            };
            let of_kind = query.names_kind(&selector.kind) && is_in(query.namespace_of_kind());
            is_named && (of_kind || !query.has_kind() && is_in(query.namespace_before_slash()))
        })?;
        let namespace = match policy.key.kind {
            PolicyKind::Namespaced => &policy.key.namespace,
            PolicyKind::Cluster => &selector.namespace,
        };
        let object = ObjectReference {
            api_version: selector.api_version.clone(),
            kind: selector.kind.clone(),
            namespace: Some(namespace.clone()),
            name: query.name().to_owned(),
            ..ObjectReference::default()
        };
        Some((object, title(&policy.key)))
    })
}

/// Returns the policy that must claim an unclaimed template.
fn best(policies: &[Arc<PolicyRecord>], template: &Template) -> Option<PolicyKey> {
    if is_reserved_namespace(&template.key.namespace) || template.is_reserved() {
        return None;
    }
    let mut index = Index::default();
    for record in policies {
        index.put_policy(Arc::clone(record));
    }
    Some(index.best_policy(template)?.key.clone())
}

/// Reports whether a policy selects a template. A PropagationPolicy selects only in its own namespace.
fn selects(policy: &Policy, template: &Template) -> bool {
    let in_namespace = match policy.key.kind {
        PolicyKind::Namespaced => policy.key.namespace == template.key.namespace,
        PolicyKind::Cluster => true,
    };
    in_namespace && policy.selects(template)
}

fn why_it_loses(policy: &Policy, holder: &Policy, template: &Template) -> String {
    if policy.key.kind != holder.key.kind && holder.key.kind == PolicyKind::Namespaced {
        return "loses, because a PropagationPolicy precedes every ClusterPropagationPolicy"
            .to_owned();
    }
    let (own, other) = (policy.priority(), holder.priority());
    match own.cmp(&other) {
        Ordering::Less => return format!("loses with the priority {own} against {other}"),
        Ordering::Greater => {
            return "does not take over a template that another policy holds (preemption: Never)"
                .to_owned();
        }
        Ordering::Equal => {}
    }
    match policy.precision(template).cmp(&holder.precision(template)) {
        Ordering::Less => "loses, because its selector is less precise".to_owned(),
        _ => "loses, because the other policy was first or precedes it in the alphabet".to_owned(),
    }
}

/// Returns the difference for which a policy does not select a template, with its rank, if the difference is small.
fn near_policy(record: &PolicyRecord, template: &Template) -> Option<(u8, NearPolicy)> {
    let near = |difference: String, fix: String| NearPolicy {
        policy: title(&record.key),
        difference,
        fix,
    };
    match &record.state {
        PolicyState::Ready(policy) => {
            let selectors = policy.selectors.iter();
            let found = selectors.filter_map(|selector| difference(policy, selector, template));
            let (rank, difference, fix) = found.min_by_key(|(rank, ..)| *rank)?;
            Some((rank, near(difference, fix)))
        }
        PolicyState::Invalid(reason) if names_kind(record, template) => {
            let fix = format!("correct {}", title(&record.key));
            Some((2, near(format!("it is invalid: {reason}"), fix)))
        }
        PolicyState::Terminating if names_kind(record, template) => {
            let fix = format!(
                "wait until {} is gone, and create it again",
                title(&record.key)
            );
            Some((3, near("it is being deleted".to_owned(), fix)))
        }
        _ => None,
    }
}

fn names_kind(record: &PolicyRecord, template: &Template) -> bool {
    let own = (template.key.api_version(), template.key.kind());
    record
        .kinds
        .iter()
        .any(|(api_version, kind)| is_same_kind((api_version, kind), own))
}

/// Returns the rank, the difference and the mend of a selector that does not match a template but nearly does.
fn difference(
    policy: &Policy,
    selector: &Selector,
    template: &Template,
) -> Option<(u8, String, String)> {
    let key = &template.key;
    let title = title(&policy.key);
    let (namespace, name) = (&*key.namespace, &*key.name);
    let is_kind = is_same_kind(
        (&selector.api_version, &selector.kind),
        (key.api_version(), key.kind()),
    );
    let is_named = matches!(&selector.objects, Objects::Named(wanted) if wanted == name);
    if !is_kind {
        let is_near = selector.kind.eq_ignore_ascii_case(key.kind())
            || nearest(&selector.kind, [key.kind()]).is_some();
        return (is_named && is_near).then(|| {
            let (version, kind) = (&selector.api_version, &selector.kind);
            (
                1,
                format!("it selects {kind} in {version}"),
                format!(
                    "set apiVersion: {} and kind: {} in the resourceSelectors of {title}",
                    key.api_version(),
                    key.kind()
                ),
            )
        });
    }
    let in_namespace = selector.namespace.is_empty() || selector.namespace == namespace;
    let of_policy = policy.key.kind == PolicyKind::Cluster || policy.key.namespace == namespace;
    match &selector.objects {
        Objects::Named(wanted) if wanted == name && !of_policy => Some((
            3,
            format!(
                "a PropagationPolicy selects only in its own namespace {}",
                policy.key.namespace
            ),
            format!(
                "create the policy in the namespace {namespace}, or use a ClusterPropagationPolicy"
            ),
        )),
        Objects::Named(wanted) if wanted == name && !in_namespace => Some((
            1,
            format!("it selects only in the namespace {}", selector.namespace),
            format!("set namespace: {namespace} in the resourceSelectors of {title}"),
        )),
        Objects::Named(wanted)
            if in_namespace && of_policy && nearest(wanted, [name]).is_some() =>
        {
            Some((
                0,
                format!("it names \"{wanted}\""),
                format!("set name: {name} in the resourceSelectors of {title}"),
            ))
        }
        Objects::Labelled(_) if in_namespace && of_policy => {
            let labels: Vec<String> = template
                .labels
                .iter()
                .filter(|(key, _)| !key.contains("karmada.io/"))
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            let labels = match &labels[..] {
                [] => "it has no labels".to_owned(),
                labels => format!("its labels are {}", labels.join(", ")),
            };
            Some((
                1,
                format!("it selects {} by labels, and {labels}", selector.kind),
                format!(
                    "set the labels that {title} selects, or name the object in its resourceSelectors"
                ),
            ))
        }
        _ => None,
    }
}

/// Returns the kind and the name of a policy.
fn title(key: &PolicyKey) -> String {
    format!("{} {}", key.kind.name(), key.full_name())
}

#[cfg(test)]
mod tests {
    use berth_controllers::resource_type::ResourceType;
    use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
    use serde_json::{Value, json};

    use super::*;

    fn template(namespace: &str, name: &str, labels: Value) -> Template {
        let resource = Arc::new(ResourceType {
            api: ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment")),
            namespaced: true,
        });
        let object = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "namespace": namespace, "name": name, "labels": labels }, "spec": {} });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        Template::from_object(&resource, object)
    }

    fn policy(kind: PolicyKind, name: &str, priority: i32, selector: Value) -> PolicyRecord {
        let guarded = kind.guarded();
        let object = json!({
            "metadata": { "name": name, "namespace": (kind == PolicyKind::Namespaced).then_some("shop"),
                "labels": { (guarded.permanent_id_label().unwrap()): "id" },
                "finalizers": [guarded.policy_finalizer()] },
            "spec": { "priority": priority, "preemption": "Never", "conflictResolution": "Abort",
                "schedulerName": "default-scheduler", "activationPreference": "",
                "resourceSelectors": [selector],
                "placement": { "clusterTolerations": [], "replicaScheduling": { "replicaSchedulingType": "Duplicated" } } },
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let mut record = PolicyRecord::from_object(kind, &object);
        if let PolicyState::Incomplete(patch) = &record.state {
            let mut completed = serde_json::to_value(&object).unwrap();
            merge(&mut completed, patch);
            record = PolicyRecord::from_object(kind, &serde_json::from_value(completed).unwrap());
        }
        assert!(record.ready().is_some(), "{:?}", record.state);
        record
    }

    fn merge(target: &mut Value, patch: &Value) {
        match (target, patch) {
            (Value::Object(target), Value::Object(patch)) => {
                for (key, value) in patch {
                    merge(target.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (target, patch) => *target = patch.clone(),
        }
    }

    #[test]
    fn a_query_finds_the_policy_that_names_its_object() {
        let named = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop" });
        let policies = [
            policy(PolicyKind::Namespaced, "own", 0, named.clone()),
            policy(PolicyKind::Cluster, "all", 0, named),
        ];
        for (text, kind, namespace, expected) in [
            (
                "web",
                None,
                Some("shop"),
                Some("PropagationPolicy shop/own"),
            ),
            ("shop/web", None, None, Some("PropagationPolicy shop/own")),
            (
                "deployment/web",
                None,
                Some("shop"),
                Some("PropagationPolicy shop/own"),
            ),
            (
                "web",
                Some("deploy"),
                Some("shop"),
                Some("PropagationPolicy shop/own"),
            ),
            ("web", Some("job"), Some("shop"), None),
            ("web", None, None, None),
            ("other", None, Some("shop"), None),
        ] {
            let kind = kind.map(str::to_owned);
            let namespace = namespace.map(str::to_owned);
            let query = NameQuery::new(text, kind, namespace, "default");
            let found = naming(&query, &policies);
            let policy = found.as_ref().map(|(_, policy)| &**policy);
            assert_eq!(policy, expected, "{text}");
            if let Some((object, _)) = found {
                assert_eq!(
                    (&*object.kind, object.namespace.as_deref()),
                    ("Deployment", Some("shop"))
                );
            }
        }
        let cluster = &policies[1..];
        let query = NameQuery::new("web", None, Some("shop".to_owned()), "default");
        let found = naming(&query, cluster).map(|(_, policy)| policy);
        assert_eq!(found.as_deref(), Some("ClusterPropagationPolicy all"));
    }

    #[test]
    fn a_policy_that_nearly_selects_a_template_is_named_with_the_mend() {
        let deployment =
            |name: &str| json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": name });
        let labelled = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "labelSelector": { "matchLabels": { "app": "web" } } });
        let set = json!({ "apiVersion": "apps/v1", "kind": "DeploymentSet", "name": "lonely" });
        let elsewhere = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "lonely", "namespace": "other" });
        for (about, namespace, kind, selector, expected) in [
            (
                "typo",
                "shop",
                PolicyKind::Namespaced,
                deployment("lonly"),
                "it names \"lonly\"",
            ),
            (
                "unrelated",
                "shop",
                PolicyKind::Namespaced,
                deployment("database"),
                "",
            ),
            (
                "namespace of the policy",
                "other",
                PolicyKind::Namespaced,
                deployment("lonely"),
                "a PropagationPolicy selects only in its own namespace shop",
            ),
            (
                "namespace of the selector",
                "shop",
                PolicyKind::Cluster,
                elsewhere,
                "it selects only in the namespace other",
            ),
            (
                "labels",
                "shop",
                PolicyKind::Namespaced,
                labelled,
                "it selects Deployment by labels, and its labels are app=wbe",
            ),
            (
                "kind",
                "shop",
                PolicyKind::Namespaced,
                set,
                "it selects DeploymentSet in apps/v1",
            ),
        ] {
            let template = template(namespace, "lonely", json!({ "app": "wbe" }));
            let found = evidence(&template, vec![policy(kind, "p", 0, selector)]);
            let difference = found.near.first().map_or("", |near| &near.difference);
            assert_eq!(difference, expected, "{about}");
            assert_eq!(found.holds, None, "{about}");
        }
    }

    #[test]
    fn a_policy_that_loses_is_named_with_the_reason() {
        let all = || json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
        let named = || json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        for (one, holds, other) in [
            (
                policy(PolicyKind::Cluster, "c", 9, all()),
                "PropagationPolicy shop/p",
                "ClusterPropagationPolicy c selects it, too, and loses, because a PropagationPolicy precedes every ClusterPropagationPolicy",
            ),
            (
                policy(PolicyKind::Namespaced, "q", 5, all()),
                "PropagationPolicy shop/q",
                "PropagationPolicy shop/p selects it, too, and loses with the priority 0 against 5",
            ),
            (
                policy(PolicyKind::Namespaced, "q", 0, named()),
                "PropagationPolicy shop/q",
                "PropagationPolicy shop/p selects it, too, and loses, because its selector is less precise",
            ),
        ] {
            let policies = vec![policy(PolicyKind::Namespaced, "p", 0, all()), one];
            let found = evidence(&template("shop", "web", json!({})), policies);
            assert_eq!(found.holds.as_deref(), Some(holds));
            assert_eq!(found.others, [other]);
        }
    }

    #[test]
    fn a_reserved_namespace_is_never_propagated() {
        let all = json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
        let policies = vec![policy(PolicyKind::Cluster, "c", 0, all)];
        let found = evidence(&template("karmada-system", "dns", json!({})), policies);
        assert_eq!(found.holds, None);
        let difference = "it never propagates objects of the namespace karmada-system";
        assert_eq!(found.near[0].difference, difference);
    }
}
