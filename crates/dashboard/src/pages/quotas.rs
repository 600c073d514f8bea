//! The list of FederatedResourceQuotas and ClusterQueues: how much of each limit is used, and which workloads wait for room.

use std::fmt::Display;

use axum::response::Html as Document;
use berth_api::federated_quota::Amounts;
use berth_api::{ClusterQueue, FederatedResourceQuota};
use berth_diagnosis::Reason;

use super::format::{count, path};
use super::parts::{self, Column, bar, text};
use super::{DataState, Tab, frame, queues, still_reading};
use crate::html::Html;
use crate::store::Store;

/// Maximum number of quotas in the list. The server reads one more.
pub(crate) const MAX_QUOTAS: usize = 200;
/// Maximum number of waiting workloads of a quota.
const MAX_WAITING: usize = 10;

/// Returns the list of quotas and queues. `quotas` or `cluster_queues` is the reason if they cannot be read.
pub(crate) fn list(
    store: &Store,
    quotas: &Result<Vec<FederatedResourceQuota>, String>,
    cluster_queues: &Result<Vec<ClusterQueue>, String>,
) -> Document<String> {
    frame("Quotas", Tab::Policies, &DataState::of(store), |html| {
        html.leaf("h1", &[], "Quotas");
        let lead = "How much of each FederatedResourceQuota is used, and the workloads that wait for room.";
        html.leaf("p", &[("class", &"muted")], lead);
        html.el("div", &[("data-live", &"quotas")], |html| {
            still_reading(html, store);
            match quotas {
                Err(reason) => {
                    let text = format!("The quotas cannot be read: {reason}");
                    html.leaf("p", &[("class", &"muted")], text);
                }
                Ok(quotas) if quotas.is_empty() => {
                    html.leaf("p", &[("class", &"muted")], "There are no quotas.");
                }
                Ok(quotas) => table(html, store, quotas),
            }
            queues::section(html, store, cluster_queues);
        });
    })
}

fn table(html: &mut Html, store: &Store, quotas: &[FederatedResourceQuota]) {
    let columns: [Column; 3] = [text("Quota"), text("Used"), text("Waiting workloads")];
    let [c_quota, c_used, c_waiting] = &columns;
    parts::table(html, "Quotas", &columns, |html| {
        for quota in quotas.iter().take(MAX_QUOTAS) {
            let name = name(quota);
            html.el("tr", &[], |html| {
                parts::cell(html, c_quota, |html| html.text(&name));
                parts::cell(html, c_used, |html| usage(html, quota));
                let subject = format!("quota {name}: ");
                parts::cell(html, c_waiting, |html| waiting(html, store, &subject));
            });
        }
    });
    if quotas.len() > MAX_QUOTAS {
        let text = format!("The list shows the first {} quotas.", count(MAX_QUOTAS));
        html.leaf("p", &[("class", &"muted")], text);
    }
}

/// Returns the namespace and the name of a quota.
fn name(quota: &FederatedResourceQuota) -> String {
    let metadata = &quota.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    format!(
        "{namespace}/{}",
        metadata.name.as_deref().unwrap_or_default()
    )
}

/// Writes a bar for each resource.
fn usage(html: &mut Html, quota: &FederatedResourceQuota) {
    let status = quota.status.clone().unwrap_or_default();
    let used = Amounts::of(&status.overall_used);
    for (resource, limit) in &quota.spec.overall {
        let amount = used.get(resource);
        let label = format!("{resource}: {amount} of {}", limit.0);
        let share = limit.parse().ok().map(|limit| amount.ratio(limit));
        usage_bar(html, share, &label);
    }
}

/// Writes a usage as a label, with a bar if its share of the limit is known.
pub(super) fn usage_bar(html: &mut Html, share: Option<f64>, label: &str) {
    let attributes: [(&str, &dyn Display); 2] = [("class", &"capacity"), ("title", &label)];
    html.el("span", &attributes, |html| {
        if let Some(share) = share {
            bar(html, permille(share), label);
        }
        html.leaf("span", &[], label);
    });
}

/// Returns a share as thousandths from 0 to 1000.
fn permille(share: f64) -> i64 {
    if share.is_nan() {
        return 0;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value is from 0 to 1000"
    )]
    let permille = (share.clamp(0.0, 1.0) * 1000.0) as i64;
    permille
}

/// Writes the workloads that a limit refuses. Their verdicts start with `subject`.
pub(super) fn waiting(html: &mut Html, store: &Store, subject: &str) {
    let mut waiting = store.bindings.iter().filter(|(_, row)| {
        row.workload.reason == Some(Reason::QuotaExceeded)
            && row.workload.verdict.starts_with(subject)
    });
    for (key, row) in waiting.by_ref().take(MAX_WAITING) {
        html.leaf("a", &[("href", &path(key)), ("class", &"name")], key);
        html.leaf("span", &[("class", &"sub")], &row.workload.verdict);
    }
    match waiting.count() {
        0 => {}
        more => html.leaf(
            "span",
            &[("class", &"sub")],
            format!("and {} more", count(more)),
        ),
    }
}
