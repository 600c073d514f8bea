//! Tests of HorizontalPodAutoscalers that run in members, and of templates that adopt the replicas of the members.

use berth_test_requirements::needs;

use crate::program::{Up, until};

const WEB: &str = include_str!("manifests/autoscaled_web.yaml");

const LABEL: &str = r"{.metadata.labels.resourcetemplate\.karmada\.io/retain-replicas}";

fn get(up: &Up, context: &str, resource: &str, path: &str) -> String {
    let path = format!("jsonpath={path}");
    up.in_member(
        context,
        &["get", resource, "-o", &path, "--ignore-not-found"],
    )
}

/// Returns the replicas of the template and of both members, and the replicas that the scheduler assigns, such as
/// `4 = 2 + 2, assigned 2 2`.
fn replicas(up: &Up) -> String {
    let of = |context: &str| get(up, context, "deployment/web", "{.spec.replicas}");
    let assigned = get(
        up,
        "berth",
        "rb/web-deployment",
        "{.spec.clusters[*].replicas}",
    );
    format!(
        "{} = {} + {}, assigned {assigned}",
        of("berth"),
        of("member1"),
        of("member2")
    )
}

fn wait_for_replicas(up: &Up, expected: &str) {
    until(expected, || match replicas(up) {
        found if found == expected => Ok(()),
        found => Err(found),
    });
}

fn set_load(up: &Up, member: &str, load: &str) {
    let load = format!("simulation.berth/cpu-load={load}");
    up.in_member(
        member,
        &["annotate", "--overwrite", "deployment/web", &load],
    );
}

#[needs(kubectl)]
#[test]
fn a_template_adopts_the_replicas_that_autoscalers_set_in_members() {
    let up = Up::start(&[
        "--members=2",
        "--controllers=*,hpaScaleTargetMarker,deploymentReplicasSyncer",
    ]);
    let file = up.home.path().join("web.yaml");
    std::fs::write(&file, WEB).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    wait_for_replicas(&up, "4 = 2 + 2, assigned 2 2");
    until("the label in the members", || {
        let found = ["member1", "member2"].map(|member| get(&up, member, "deployment/web", LABEL));
        if found == ["true", "true"] {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    });

    // The CPU load in one member rises to 200m. The target is 50% of the request of 100m, so 4 replicas are needed.
    set_load(&up, "member1", "200m");
    wait_for_replicas(&up, "6 = 4 + 2, assigned 3 3");
    until("the event of the autoscaler", || {
        let events = up.in_member("member1", &["get", "events"]);
        if events.contains("New size: 4; reason: cpu resource utilization") {
            Ok(())
        } else {
            Err(events)
        }
    });
    until("the status of the autoscalers", || {
        match &*get(&up, "berth", "hpa/web", "{.status.currentReplicas}") {
            "6" => Ok(()),
            other => Err(other.to_owned()),
        }
    });

    // After an update of the template, the members have the new image and keep their replicas.
    up.kubectl(&["set", "image", "deployment/web", "web=two"]);
    let image = "{.spec.template.spec.containers[0].image}";
    for member in ["member1", "member2"] {
        until("the new image", || {
            match &*get(&up, member, "deployment/web", image) {
                "two" => Ok(()),
                other => Err(other.to_owned()),
            }
        });
    }
    for member in ["member1", "member2"] {
        let rollout = ["rollout", "status", "deployment/web", "--timeout=60s"];
        up.in_member(member, &rollout);
    }
    // During the rollout, the replicas of the template include surge pods.
    wait_for_replicas(&up, "6 = 4 + 2, assigned 3 3");

    // The autoscalers override the replicas that a user sets in the template.
    up.kubectl(&["scale", "deployment/web", "--replicas=10"]);
    wait_for_replicas(&up, "6 = 4 + 2, assigned 3 3");
    set_load(&up, "member1", "0");
    wait_for_replicas(&up, "4 = 2 + 2, assigned 2 2");
    set_load(&up, "member2", "300m");
    wait_for_replicas(&up, "8 = 2 + 6, assigned 4 4");

    // After the autoscaler is deleted, the scheduler divides the replicas again.
    up.kubectl(&["delete", "hpa/web"]);
    wait_for_replicas(&up, "8 = 4 + 4, assigned 4 4");
}

#[needs(kubectl)]
#[test]
fn a_workload_that_is_created_after_its_autoscaler_is_labelled() {
    let up = Up::start(&["--members=1", "--controllers=*,hpaScaleTargetMarker"]);
    let mut documents = WEB.split("---\n");
    let deployment = documents.next().unwrap().to_owned();
    let others: Vec<&str> = documents.collect();
    for (name, text) in [
        ("others.yaml", others.join("---\n")),
        ("web.yaml", deployment),
    ] {
        let file = up.home.path().join(name);
        std::fs::write(&file, text).unwrap();
        up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
        until("the policy to claim the autoscaler", || {
            match &*get(&up, "berth", "rb/web-horizontalpodautoscaler", "{.kind}") {
                "ResourceBinding" => Ok(()),
                _ => Err("no binding".to_owned()),
            }
        });
    }
    until("the label", || {
        let found = get(&up, "berth", "deployment/web", LABEL);
        if found == "true" { Ok(()) } else { Err(found) }
    });
}
