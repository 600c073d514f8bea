use serde_json::{Value, json};

use super::*;
use crate::detector::desired_binding::binding_for;
use crate::detector::policy::PolicyRecord;
use crate::resource_type::ResourceType;

/// Returns a policy with a selector for Deployments. `selector` and `spec` contain further fields. The policy is a
/// ClusterPropagationPolicy if its name has the prefix `c-`, and otherwise a PropagationPolicy in the namespace
/// `default`.
fn policy(name: &str, selector: &Value, spec: &Value) -> PolicyRecord {
    annotated_policy(name, selector, spec, &json!({}))
}

/// Returns a policy as [`policy`] does, with these annotations.
fn annotated_policy(
    name: &str,
    selector: &Value,
    spec: &Value,
    annotations: &Value,
) -> PolicyRecord {
    let kind = kind_of(name);
    let mut selector = selector.clone();
    selector["apiVersion"] = json!("apps/v1");
    selector["kind"] = json!("Deployment");
    let mut object = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "Policy",
        "metadata": {
            "name": name,
            "labels": {},
            "annotations": annotations,
            "finalizers": [kind.guarded().policy_finalizer()],
        },
        "spec": {
            "resourceSelectors": [selector], "placement": {}, "priority": 0, "preemption": "Never",
            "schedulerName": "default-scheduler", "conflictResolution": "Abort",
        },
    });
    if kind == PolicyKind::Namespaced {
        object["metadata"]["namespace"] = json!("default");
        object["spec"]["resourceSelectors"][0]["namespace"] = json!("default");
    }
    let label = kind.guarded().permanent_id_label().unwrap();
    object["metadata"]["labels"][label] = json!(format!("id-of-{name}"));
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    PolicyRecord::from_object(kind, &serde_json::from_value(object).unwrap())
}

fn terminating(name: &str) -> PolicyRecord {
    let object = json!({"metadata": {"name": name, "namespace": "default",
        "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    PolicyRecord::from_object(kind_of(name), &serde_json::from_value(object).unwrap())
}

fn kind_of(name: &str) -> PolicyKind {
    if name.starts_with("c-") {
        PolicyKind::Cluster
    } else {
        PolicyKind::Namespaced
    }
}

fn key(name: &str) -> PolicyKey {
    let kind = kind_of(name);
    let namespace = match kind {
        PolicyKind::Namespaced => "default",
        PolicyKind::Cluster => "",
    };
    PolicyKey {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn deployment(labels: &Value, annotations: &Value) -> Template {
    let object = json!({
        "metadata": {"name": "web", "namespace": "default", "labels": labels, "annotations": annotations},
        "spec": {"replicas": 1},
    });
    Template::from_object(
        &ResourceType::deployments(),
        serde_json::from_value(object).unwrap(),
    )
}

fn unclaimed() -> Template {
    deployment(&json!({"app": "web"}), &json!({}))
}

/// Returns a template that this policy has claimed.
fn claimed(policy: &str) -> Template {
    claimed_with_id(policy, &format!("id-of-{policy}"))
}

fn claimed_with_id(policy: &str, id: &str) -> Template {
    match kind_of(policy) {
        PolicyKind::Namespaced => deployment(
            &json!({"app": "web", "propagationpolicy.karmada.io/permanent-id": id}),
            &json!({"propagationpolicy.karmada.io/namespace": "default",
                "propagationpolicy.karmada.io/name": policy}),
        ),
        PolicyKind::Cluster => deployment(
            &json!({"app": "web", "clusterpropagationpolicy.karmada.io/permanent-id": id}),
            &json!({"clusterpropagationpolicy.karmada.io/name": policy}),
        ),
    }
}

fn index(policies: Vec<PolicyRecord>) -> Index {
    let mut index = Index::default();
    for policy in policies {
        index.put_policy(Arc::new(policy));
    }
    index
}

/// Describes a plan.
fn describe(plan: &Plan) -> String {
    match plan {
        Plan::None => "none".to_owned(),
        Plan::AwaitPolicy => "await policy".to_owned(),
        Plan::AwaitOverrides => "await overrides".to_owned(),
        Plan::Release(claim) => format!("release {}", claim.policy.name),
        Plan::Apply(application) => {
            let mut words = Vec::new();
            if application.claim {
                words.push("claim");
            }
            if application.bind {
                words.push("bind");
            }
            format!("{} {}", words.join("+"), application.policy.key.name)
        }
    }
}

fn decided(template: &Template, policies: Vec<PolicyRecord>, cause: &Cause) -> String {
    describe(&decide(
        template,
        &index(policies),
        cause,
        FeatureGates::default(),
    ))
}

fn by_name() -> Value {
    json!({"name": "web"})
}

fn by_label() -> Value {
    json!({"labelSelector": {"matchLabels": {"app": "web"}}})
}

fn by_kind() -> Value {
    json!({})
}

fn priority(priority: i32) -> Value {
    json!({ "priority": priority })
}

#[test]
fn kind_priority_precision_and_name_decide_which_policy_wins() {
    let none = json!({});
    for (rule, policies, winner) in [
        (
            "a name is more precise than labels, labels more than the kind",
            vec![
                policy("a", &by_kind(), &none),
                policy("b", &by_label(), &none),
                policy("c", &by_name(), &none),
            ],
            "c",
        ),
        (
            "labels are more precise than the kind",
            vec![
                policy("a", &by_kind(), &none),
                policy("b", &by_label(), &none),
            ],
            "b",
        ),
        (
            "an explicit priority beats precision",
            vec![
                policy("a", &by_name(), &none),
                policy("b", &by_kind(), &priority(1)),
            ],
            "b",
        ),
        (
            "a negative priority loses",
            vec![
                policy("a", &by_name(), &priority(-1)),
                policy("b", &by_kind(), &none),
            ],
            "b",
        ),
        (
            "among equals the smallest name wins",
            vec![
                policy("b", &by_name(), &none),
                policy("a", &by_name(), &none),
            ],
            "a",
        ),
        (
            "any PropagationPolicy beats every ClusterPropagationPolicy",
            vec![
                policy("a", &by_kind(), &none),
                policy("c-a", &by_name(), &priority(9)),
            ],
            "a",
        ),
        (
            "a ClusterPropagationPolicy wins if no PropagationPolicy selects the template",
            vec![
                policy("a", &json!({"name": "other"}), &none),
                policy("c-a", &by_kind(), &none),
            ],
            "c-a",
        ),
        (
            "with a name the label selector is ignored",
            vec![policy(
                "a",
                &json!({"name": "web", "labelSelector": {"matchLabels": {"app": "other"}}}),
                &none,
            )],
            "a",
        ),
    ] {
        assert_eq!(
            decided(&unclaimed(), policies, &Cause::user()),
            format!("claim+bind {winner}"),
            "{rule}"
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table is as long as its rules")]
fn claims_follow_the_policies() {
    let none = json!({});
    let user = Cause::user();
    let policy_changed = Cause {
        by_user: true,
        policy_changed: true,
        ..Cause::default()
    };
    let reserved = deployment(
        &json!({"resourcetemplate.karmada.io/claimed-by": "other-controller"}),
        &none,
    );
    let elsewhere = || policy("a", &json!({"name": "other"}), &none);
    let foreign = || {
        deployment(
            &json!({"app": "web", "propagationpolicy.karmada.io/permanent-id": "id-of-a"}),
            &json!({"propagationpolicy.karmada.io/namespace": "team-b",
                "propagationpolicy.karmada.io/name": "a"}),
        )
    };
    for (situation, template, policies, cause, plan) in [
        (
            "no policy selects it",
            unclaimed(),
            vec![elsewhere()],
            &user,
            "await policy",
        ),
        (
            "another controller has claimed it",
            reserved,
            vec![policy("a", &by_kind(), &none)],
            &user,
            "none",
        ),
        (
            "its policy is unchanged",
            claimed("a"),
            vec![policy("a", &by_name(), &none)],
            &user,
            "bind a",
        ),
        (
            "a better policy was created, but the claim is kept",
            claimed("a"),
            vec![
                policy("a", &by_kind(), &none),
                policy("b", &by_name(), &priority(9)),
            ],
            &user,
            "bind a",
        ),
        (
            "a PropagationPolicy was created, but the claim of the ClusterPropagationPolicy is kept",
            claimed("c-a"),
            vec![
                policy("b", &by_name(), &none),
                policy("c-a", &by_kind(), &none),
            ],
            &user,
            "bind c-a",
        ),
        (
            "its policy was deleted",
            claimed("a"),
            vec![],
            &user,
            "release a",
        ),
        (
            "its policy is being deleted",
            claimed("a"),
            vec![terminating("a")],
            &user,
            "release a",
        ),
        (
            "its policy was recreated",
            claimed_with_id("a", "old"),
            vec![policy("a", &by_name(), &none)],
            &user,
            "claim+bind a",
        ),
        (
            "its claim names a former policy, and the policy of this name does not select it",
            claimed_with_id("a", "old"),
            vec![elsewhere()],
            &user,
            "release a",
        ),
        (
            "its claim names a policy of another namespace, and no policy selects it",
            foreign(),
            vec![elsewhere()],
            &user,
            "await policy",
        ),
        (
            "its claim names a policy of another namespace, and another policy selects it",
            foreign(),
            vec![policy("a", &by_name(), &none)],
            &user,
            "claim+bind a",
        ),
        (
            "its policy does not select it after a change of the template",
            claimed("a"),
            vec![elsewhere()],
            &user,
            "none",
        ),
        (
            "its policy does not select it after a change of the policy",
            claimed("a"),
            vec![elsewhere()],
            &policy_changed,
            "release a",
        ),
        (
            "its policy is invalid",
            claimed("a"),
            vec![policy(
                "a",
                &by_name(),
                &json!({"placement": {"spreadConstraints": [
                {"spreadByField": "region", "minGroups": 1}]}}),
            )],
            &policy_changed,
            "none",
        ),
    ] {
        assert_eq!(decided(&template, policies, cause), plan, "{situation}");
    }
}

#[test]
fn a_lazy_policy_claims_at_once_and_binds_after_a_change_by_a_user() {
    let lazy = || policy("a", &by_name(), &json!({"activationPreference": "Lazy"}));
    let by_policy = Cause::default();
    for (template, cause, plan) in [
        (unclaimed(), Cause::user(), "claim+bind a"),
        (unclaimed(), by_policy.clone(), "claim a"),
        (claimed("a"), by_policy, "none"),
        (claimed("a"), Cause::user(), "bind a"),
    ] {
        assert_eq!(decided(&template, vec![lazy()], &cause), plan, "{cause:?}");
    }
}

#[test]
fn a_policy_waits_for_all_its_override_policies_in_its_namespace() {
    let waiting = || {
        policy(
            "a",
            &by_name(),
            &json!({"dependentOverrides": ["one", "two"]}),
        )
    };
    let mut index = index(vec![waiting(), policy("b", &by_kind(), &json!({}))]);
    let now = |index: &Index| {
        let plan = decide(&unclaimed(), index, &Cause::user(), FeatureGates::default());
        describe(&plan)
    };
    let key = |kind, namespace: &str, name: &str| PolicyKey {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let namespaced = |namespace: &str, name: &str| key(PolicyKind::Namespaced, namespace, name);
    // The policy `a` wins the template and waits. The policy `b` does not replace it.
    assert_eq!(now(&index), "await overrides");
    index.put_override(namespaced("default", "one"));
    index.put_override(namespaced("elsewhere", "two"));
    index.put_override(key(PolicyKind::Cluster, "", "two"));
    assert_eq!(now(&index), "await overrides");
    index.put_override(namespaced("default", "two"));
    assert_eq!(now(&index), "claim+bind a");
}

#[test]
fn preemption_needs_its_gate_and_a_higher_rank() {
    let challenger = |priority: i32| {
        policy(
            "b",
            &by_name(),
            &json!({"priority": priority, "preemption": "Always"}),
        )
    };
    let cause = Cause {
        by_user: true,
        challengers: vec![key("b")],
        ..Cause::default()
    };
    for (enabled, owner, challenging, plan) in [
        (false, "a", 5, "bind a"),
        (true, "a", 5, "claim+bind b"),
        (true, "a", 0, "bind a"),
        (true, "c-a", 0, "claim+bind b"),
    ] {
        let mut gates = FeatureGates::default();
        gates.controllers.policy_preemption = enabled;
        let policies = vec![
            policy(owner, &by_name(), &json!({})),
            challenger(challenging),
        ];
        let plan_made = decide(&claimed(owner), &index(policies), &cause, gates);
        assert_eq!(describe(&plan_made), plan, "{owner} {challenging}");
    }
}

#[test]
fn a_binding_gets_the_preemptible_annotation_of_its_policy() {
    let name = "scheduling.berth/preemptible";
    for (annotations, expected) in [
        (json!({}), None),
        (json!({ "other": "false" }), None),
        (json!({ name: "false" }), Some("false")),
        (json!({ name: "true" }), Some("true")),
    ] {
        let record = annotated_policy("a", &by_name(), &json!({}), &annotations);
        let PolicyState::Ready(policy) = &record.state else {
            panic!("{:?}", record.state);
        };
        let binding = binding_for(
            &claimed("a"),
            policy,
            None,
            FeatureGates::default(),
            &berth_interpreter::Interpreter::default(),
        )
        .unwrap();
        let found = binding.annotations.get(name).and_then(Value::as_str);
        assert_eq!(found, expected, "{annotations}");
    }
}

#[test]
fn the_kind_of_a_policy_counts_before_its_priority() {
    use PolicyKind::{Cluster, Namespaced};
    for (challenger, owner, expected) in [
        ((Namespaced, 2), (Namespaced, 1), true),
        ((Namespaced, 1), (Namespaced, 1), false),
        ((Namespaced, -1), (Cluster, 9), true),
        ((Cluster, 9), (Namespaced, -1), false),
        ((Cluster, 2), (Cluster, 1), true),
        ((Cluster, 1), (Cluster, 2), false),
    ] {
        assert_eq!(
            may_preempt(challenger, owner),
            expected,
            "{challenger:?} {owner:?}"
        );
    }
}
