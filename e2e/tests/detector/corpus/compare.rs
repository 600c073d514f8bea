//! Comparison of the results of Berth with the recorded results of Karmada.

use berth_e2e::detector_cases::{Case, Outcome, bindings_of, get, is_policy, without_ids};
use serde_json::{Map, json};

use super::markers;

/// The time limit until all recorded bindings exist.
const BINDING_TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);

/// Compares which objects are accepted, the stored specs of policies, and the fields that refusals name. Adds the
/// differences to `differences`.
pub fn compare_admission(case: &Case, outcomes: &[Outcome], differences: &mut Vec<String>) {
    let id = &case.id;
    let objects = case.objects.iter().zip(&case.admitted);
    for ((object, admitted), outcome) in objects.zip(outcomes) {
        let name = format!("{id} {}/{}", object["kind"], object["metadata"]["name"]);
        match (admitted["accepted"] == true, outcome) {
            (true, Ok(stored)) if is_policy(object) => {
                if stored["spec"] != admitted["spec"] {
                    differences.push(format!(
                        "{name}: stored spec\n    ours     {}\n    recorded {}",
                        stored["spec"], admitted["spec"]
                    ));
                }
            }
            (true, Ok(_)) => {}
            (true, Err(error)) => differences.push(format!("{name}: refused: {error}")),
            (false, Ok(_)) => differences.push(format!("{name}: accepted")),
            (false, Err(error)) => {
                let recorded = admitted["error"].as_str().unwrap();
                for field in fields_named(recorded) {
                    if !error.contains(field) {
                        differences.push(format!(
                            "{name}: the refusal does not name {field}: {error}"
                        ));
                    }
                }
            }
        }
    }
}

/// Returns the fields of the spec that an error message names.
fn fields_named(error: &str) -> impl Iterator<Item = &str> {
    error
        .split([' ', '['])
        .filter(|word| word.starts_with("spec."))
        .filter_map(|word| word.strip_suffix(':'))
}

/// Waits for all bindings. Compares the bindings, the labels and annotations of templates, and the label keys and
/// finalizers of policies.
pub async fn compare_results(client: &kube::Client, cases: &[Case], differences: &mut Vec<String>) {
    wait_for_bindings(client, cases).await;
    for case in cases {
        compare_bindings(client, case, differences).await;
        compare_metadata(client, case, differences).await;
    }
}

/// Waits for all bindings, and compares only the bindings.
pub async fn compare_bindings_only(
    client: &kube::Client,
    cases: &[Case],
    differences: &mut Vec<String>,
) {
    wait_for_bindings(client, cases).await;
    for case in cases {
        compare_bindings(client, case, differences).await;
    }
}

async fn wait_for_bindings(client: &kube::Client, cases: &[Case]) {
    // Wait until all cases have the expected number of bindings. Then wait for a marker, so that unexpected bindings
    // appear too.
    let expected: usize = cases.iter().map(|case| case.bindings.len()).sum();
    let all_present = async {
        let mut present = 0;
        while present < expected {
            present = 0;
            for case in cases {
                present += bindings_of(client, case)
                    .await
                    .len()
                    .min(case.bindings.len());
            }
        }
    };
    // After the timeout, the comparison reports the missing bindings.
    let _ = tokio::time::timeout(BINDING_TIMEOUT, all_present).await;
    markers::wait_until_handled(client, cases, "end").await;
}

async fn compare_bindings(client: &kube::Client, case: &Case, differences: &mut Vec<String>) {
    let id = &case.id;
    let bindings = bindings_of(client, case).await;
    if bindings != case.bindings {
        differences.push(format!(
            "{id}: bindings\n    ours     {}\n    recorded {}",
            json!(bindings),
            json!(case.bindings)
        ));
    }
}

async fn compare_metadata(client: &kube::Client, case: &Case, differences: &mut Vec<String>) {
    let id = &case.id;
    let template = get(client, case.template()).await.unwrap_or_default();
    for (map, recorded) in [
        ("labels", &case.template["labels"]),
        ("annotations", &case.template["annotations"]),
    ] {
        let ours = without_ids(&template["metadata"][map]);
        let recorded = without_ids(recorded);
        if ours != recorded {
            differences.push(format!(
                "{id}: template {map}\n    ours     {ours}\n    recorded {recorded}"
            ));
        }
    }
    for (object, admitted) in case.objects.iter().zip(&case.admitted) {
        if !is_policy(object) || admitted["accepted"] != true {
            continue;
        }
        let stored = get(client, object).await.unwrap_or_default();
        let meta = &stored["metadata"];
        let keys: Vec<&String> = meta["labels"]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .collect();
        if json!(keys) != admitted["labels"] || meta["finalizers"] != admitted["finalizers"] {
            differences.push(format!(
                "{id}: policy {} has labels {keys:?} and finalizers {}, recorded {} and {}",
                object["metadata"]["name"],
                meta["finalizers"],
                admitted["labels"],
                admitted["finalizers"]
            ));
        }
    }
}
