use berth_api::interpreter_customization::{
    CustomizationRules, CustomizationSpec, CustomizationTarget, LuaRule,
};
use serde_json::json;

use super::*;
use crate::ScriptError;

fn rule(script: &str) -> Option<LuaRule> {
    let lua_script = script.to_owned();
    LuaRule { lua_script }.into()
}

fn customization(
    name: &str,
    kind: &str,
    rules: CustomizationRules,
) -> ResourceInterpreterCustomization {
    let target = CustomizationTarget {
        api_version: "example.io/v1".to_owned(),
        kind: kind.to_owned(),
    };
    ResourceInterpreterCustomization::new(
        name,
        CustomizationSpec {
            target,
            customizations: rules,
        },
    )
}

/// Returns an interpreter with a script for each operation of the kind `Rollout`.
fn rollouts() -> Interpreter {
    Interpreter::with(vec![customization(
        "rollouts",
        "Rollout",
        CustomizationRules {
            retention: rule(
                "function Retain(desired, observed)
                    desired.spec.paused = observed.spec.paused
                    return desired
                end",
            ),
            replica_resource: rule(
                "local kube = require('kube')
                function GetReplicas(object)
                    return object.spec.replicas, kube.accuratePodRequirements(object.spec.template)
                end",
            ),
            component_resource: rule(
                "function GetComponents(object)
                    return {{name = 'main', replicas = object.spec.replicas,
                        replicaRequirements = {resourceRequest = {cpu = 1}}}}
                end",
            ),
            replica_revision: rule(
                "function ReviseReplica(object, replicas)
                    object.spec.replicas = replicas
                    return object
                end",
            ),
            status_reflection: rule(
                "function ReflectStatus(object)
                    return {ready = object.status.ready, strategy = {}}
                end",
            ),
            status_aggregation: rule(
                "function AggregateStatus(object, items)
                    if object.status == nil then object.status = {} end
                    object.status.ready = 0
                    for i = 1, #items do
                        if items[i].status ~= nil then
                            object.status.ready = object.status.ready + items[i].status.ready
                        end
                    end
                    return object
                end",
            ),
            health_interpretation: rule(
                "function InterpretHealth(object)
                    return object.status.ready == object.spec.replicas
                end",
            ),
            dependency_interpretation: rule(
                "function GetDependencies(object)
                    return {{apiVersion = 'v1', kind = 'Secret', namespace = 'n', name = object.spec.secret}}
                end",
            ),
        },
    )])
}

fn rollout() -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Rollout", "metadata": {"name": "r", "annotations": {}},
        "spec": {"replicas": 3, "secret": "s", "hosts": [], "template": {"metadata": {},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]}}},
        "status": {"ready": 3}})
}

#[test]
fn scripts_perform_all_operations_for_their_kind() {
    let (interpreter, object) = (rollouts(), rollout());
    let (version, kind) = ("example.io/v1", "Rollout");
    assert!(interpreter.has_replicas(version, kind));
    assert!(interpreter.has_components(version, kind));
    assert!(interpreter.has_health(version, kind));

    let replicas = interpreter
        .replicas(version, kind, &object)
        .unwrap()
        .unwrap();
    assert_eq!(replicas.replicas, 3);
    assert_eq!(
        replicas.requirements,
        Some(json!({"resourceRequest": {"cpu": "250m"}}))
    );

    let components = interpreter
        .components(version, kind, &object)
        .unwrap()
        .unwrap();
    assert_eq!(
        serde_json::to_value(components).unwrap(),
        json!([{"name": "main", "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}])
    );

    let mut revised = object.clone();
    interpreter.revise_replicas(&mut revised, 7).unwrap();
    let mut expected = object.clone();
    expected["spec"]["replicas"] = json!(7);
    assert_eq!(revised, expected, "empty lists and objects keep their form");

    let mut desired = object.clone();
    let mut observed = object.clone();
    observed["spec"]["paused"] = json!(true);
    observed["metadata"]["resourceVersion"] = json!("5");
    interpreter.retain(&mut desired, &observed).unwrap();
    assert_eq!(desired["spec"]["paused"], true);
    assert_eq!(desired["metadata"]["resourceVersion"], "5");

    assert_eq!(
        interpreter.reflect(&object).unwrap(),
        Some(json!({"ready": 3}))
    );
    assert!(interpreter.is_healthy(&object).unwrap());

    let items: Vec<AggregatedStatusItem> = serde_json::from_value(json!([
        {"clusterName": "m1", "status": {"ready": 1}}, {"clusterName": "m2", "status": {"ready": 1}},
        {"clusterName": "m3"}]))
    .unwrap();
    let now = Time(jiff::Timestamp::UNIX_EPOCH);
    let status = interpreter.aggregate(&object, &items, &now).unwrap();
    assert_eq!(status, Some(json!({"ready": 2})));
    let mut current = object.clone();
    current["status"] = json!({"ready": 2});
    assert_eq!(interpreter.aggregate(&current, &items, &now).unwrap(), None);

    let dependencies = interpreter.dependencies(&object).unwrap().unwrap();
    assert_eq!(dependencies[0].name, "s");
}

#[test]
fn kinds_without_scripts_keep_their_rules() {
    let interpreter = rollouts();
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2}});
    let replicas = interpreter.replicas("apps/v1", "Deployment", &deployment);
    assert_eq!(replicas.unwrap().unwrap().replicas, 2);
    let thing = json!({"apiVersion": "example.io/v1", "kind": "Thing", "status": {"a": 1}});
    assert_eq!(
        interpreter
            .replicas("example.io/v1", "Thing", &thing)
            .unwrap(),
        None
    );
    assert!(interpreter.is_healthy(&thing).unwrap());
    assert_eq!(interpreter.reflect(&thing).unwrap(), Some(json!({"a": 1})));
    assert_eq!(interpreter.dependencies(&thing).unwrap(), None);
}

#[test]
fn a_script_replaces_only_the_built_in_rule_of_its_operation() {
    let mut rules = CustomizationRules {
        health_interpretation: rule("function InterpretHealth() return false end"),
        ..CustomizationRules::default()
    };
    rules.replica_resource = rule("");
    let mut customization = customization("c", "Pod", rules);
    customization.spec.target.api_version = "v1".to_owned();
    let interpreter = Interpreter::with(vec![customization]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []},
        "status": {"phase": "Succeeded"}});
    assert!(!interpreter.is_healthy(&pod).unwrap());
    assert_eq!(
        interpreter
            .replicas("v1", "Pod", &pod)
            .unwrap()
            .unwrap()
            .replicas,
        1
    );
    interpreter.load(Vec::new());
    assert!(interpreter.is_healthy(&pod).unwrap());
}

#[test]
fn the_first_customization_by_name_applies_and_dependencies_are_united() {
    let health = |healthy: bool| CustomizationRules {
        health_interpretation: rule(&format!("function InterpretHealth() return {healthy} end")),
        ..CustomizationRules::default()
    };
    let secret = |name: &str| CustomizationRules {
        dependency_interpretation: rule(&format!(
            "function GetDependencies() return {{{{apiVersion = 'v1', kind = 'Secret', name = '{name}'}}}} end"
        )),
        ..CustomizationRules::default()
    };
    let interpreter = Interpreter::with(vec![
        customization("b", "Rollout", health(true)),
        customization("a", "Rollout", health(false)),
        customization("c", "Rollout", secret("y")),
        customization("d", "Rollout", secret("x")),
        customization("e", "Rollout", secret("x")),
    ]);
    assert!(!interpreter.is_healthy(&rollout()).unwrap());
    let names: Vec<String> = interpreter
        .dependencies(&rollout())
        .unwrap()
        .unwrap()
        .into_iter()
        .map(|reference| reference.name)
        .collect();
    assert_eq!(names, ["x", "y"]);
}

#[test]
fn wrong_results_are_errors_that_name_the_customization() {
    let of = |script: &str| {
        let rules = CustomizationRules {
            replica_resource: rule(script),
            replica_revision: rule(script),
            health_interpretation: rule(script),
            dependency_interpretation: rule(script),
            status_reflection: rule(script),
            ..CustomizationRules::default()
        };
        Interpreter::with(vec![customization("c", "Rollout", rules)])
    };
    let replicas = |script: &str| {
        let result = of(script).replicas("example.io/v1", "Rollout", &rollout());
        result.unwrap_err().to_string()
    };
    for (script, expected) in [
        ("function GetReplicas() end", "is a nil; expected a number"),
        (
            "function GetReplicas() return 1e10 end",
            "10000000000 replicas",
        ),
        (
            "function GetReplicas() return 1, 2 end",
            "is a number; expected a table",
        ),
        (
            "function GetReplicas() return 1, {nodeClaim = 'x'} end",
            "is not a valid ReplicaRequirements",
        ),
    ] {
        let error = replicas(script);
        assert!(error.contains(expected), "{error}");
        assert!(
            error.starts_with("ResourceInterpreterCustomization \"c\" cannot run GetReplicas: "),
            "{error}"
        );
    }
    let revise = of("function ReviseReplica() return {spec = {}} end");
    let error = revise.revise_replicas(&mut rollout(), 1).unwrap_err();
    assert!(error.to_string().contains("kind is missing"), "{error}");
    let health = of("function InterpretHealth() return 1 end");
    let error = health.is_healthy(&rollout()).unwrap_err();
    assert!(error.to_string().contains("expected a boolean"), "{error}");
    for reference in [
        "{kind = 'Secret', name = 'a'}",
        "{apiVersion = 'v1', kind = 'Secret'}",
    ] {
        let script = format!("function GetDependencies() return {{{reference}}} end");
        assert!(of(&script).dependencies(&rollout()).is_err(), "{reference}");
    }
    let status = of("function ReflectStatus() return nil end");
    assert!(status.reflect(&rollout()).is_err());
}

#[test]
fn scripts_cannot_change_the_identity_of_an_object() {
    let named = json!({"apiVersion": "example.io/v1", "kind": "Rollout",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {}});
    for (change, field) in [
        ("object.metadata.name = 'other'", Some("/metadata/name")),
        (
            "object.metadata.namespace = nil",
            Some("/metadata/namespace"),
        ),
        ("object.apiVersion = 'v1'", Some("/apiVersion")),
        ("object.metadata.uid = '1'", None),
        ("object.spec.a = 'b'", None),
    ] {
        let script = |function: &str| {
            rule(&format!(
                "function {function}(object) {change} return object end"
            ))
        };
        let rules = CustomizationRules {
            retention: script("Retain"),
            replica_revision: script("ReviseReplica"),
            ..CustomizationRules::default()
        };
        let interpreter = Interpreter::with(vec![customization("c", "Rollout", rules)]);
        for result in [
            interpreter.revise_replicas(&mut named.clone(), 1),
            interpreter.retain(&mut named.clone(), &named),
        ] {
            match (result, field) {
                (Ok(()), None) => {}
                (Err(InterpretError::Identity { field: found, .. }), Some(field)) => {
                    assert_eq!(found, field, "{change}");
                }
                (result, _) => panic!("{change}: {result:?}"),
            }
        }
    }
}

#[test]
fn a_script_that_ran_out_of_time_pauses() {
    let rules = CustomizationRules {
        health_interpretation: rule("function InterpretHealth() while true do end end"),
        status_reflection: rule("function ReflectStatus(object) return object.status end"),
        ..CustomizationRules::default()
    };
    let interpreter = Interpreter::with(vec![customization("c", "Rollout", rules)]);
    let cause = |result: Result<bool, InterpretError>| match result {
        Err(InterpretError::Script { source, .. }) => Some(source),
        _ => None,
    };
    let first = cause(interpreter.is_healthy(&rollout()));
    assert!(matches!(first, Some(ScriptError::Timeout(_))), "{first:?}");
    let second = cause(interpreter.is_healthy(&rollout()));
    assert!(matches!(second, Some(ScriptError::Paused(_))), "{second:?}");
    assert!(interpreter.reflect(&rollout()).is_ok(), "other scripts run");
}
