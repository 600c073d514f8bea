//! The entry point of the fuzz target for responses of extenders.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::BindingKey;

use super::answers::{Names, Request};
use super::messages::{decode, parse_object};
use super::wire::BindingResult;
use crate::framework::Victim;

/// Decodes bytes as the response to a request of each verb. The requests contain the clusters `m1` and `m2`.
pub fn decode_response(response: &[u8]) {
    let clusters: Names = ["m1", "m2"].map(Arc::from).into();
    let victims = ["m1", "m2"].map(|cluster| Victim {
        key: BindingKey::new("default", "web"),
        cluster: cluster.to_owned(),
    });
    for request in [
        Request::Filter(Arc::clone(&clusters)),
        Request::Prioritize(clusters),
        Request::Preempt(Arc::new(BTreeSet::from(victims))),
    ] {
        for names_only in [true, false] {
            let _ = decode(&request, i64::MAX, names_only, response);
        }
    }
    let _ = parse_object::<BindingResult>(response);
}
