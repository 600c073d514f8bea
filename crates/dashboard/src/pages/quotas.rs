//! The list of FederatedResourceQuotas and ClusterQueues: how much of each limit is used, and which workloads wait for room.

use axum::response::Html as Document;
use berth_api::federated_quota::Amounts;
use berth_api::{ClusterQueue, FederatedResourceQuota};

use super::format::count;
use super::limits::{MAX_QUOTAS, usage_bar, waiting};
use super::parts::{self, Column, text};
use super::{DataState, Tab, frame, queues, still_reading};
use crate::html::Html;
use crate::store::Store;

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
