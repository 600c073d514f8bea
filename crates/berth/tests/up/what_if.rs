//! Tests of the page "What if" of the dashboard, which predicts the moves after a change. The predicted moves must
//! equal the output of `berth simulate`.

use std::fs;
use std::process::Output;

use berth_test_requirements::needs;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::dashboard::Page;
use crate::dashboard_views::is_readable;
use crate::program::{Up, berth, root, until};

/// A ConfigMap for all clusters, a Deployment that requests the missing resource `example.com/gpu`, and their policies.
const WORKLOADS: &str = include_str!("manifests/what_if.yaml");

/// Starts a control plane, applies workloads, and waits until the scheduler has processed their bindings.
fn start() -> Up {
    let up = Up::start(&[]);
    let workloads = up.home.path().join("workloads.yaml");
    fs::write(&workloads, WORKLOADS).unwrap();
    let nginx = root().join("examples/nginx.yaml");
    let (nginx, workloads) = (nginx.to_str().unwrap(), workloads.to_str().unwrap());
    up.kubectl(&["apply", "-f", nginx, "-f", workloads]);
    until("decisions", || {
        let list = up.kubectl(&["get", "resourcebindings", "-o", "json"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        let items = list["items"].as_array().unwrap();
        let is_decided = |item: &Value| {
            let conditions = item["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|of| of["type"] == "Scheduled"))
        };
        if items.len() == 3 && items.iter().all(is_decided) {
            Ok(())
        } else {
            Err(list.to_string())
        }
    });
    up
}

/// Runs `berth simulate`, and returns the moves in the format of [`rows`].
fn simulated(up: &Up, arguments: &[&str]) -> Vec<[String; 3]> {
    let mut all = vec!["simulate", "--against", "berth", "-o", "json"];
    all.extend(arguments);
    let Output {
        status,
        stdout,
        stderr,
    } = berth(up.home.path(), &all).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let moves: Value = serde_json::from_slice(&stdout).unwrap();
    let shares = |list: &Value| {
        let list = list.as_array().unwrap();
        let shares = list.iter().map(|of| {
            let name = of["name"].as_str().unwrap();
            match of["replicas"].as_i64().unwrap() {
                0 => name.to_owned(),
                replicas => format!("{name} {replicas}"),
            }
        });
        let text: String = shares.collect();
        if text.is_empty() {
            "none".to_owned()
        } else {
            text
        }
    };
    let moves = moves.as_array().unwrap().iter().map(|of| {
        let binding = &of["binding"];
        let (namespace, name) = (&binding["namespace"], &binding["name"]);
        let name = format!("{}/{}", namespace.as_str().unwrap(), name.as_str().unwrap());
        [name, shares(&of["from"]), shares(&of["clusters"])]
    });
    moves.collect()
}

/// Returns the name of the binding, the previous clusters and the new clusters in each row of the page.
fn rows(page: &str) -> Vec<[String; 3]> {
    let (_, rows) = page.split_once("<tbody>").unwrap_or_default();
    let text = |cell: &str| {
        let (_, content) = cell.split_once('>').unwrap();
        let pieces = content.split('<').enumerate();
        let pieces = pieces.map(|(index, piece)| match index {
            0 => piece,
            _ => piece.split_once('>').map_or("", |(_, text)| text),
        });
        pieces.collect::<String>()
    };
    let rows = rows.split("<tr>").skip(1).map(|row| {
        let mut cells = row.split("<td").skip(1).map(text);
        std::array::from_fn(|_| cells.next().unwrap())
    });
    rows.collect()
}

#[needs(kubectl)]
#[test]
fn the_page_shows_the_same_moves_as_simulate() {
    let up = start();
    let page = Page::of(&up);
    let file = |name: &str, content: &str| {
        let path = up.home.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let nginx = fs::read_to_string(root().join("examples/nginx.yaml")).unwrap();
    let scaled = file("scaled.yaml", &nginx.replace("replicas: 2", "replicas: 7"));
    let cluster = |name: &str| -> Value {
        let cluster = up.kubectl(&["get", "cluster", name, "-o", "json"]);
        serde_json::from_str(&cluster).unwrap()
    };
    let mut joining = cluster("member1");
    joining["metadata"] = json!({"name": "member4", "labels": joining["metadata"]["labels"]});
    joining["spec"].as_object_mut().unwrap().remove("id");
    let joining = file("joining.json", &joining.to_string());
    for (query, arguments, expected) in [
        (
            "change=lose&cluster=member1",
            vec!["--without", "member1"],
            2,
        ),
        (
            "change=taint&cluster=member1&taint=a%3Db%3ANoSchedule",
            vec!["--taint", "member1=a=b:NoSchedule"],
            0,
        ),
        (
            "change=taint&cluster=member1&taint=a%3Db%3ANoExecute",
            vec!["--taint", "member1=a=b:NoExecute"],
            2,
        ),
        (
            "change=scale&binding=default%2Fnginx-deployment&replicas=7",
            vec!["-f", &scaled],
            1,
        ),
        (
            "change=join&cluster=member1&name=member4",
            vec!["-f", &joining],
            1,
        ),
        (
            "change=capacity&cluster=member3&resource=example.com%2Fgpu&amount=8",
            vec!["--capacity", "member3=example.com/gpu=8"],
            1,
        ),
    ] {
        let response = page.get(&format!("/what-if?{query}&run=1"));
        assert!(response.starts_with("HTTP/1.1 200"), "{query}: {response}");
        let simulated = simulated(&up, &arguments);
        assert_eq!(rows(&response), simulated, "{query}");
        assert_eq!(simulated.len(), expected, "{query}: {simulated:?}");
        assert_eq!(response.contains("<path"), expected > 0, "{query}");
        let summary = format!("3 bindings looked at, {expected} would move, 0 would become");
        assert!(response.contains(&summary), "{query}: {response}");
    }
    for (query, expected) in [
        (
            "change=lose&cluster=nowhere&run=1",
            "there is no cluster nowhere",
        ),
        (
            "change=join&cluster=member1&name=member2&run=1",
            "already a cluster member2",
        ),
        (
            "change=scale&binding=a%2Fb&replicas=1&run=1",
            "there is no binding a/b",
        ),
        (
            "change=taint&cluster=member1&run=1",
            "the field Taint is empty",
        ),
    ] {
        let response = page.get(&format!("/what-if?{query}"));
        assert!(response.starts_with("HTTP/1.1 422"), "{query}: {response}");
        assert!(response.contains(expected), "{query}: {response}");
    }
    // The predictions have changed no cluster.
    let clusters = up.kubectl(&["get", "clusters", "-o", "name"]);
    assert_eq!(clusters.lines().count(), 3, "{clusters}");
    assert_eq!(cluster("member1")["spec"]["taints"], Value::Null);
}

#[needs(kubectl, chromium)]
#[test]
fn a_browser_shows_the_moves_of_a_change() {
    let up = start();
    let page = Page::of(&up);
    let mut browser = Browser::start();
    browser.open(&page.url("/fleet"));
    browser.shows(&["member1", "What if …?"]);
    browser.evaluate(
        "document.querySelector('a[href*=\"what-if?change=lose&cluster=member1\"]').click()",
    );
    browser.shows(&["See which bindings a change would move."]);
    browser.wait("document.querySelector('input[name=cluster]').value == 'member1'");
    browser.wait("[...document.querySelectorAll('input:not([type=hidden])')].every((of) => of.labels.length == 1)");
    for (change, name) in [
        ("taint", "Taint a cluster"),
        ("join", "Add a cluster"),
        ("scale", "Scale a workload"),
        ("capacity", "Change capacity"),
        ("lose", "Lose a cluster"),
    ] {
        let link =
            format!("document.querySelector('.choices a[href*=\"change={change}&\"]').click()");
        browser.evaluate(&link);
        browser.wait(&format!(
            "document.readyState == 'complete' && document.querySelector('form')?.ariaLabel == '{name}'"
        ));
        is_readable(&mut browser);
    }
    // The user can reach the form and the result with the keyboard.
    browser.evaluate("document.querySelector('input[name=cluster]').focus()");
    browser.press("Tab", 9);
    browser.wait("document.activeElement.matches('form button')");
    browser.evaluate("document.activeElement.click()");
    browser.shows(&[
        "2 would move",
        "default/nginx-deployment",
        "Limits and remarks",
    ]);
    browser.wait("document.querySelector('.flows').tabIndex == 0");
    browser.wait(
        "(() => {
          const picture = document.querySelector('.flows svg');
          const titles = [...picture.querySelectorAll('path title')].map((of) => of.textContent);
          const widths = [...picture.querySelectorAll('path')].map((of) => of.getBoundingClientRect().width);
          return titles.includes('default/nginx-deployment: 1 replica from member1')
            && titles.includes('default/nginx-deployment: 1 replica to member2')
            && widths.every((of) => of > 100) && picture.getAttribute('role') == 'img';
        })()",
    );
    for (width, scheme) in [
        (400, "light"),
        (400, "dark"),
        (1280, "dark"),
        (1280, "light"),
    ] {
        browser.display(width, scheme);
        browser.picture(&format!("what-if-{width}-{scheme}"));
    }
    is_readable(&mut browser);
    browser.open(&page.url("/bindings/default/nginx-deployment"));
    browser.evaluate("document.querySelector('a[href*=\"what-if?change=scale\"]').click()");
    browser
        .wait("document.querySelector('input[name=binding]')?.value == 'default/nginx-deployment'");
    let failures = browser.evaluate(
        "performance.getEntriesByType('resource').filter((of) => of.responseStatus >= 400).length",
    );
    assert_eq!(failures, 0);
    browser.has_no_errors();
    browser.open(&page.url("/what-if?change=lose&cluster=nowhere&run=1"));
    browser.shows(&["No result: there is no cluster nowhere"]);
    is_readable(&mut browser);
}
