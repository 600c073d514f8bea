//! The list of policies, and the page of one policy: what it selects, where it went, and how well its workloads are. The
//! bindings name their policies, so that the pages need no requests.

use std::collections::BTreeMap;

use axum::response::Html as Document;
use berth_api::BindingKey;
use berth_diagnosis::{Health, HealthCounts};
use jiff::Timestamp;

use super::bindings;
use super::format::{count, counted, policy_path, thousands};
use super::parts::{self, Column, Tone, number, text};
use super::{DataState, Tab, frame, not_found, still_reading};
use crate::binding_query::{PAGE_SIZE, encode};
use crate::html::Html;
use crate::store::{BindingRow, PolicyName, Store};

/// Maximum number of policies in the list.
const MAX_POLICIES: usize = 200;
/// Maximum number of clusters in the table of one policy.
const MAX_CLUSTERS: usize = 50;

type Row<'a> = (&'a BindingKey, &'a BindingRow);

/// Returns the list of policies.
pub(crate) fn list(store: &Store) -> Document<String> {
    let now = Timestamp::now();
    frame("Policies", Tab::Policies, &DataState::of(store), |html| {
        html.leaf("h1", &[], "Policies");
        let lead = "The policies that hold workloads, those with problems first.";
        html.leaf("p", &[("class", &"muted")], lead);
        html.leaf("a", &[("href", &"/quotas")], "Quotas of namespaces");
        html.el("div", &[("data-live", &"policies")], |html| {
            still_reading(html, store);
            let mut of_policy: BTreeMap<&PolicyName, Vec<Row<'_>>> = BTreeMap::new();
            for (name, row) in &store.bindings {
                if let Some(policy) = &row.policy {
                    of_policy.entry(policy).or_default().push((name, row));
                }
            }
            if of_policy.is_empty() {
                html.leaf("p", &[("class", &"muted")], "No policy holds a workload.");
                return;
            }
            let mut policies: Vec<(&PolicyName, Vec<Row<'_>>, HealthCounts)> = of_policy
                .into_iter()
                .map(|(policy, rows)| {
                    let counts = counts(&rows, now);
                    (policy, rows, counts)
                })
                .collect();
            policies.sort_by_key(|(_, _, counts)| {
                let bad = Health::WORST_FIRST.map(|health| counts.of(health));
                let [broken, stuck, degraded, ..] = bad;
                std::cmp::Reverse((broken, stuck, degraded))
            });
            table(html, &policies);
            if let Some(more) = policies.len().checked_sub(MAX_POLICIES + 1) {
                let text = format!("and {} more", count(more + 1));
                html.leaf("p", &[("class", &"muted")], text);
            }
        });
    })
}

fn counts(rows: &[Row<'_>], now: Timestamp) -> HealthCounts {
    let mut counts = HealthCounts::default();
    for (_, row) in rows {
        counts.add(row.workload.health_at(now));
    }
    counts
}

fn table(html: &mut Html, policies: &[(&PolicyName, Vec<Row<'_>>, HealthCounts)]) {
    let columns: [Column; 4] = [
        text("Policy"),
        text("Health of its workloads"),
        number("Workloads"),
        number("Clusters"),
    ];
    let [c_policy, c_health, c_workloads, c_clusters] = &columns;
    parts::table(html, "Policies", &columns, |html| {
        for (policy, rows, counts) in policies.iter().take(MAX_POLICIES) {
            html.el("tr", &[], |html| {
                parts::cell(html, c_policy, |html| {
                    let path = policy_path(policy);
                    html.leaf("a", &[("href", &path), ("class", &"name")], policy);
                    html.leaf("span", &[("class", &"sub")], policy.kind());
                });
                parts::cell(html, c_health, |html| {
                    html.el("span", &[("class", &"badges")], |html| {
                        for health in Health::WORST_FIRST {
                            let number = counts.of(health);
                            if number > 0 {
                                let label = format!("{} {health}", count(number));
                                parts::badge(html, Tone::of(health), &label);
                            }
                        }
                    });
                });
                parts::cell(html, c_workloads, |html| html.text(count(rows.len())));
                parts::cell(html, c_clusters, |html| {
                    html.text(count(clusters(rows).len()));
                });
            });
        }
    });
}

/// Returns the numbers of workloads and replicas in each cluster.
fn clusters<'a>(rows: &[Row<'a>]) -> BTreeMap<&'a str, (usize, i64)> {
    let mut clusters: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    for (_, row) in rows {
        for (cluster, of_cluster) in row.copies() {
            let (workloads, replicas) = clusters.entry(cluster).or_default();
            *workloads += 1;
            *replicas += i64::from(of_cluster);
        }
    }
    clusters
}

/// Returns the page of a policy.
pub(crate) fn page(store: &Store, policy: &PolicyName) -> Document<String> {
    let data = DataState::of(store);
    let now = Timestamp::now();
    let of_policy = |row: &BindingRow| row.policy.as_ref() == Some(policy);
    let mut rows: Vec<Row<'_>> = store
        .bindings
        .iter()
        .filter(|(_, row)| of_policy(row))
        .collect();
    if rows.is_empty() {
        return not_found(&data);
    }
    rows.sort_by_key(|(_, row)| row.workload.rank(now));
    let title = format!("{} {policy}", policy.kind());
    let query = encode(&policy.key());
    frame(&title, Tab::Policies, &data, |html| {
        html.leaf("h1", &[], &title);
        html.el("div", &[("data-live", &"policy")], |html| {
            html.leaf("h2", &[], "Health of its workloads");
            parts::health_tiles(html, &counts(&rows, now), |health| {
                format!("/bindings?policy={query}&health={}", health.as_str())
            });
            html.leaf("h2", &[], "What it selects");
            html.leaf("p", &[], kinds(&rows));
            html.leaf("h2", &[], "Where it went");
            places(html, &rows);
            html.leaf("h2", &[], "Workloads");
            bindings::table(html, rows.get(..PAGE_SIZE).unwrap_or(&rows), now);
            if rows.len() > PAGE_SIZE {
                let path = format!("/bindings?policy={query}");
                let label = format!("All {}", counted(rows.len(), "workload"));
                html.leaf("a", &[("href", &path)], label);
            }
        });
    })
}

/// Returns the numbers of workloads by kind, and their namespaces, in words.
fn kinds(rows: &[Row<'_>]) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut namespaces: Vec<&str> = Vec::new();
    for (_, row) in rows {
        *kinds.entry(&row.workload.kind).or_default() += 1;
        namespaces.push(&row.workload.namespace);
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    let kinds = kinds
        .into_iter()
        .map(|(kind, number)| format!("{kind} ({})", count(number)));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    match &namespaces[..] {
        [""] => kinds,
        [only] => format!("{kinds} in the namespace {only}"),
        many => format!("{kinds} in {}", counted(many.len(), "namespace")),
    }
}

fn places(html: &mut Html, rows: &[Row<'_>]) {
    let clusters = clusters(rows);
    if clusters.is_empty() {
        html.leaf("p", &[("class", &"muted")], "Nowhere.");
        return;
    }
    let mut places: Vec<(&str, (usize, i64))> = clusters.into_iter().collect();
    places.sort_by_key(|(_, load)| std::cmp::Reverse(*load));
    let columns = [text("Cluster"), number("Workloads"), number("Replicas")];
    let [c_cluster, c_workloads, c_replicas] = &columns;
    parts::table(html, "Clusters", &columns, |html| {
        for (cluster, (workloads, replicas)) in places.iter().take(MAX_CLUSTERS) {
            html.el("tr", &[], |html| {
                parts::cell(html, c_cluster, |html| parts::cluster_link(html, cluster));
                parts::cell(html, c_workloads, |html| html.text(count(*workloads)));
                parts::cell(html, c_replicas, |html| html.text(thousands(*replicas)));
            });
        }
    });
    if let Some(more) = places.len().checked_sub(MAX_CLUSTERS + 1) {
        let text = format!("and {} more clusters", count(more + 1));
        html.leaf("p", &[("class", &"muted")], text);
    }
}
