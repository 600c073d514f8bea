use berth_engine::Fleet;
use serde_json::json;

use super::*;

fn binding(name: &str, priority: i32, clusters: &[(&str, i32)]) -> Arc<Binding> {
    let clusters: Vec<Value> = clusters
        .iter()
        .map(|(name, replicas)| json!({ "name": name, "replicas": replicas }))
        .collect();
    let object = json!({
        "metadata": { "name": name, "namespace": "default",
            "labels": { "podGroup": "train", "minAvailable": "3" } },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "replicas": 4,
            "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
            "schedulePriority": { "priority": priority },
            "clusters": clusters,
            "placement": { "replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": { "dynamicWeight": "AvailableReplicas" } } },
        },
    });
    let object: berth_api::ResourceBinding = serde_json::from_value(object).unwrap();
    Arc::new(Binding::from(object))
}

fn fleet() -> Arc<Snapshot> {
    let mut fleet = Fleet::new().keeping_objects();
    for (name, allocated) in [("m1", "4"), ("m2", "0")] {
        let cluster = json!({
            "metadata": { "name": name },
            "spec": { "syncMode": "Push" },
            "status": {
                "apiEnablements": [{ "groupVersion": "apps/v1",
                    "resources": [{ "name": "deployments", "kind": "Deployment" }] }],
                "conditions": [{ "type": "Ready", "status": "True", "reason": "Ok", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z" }],
                "resourceSummary": { "allocatable": { "cpu": "4", "pods": "100" },
                    "allocated": { "cpu": allocated } },
            },
        });
        fleet.apply(&serde_json::from_value(cluster).unwrap());
    }
    fleet.snapshot()
}

fn scheduler(text: &str) -> Result<OfflineScheduler, OfflineError> {
    OfflineScheduler::new(&OfflineConfig {
        source_name: "config.yaml".to_owned(),
        text: text.to_owned(),
        ..OfflineConfig::default()
    })
}

const PROFILE: &str = "
apiVersion: scheduler.config.berth/v1alpha1
kind: SchedulerConfiguration
extenders:
- urlPrefix: https://extender.example
  filterVerb: filter
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: Expression
      - name: DefaultPreemption
      - name: Coscheduling
      - name: OutOfTree
  pluginConfig:
  - name: Expression
    args:
      filter:
      - expression: cluster.metadata.name != 'm2'
        message: m2 is reserved
";

#[tokio::test]
async fn unknown_plugins_and_extenders_of_a_configuration_are_omitted() {
    let mut scheduler = scheduler(PROFILE).unwrap();
    assert_eq!(
        scheduler.omitted(),
        [
            "plugin OutOfTree, which this program does not contain",
            "extender https://extender.example, which is not called",
        ]
    );
    let (snapshot, lesser, urgent) = (
        fleet(),
        binding("lesser", 1, &[("m1", 4)]),
        binding("urgent", 2, &[]),
    );
    scheduler.show_fleet(&snapshot);
    scheduler.show_binding(&lesser);
    assert_eq!(
        scheduler.gang_of(&urgent),
        Some(("default/train".to_owned(), 3))
    );
    let request = Request::new(&urgent.key, &urgent.spec, &urgent.status);
    let request = request.unwrap().with_object(urgent.clone());
    let assumed = Assumed::default();
    let engine = scheduler.engine_of(&urgent).unwrap();
    // The cluster m1 is full, and the plugin Expression rejects m2.
    let outcome = engine.schedule_with(&snapshot, &request, &assumed);
    assert!(outcome.result.is_err(), "{outcome:?}");
    let victims = scheduler.victims(&urgent, &request, &snapshot, &assumed, &outcome);
    assert_eq!(
        victims,
        [Victim {
            key: lesser.key.clone(),
            cluster: "m1".to_owned()
        }]
    );
    // After the removal of the binding `lesser` from m1, the binding `urgent` fits.
    let mut freed = Assumed::default();
    assume(&mut freed, &lesser, "m1", 4, CapacityChange::Freed);
    let engine = scheduler.engine_of(&urgent).unwrap();
    let outcome = engine.schedule_with(&snapshot, &request, &freed);
    assert!(outcome.result.is_ok(), "{outcome:?}");
}

#[tokio::test]
async fn errors_name_the_file_and_the_line() {
    let text = "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n- pluginConfig: 3\n";
    let error = scheduler(text).unwrap_err().to_string();
    assert!(error.starts_with("config.yaml:4:"), "{error}");
}

#[tokio::test]
async fn bindings_of_other_schedulers_have_no_engine() {
    let text = "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n- schedulerName: other\n";
    let mut scheduler = scheduler(text).unwrap();
    assert!(scheduler.engine_of(&binding("web", 0, &[])).is_none());
    let names: Vec<String> = scheduler
        .profiles()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(names, ["other"]);
}
