//! Parts of the page of quotas that FederatedResourceQuotas and ClusterQueues share.

use std::fmt::Display;

use berth_diagnosis::Reason;

use super::format::{count, path};
use super::parts::bar;
use crate::html::Html;
use crate::store::Store;

/// Maximum number of quotas, and of queues, in the list. The server reads one more.
pub(crate) const MAX_QUOTAS: usize = 200;
/// Maximum number of waiting workloads of a quota.
const MAX_WAITING: usize = 10;

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
