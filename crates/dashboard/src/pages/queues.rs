//! The ClusterQueues on the page of quotas: their usage, their bindings, and the workloads that wait for room.

use berth_api::ClusterQueue;

use super::format::count;
use super::limits::{MAX_QUOTAS, usage_bar, waiting};
use super::parts::{self, Column, text};
use crate::html::Html;
use crate::store::Store;

/// Writes the ClusterQueues, or nothing if there are none. `queues` is the reason if they cannot be read.
pub(super) fn section(html: &mut Html, store: &Store, queues: &Result<Vec<ClusterQueue>, String>) {
    match queues {
        Err(reason) => {
            let text = format!("The ClusterQueues cannot be read: {reason}");
            html.leaf("p", &[("class", &"muted")], text);
        }
        Ok(queues) if queues.is_empty() => {}
        Ok(queues) => {
            html.leaf("h2", &[], "ClusterQueues");
            table(html, store, queues);
        }
    }
}

fn table(html: &mut Html, store: &Store, queues: &[ClusterQueue]) {
    let columns: [Column; 6] = [
        text("Queue"),
        text("Cohort"),
        text("Pending"),
        text("Admitted"),
        text("Used"),
        text("Waiting workloads"),
    ];
    let [c_queue, c_cohort, c_pending, c_admitted, c_used, c_waiting] = &columns;
    parts::table(html, "ClusterQueues", &columns, |html| {
        for queue in queues.iter().take(MAX_QUOTAS) {
            let name = queue.metadata.name.as_deref().unwrap_or_default();
            let status = queue.status.clone().unwrap_or_default();
            let subject = format!("ClusterQueue {name}: ");
            let cohort = queue.spec.cohort_name.as_deref().unwrap_or("-");
            html.el("tr", &[], |html| {
                parts::cell(html, c_queue, |html| html.text(name));
                parts::cell(html, c_cohort, |html| html.text(cohort));
                parts::cell(html, c_pending, |html| html.text(status.pending_bindings));
                parts::cell(html, c_admitted, |html| html.text(status.admitted_bindings));
                parts::cell(html, c_used, |html| usage(html, queue));
                parts::cell(html, c_waiting, |html| waiting(html, store, &subject));
            });
        }
    });
    if queues.len() > MAX_QUOTAS {
        let text = format!("The list shows the first {} queues.", count(MAX_QUOTAS));
        html.leaf("p", &[("class", &"muted")], text);
    }
}

/// Writes a bar for each resource: the share of the nominal quota, and the borrowed amount.
fn usage(html: &mut Html, queue: &ClusterQueue) {
    let status = queue.status.as_ref();
    let usages = status
        .map(|status| status.usage.as_slice())
        .unwrap_or_default();
    for quota in &queue.spec.quotas {
        let used = usages.iter().find(|usage| usage.name == quota.name);
        let total = used.map_or("0", |usage| &usage.total.0);
        let borrowed = used.map_or("0", |usage| &usage.borrowed.0);
        let mut label = format!("{}: {total} of {}", quota.name, quota.nominal_quota.0);
        if borrowed != "0" {
            label = format!("{label}, {borrowed} borrowed");
        }
        let nominal = quota.nominal_quota.parse().ok();
        let share = nominal.zip(used.and_then(|usage| usage.total.parse().ok()));
        usage_bar(
            html,
            share.map(|(nominal, total)| total.ratio(nominal)),
            &label,
        );
    }
}
