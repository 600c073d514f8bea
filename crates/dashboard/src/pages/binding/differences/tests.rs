use berth_plan::diff::{
    ClusterDiff, ComparedBinding, FieldDiff, MemberDiff, Origin, Variation, VariationValue,
    WantedDiff,
};
use serde_json::{Value, json};

use super::groups::group;
use super::*;

fn field(name: &str, old: Value, new: Value, origin: Option<Origin>) -> FieldDiff {
    FieldDiff {
        field: name.to_owned(),
        old: Some(old),
        new: Some(new),
        origin,
    }
}

fn wanted_report(clusters: usize) -> WantedReport {
    let name = |index: usize| format!("m{index:03}");
    let diff = |index: usize| WantedDiff {
        cluster: name(index),
        template: vec![
            field(
                "spec.replicas",
                json!(400),
                json!(1 + index % 3),
                Some(Origin::Share),
            ),
            field("image", json!("nginx"), json!("<b>proxy/nginx"), None),
        ],
        override_policies: vec!["OverridePolicy registry".to_owned()],
        notes: vec!["the Work is being deleted".to_owned()],
    };
    let mut report = WantedReport {
        clusters: (0..clusters).map(diff).collect(),
        between_clusters: vec![Variation {
            field: "spec.paused".to_owned(),
            values: vec![VariationValue {
                value: Some(json!(true)),
                clusters: vec![name(0)],
            }],
        }],
        notes: vec!["the template cannot be read".to_owned()],
    };
    let only = field("spec.paused", json!(false), json!(true), None);
    report.clusters[0].template.push(only);
    report
}

#[test]
fn clusters_with_the_same_change_share_a_row() {
    let mut html = Html::default();
    wanted(&mut html, &wanted_report(200), "/members");
    let page = html.into_string();
    for expected in [
        "1 to 3",
        "all 200 clusters",
        "&lt;b&gt;proxy/nginx",
        "OverridePolicy registry",
        "Differences between the clusters",
        "the Work is being deleted",
        "the template cannot be read",
        "href=\"/members\"",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    // Three tables with a head: share, image and paused; paused; the remark.
    assert_eq!(page.matches("<tr").count(), 3 + 3 + 1 + 1, "{page}");
    assert!(page.len() < 20_000, "{} bytes", page.len());
}

#[test]
fn a_change_names_the_policies_of_all_its_clusters() {
    let change = |policies: &[&[&str]]| {
        let diff = field("image", json!("a"), json!("b"), None);
        let policies = policies.iter();
        let policies: Vec<Vec<String>> = policies
            .map(|of| of.iter().map(|name| (*name).to_owned()).collect())
            .collect();
        let of_clusters = policies.iter().map(|of| ("m1", &diff, &of[..]));
        group(of_clusters).pop().unwrap().by()
    };
    assert_eq!(change(&[&["one", "two"], &["two"]]), "two");
    assert_eq!(change(&[&["one"], &["two"]]), "one of one, two");
    assert_eq!(change(&[&[]]), "no override policy");
}

#[test]
fn equal_objects_have_no_table() {
    let mut report = wanted_report(2);
    for of in &mut report.clusters {
        of.template.clear();
    }
    report.between_clusters.clear();
    let mut html = Html::default();
    wanted(&mut html, &report, "/members");
    let page = html.into_string();
    for expected in [
        "The wanted objects in 2 clusters equal the template.",
        "do not differ between the clusters",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
}

/// Returns the page of a comparison with members.
fn members_page(clusters: Vec<ClusterDiff>, notes: &[&str]) -> String {
    let report = DiffReport {
        api_version: String::new(),
        kind: String::new(),
        binding: ComparedBinding {
            kind: "ResourceBinding",
            name: "shop/web".to_owned(),
            resource_kind: "Deployment".to_owned(),
            resource_name: "web".to_owned(),
        },
        clusters,
        between_clusters: Vec::new(),
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    };
    let mut html = Html::default();
    super::members(&mut html, &report, Timestamp::UNIX_EPOCH);
    html.into_string()
}

#[test]
fn a_comparison_without_clusters_has_only_its_note() {
    let page = members_page(Vec::new(), &["no cluster has a copy"]);
    assert!(page.contains("no cluster has a copy"), "{page}");
    for unexpected in ["verdict", "0 of 0", "Compared"] {
        assert!(!page.contains(unexpected), "{unexpected}: {page}");
    }
}

#[test]
fn long_texts_of_members_are_cut_and_grouped() {
    let clusters = (0..20).map(|index| ClusterDiff {
        cluster: format!("m{index:03}"),
        member: MemberDiff::Unreadable {
            reason: format!("{}{index}", "é".repeat(600)),
        },
        template: Vec::new(),
        override_policies: Vec::new(),
        notes: vec![format!("{}{index}", "ü".repeat(600))],
    });
    let page = members_page(clusters.collect(), &[]);
    for character in ["é", "ü"] {
        assert_eq!(page.matches(character).count(), MAX_TEXT, "{page}");
    }
}

#[test]
fn the_comparison_with_members_groups_changes_and_errors() {
    let paused = || vec![field("spec.paused", json!(false), json!(true), None)];
    let members = (0..200).map(|index| match index {
        0..10 => MemberDiff::Different { fields: paused() },
        10..12 => MemberDiff::Unreadable {
            reason: format!("cannot reach cluster m{index:03}: refused"),
        },
        12 => MemberDiff::Absent,
        13 => MemberDiff::NoWork,
        _ => MemberDiff::Equal,
    });
    let clusters = members.enumerate().map(|(index, member)| ClusterDiff {
        cluster: format!("m{index:03}"),
        member,
        template: Vec::new(),
        override_policies: Vec::new(),
        notes: Vec::new(),
    });
    let page = members_page(clusters.collect(), &[]);
    for expected in [
        "verdict failed",
        "186 of 200 copies equal the wanted object, 12 differ, 2 cannot be read",
        "Compared at 00:00:00 UTC",
        "cannot reach the cluster: refused",
        "href=\"/clusters/m010\"",
        "10 of 200 clusters",
        "Members without the object",
        "No Work yet",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert_eq!(page.matches("<tr").count(), 2 + 2, "{page}");
}
