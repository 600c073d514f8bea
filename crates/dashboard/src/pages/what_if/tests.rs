use std::collections::BTreeMap;

use berth_api::BindingKey;
use berth_engine::Explanation;
use berth_plan::what_if::{Change, Decision, Failure, FleetChange};
use k8s_openapi::api::core::v1::Taint;

use super::*;

fn form(query: &str) -> Form {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let pairs: BTreeMap<String, String> = pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Form::new(&pairs)
}

#[test]
fn a_sent_form_is_a_change_or_an_error() {
    let cluster = || "m1".to_owned();
    for (query, expected) in [
        ("", None),
        ("change=lose&cluster=m1", None),
        (
            "change=lose&cluster=m1&run=1",
            Some(Ok(Change::Fleet(FleetChange::Lose { cluster: cluster() }))),
        ),
        (
            "change=join&cluster=m1&name=m2&run=1",
            Some(Ok(Change::Fleet(FleetChange::Join {
                cluster: "m2".to_owned(),
                like: cluster(),
            }))),
        ),
        (
            "change=scale&binding=shop/web&replicas=3&run=1",
            Some(Ok(Change::Scale {
                binding: BindingKey::new("shop", "web"),
                replicas: 3,
            })),
        ),
        (
            "change=lose&run=1",
            Some(Err("the field Cluster is empty; enter name")),
        ),
        (
            "change=scale&binding=web&replicas=-1&run=1",
            Some(Err("the replicas must be a number of 0 or more")),
        ),
        (
            "change=capacity&cluster=m1&resource=cpu&amount=much&run=1",
            Some(Err("\"much\" is not a quantity, such as 64 or 256Gi")),
        ),
        (
            "change=taint&cluster=m1&taint=a:PreferNoSchedule&run=1",
            Some(Err(
                "the effect \"PreferNoSchedule\" must be NoSchedule or NoExecute",
            )),
        ),
    ] {
        let expected = expected.map(|of| of.map_err(str::to_owned));
        assert_eq!(form(query).change(), expected, "{query}");
    }
    // A value may contain an equals sign.
    let mut pairs = BTreeMap::new();
    for (name, value) in [
        ("change", "taint"),
        ("cluster", "m1"),
        ("taint", "a=b:NoExecute"),
        ("run", "1"),
    ] {
        pairs.insert(name.to_owned(), value.to_owned());
    }
    let taint = Taint {
        key: "a".to_owned(),
        value: Some("b".to_owned()),
        effect: "NoExecute".to_owned(),
        time_added: None,
    };
    let form = Form::new(&pairs);
    assert_eq!(
        form.change(),
        Some(Ok(Change::Fleet(FleetChange::Taint {
            cluster: cluster(),
            taint
        })))
    );
    assert_eq!(
        form.command(),
        "berth simulate --against CONTEXT --taint m1=a=b:NoExecute"
    );
}

/// Returns the move of a binding that could be placed before the change.
pub(super) fn moved(index: usize, from: &[(&str, i32)], to: &[(&str, i32)]) -> Move {
    let shares = |of: &[(&str, i32)]| -> Vec<Share> {
        let shares = of.iter().map(|&(name, replicas)| Share {
            name: name.to_owned(),
            replicas,
        });
        shares.collect()
    };
    let decision = Decision {
        key: BindingKey::new("shop", &format!("web-{index:02}")),
        replicas: Some(1),
        affinity: None,
        clusters: shares(to),
        failure: None,
        rejections: None,
        explanation: Explanation::default(),
        warnings: Vec::new(),
        tie: None,
    };
    Move::new(shares(from), true, decision)
}

#[test]
fn the_diagram_has_a_line_for_each_flow() {
    let mut html = Html::default();
    let mut lost = moved(1, &[("a", 2)], &[]);
    lost.to.failure = Some(Failure {
        kind: "NoClusterFit",
        message: "0/2 clusters".to_owned(),
    });
    diagram::write(
        &mut html,
        &[
            moved(0, &[("a", 2), ("b", 1)], &[("b", 3)]),
            lost,
            moved(2, &[("b", 1)], &[("b", 4)]),
        ],
    );
    let picture = html.into_string();
    for expected in [
        "<title>shop/web-00: 2 replicas from a</title>",
        "<title>shop/web-00: 2 replicas to b</title>",
        "<title>shop/web-01: 2 replicas removed</title>",
        "<title>shop/web-02: 3 replicas new</title>",
        ">no cluster</text>",
        ">new</text>",
    ] {
        assert!(picture.contains(expected), "{expected}: {picture}");
    }
    assert_eq!(picture.matches("<path").count(), 6, "{picture}");
    // Three bindings, two clusters, and the two ends without a cluster.
    assert_eq!(picture.matches("<rect").count(), 3 + 2 + 2, "{picture}");
}

#[test]
fn a_page_of_many_moves_is_bounded() {
    let mut predicted = Moves::default();
    for index in 0..2000 {
        let from: Vec<String> = (0..200).map(|of| format!("member-{of:03}")).collect();
        let from: Vec<(&str, i32)> = from.iter().map(|of| (of.as_str(), 1)).collect();
        predicted.add(moved(index, &from, &[("new", 200)]));
    }
    predicted.truncate(MAX_MOVES);
    assert_eq!(replicas(&predicted.moves[0].from), 200);
    let form = form("change=lose&cluster=m1&run=1&page=2");
    let mut html = Html::default();
    moves(&mut html, &form, &predicted);
    let page = html.into_string();
    assert_eq!(page.matches("data-label=\"Binding\"").count(), PAGE_SIZE);
    assert!(page.contains("The first 1,000 of 2,000 moves are listed"));
    assert!(page.contains("change=lose&amp;run=1&amp;cluster=m1&amp;page=3"));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(
        predicted
            .summary(count)
            .starts_with("2,000 bindings looked at, 2,000 would move, 0")
    );
}

#[test]
fn hostile_values_are_escaped() {
    let hostile = "<script>alert(1)</script>";
    let pairs = ["change", "cluster", "binding"].map(|name| (name.to_owned(), hostile.to_owned()));
    let form = Form::new(&BTreeMap::from(pairs));
    let reason = Err(hostile.to_owned());
    let Document(page) = page(&Store::default(), &form, Some(&reason));
    assert!(!page.contains(hostile), "{page}");
}
