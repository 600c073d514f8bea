use serde_json::json;

use super::*;
use berth_api::well_known::PREEMPTIBLE;

#[test]
fn the_preemptible_annotation_of_an_invalid_policy_is_read() {
    let key = PolicyKey {
        kind: PolicyKind::Namespaced,
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
    };
    for annotation in [None, Some("false")] {
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop",
                "annotations": annotation.map(|value| json!({ PREEMPTIBLE: value })) },
            "spec": { "resourceSelectors": [], "placement": {} },
        }))
        .unwrap();
        let policy = invalid_policy(&key, &object).unwrap();
        assert_eq!(policy.preemptible.as_deref(), annotation);
    }
}
