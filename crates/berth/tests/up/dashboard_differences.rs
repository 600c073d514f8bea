//! Tests of the parts of the dashboard that show differences and the history of a workload.

use berth_test_requirements::needs;

use crate::dashboard::Page;
use crate::program::{Up, berth, root, until};

/// Waits until the page at a path contains all of these texts.
fn until_page_contains(page: &Page, path: &str, expected: &[&str]) {
    until(path, || {
        let text = page.get(path);
        let missing = expected.iter().find(|part| !text.contains(**part));
        missing.map_or(Ok(()), |part| Err(format!("{part} is not in {text}")))
    });
}

#[needs(kubectl)]
#[test]
fn the_page_of_a_workload_shows_its_differences_and_writes_nothing() {
    let up = Up::start(&["--members=3"]);
    let page = Page::of(&up);
    for example in ["nginx.yaml", "nginx-override.yaml"] {
        let manifest = root().join("examples").join(example);
        up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    }
    up.kubectl(&["annotate", "deployment", "nginx", "drift.berth/mode=report"]);
    let path = "/bindings/default/nginx-deployment";
    let differences = format!("{path}/differences");
    until_page_contains(
        &page,
        &differences,
        &[
            "the scheduler: each cluster&#39;s share",
            "OverridePolicy nginx-override",
            "spec.replicas",
            "differences are reported and stay",
            "Compare with the members",
        ],
    );
    let members = format!("{path}/members");
    until_page_contains(
        &page,
        &members,
        &["2 of 2 copies equal the wanted object", "in a dry run"],
    );
    let edit = r#"{"spec":{"paused":true}}"#;
    let pause = ["patch", "deployment", "nginx", "--type=merge", "-p", edit];
    up.in_member("member1", &pause);
    // A write of the wanted object would raise the generation.
    let state = || {
        let columns = "jsonpath={.metadata.generation} {.spec.paused}";
        up.in_member("member1", &["get", "deployment", "nginx", "-o", columns])
    };
    until_page_contains(
        &page,
        &members,
        &[
            "1 of 2 copies equal the wanted object, 1 differ",
            "spec.paused",
        ],
    );
    let before = state();
    page.get(&members);
    assert_eq!(state(), before);
    let failed = berth(up.home.path(), &["fail", "member2"])
        .output()
        .unwrap();
    assert!(failed.status.success(), "{failed:?}");
    let unreadable = ["1 cannot be read", "cannot reach the cluster"];
    until_page_contains(&page, &members, &unreadable);
}

#[needs(kubectl)]
#[test]
fn the_history_names_the_cause_of_a_move_and_the_command_that_undoes_it() {
    let up = Up::start(&["--members=3"]);
    let page = Page::of(&up);
    let nginx = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", nginx.to_str().unwrap()]);
    let path = "/bindings/default/nginx-deployment";
    until_page_contains(&page, path, &["<h2>History</h2>", "the scheduler decided"]);
    up.kubectl(&["scale", "deployment", "nginx", "--replicas=5"]);
    until_page_contains(
        &page,
        path,
        &[
            "the workload was scaled from 2 to 5 replicas",
            "kubectl --namespace default scale deployment nginx --replicas=2",
        ],
    );
}
