//! The metric of leader election, with the name that client-go uses.

use berth_metrics::{ConstGauge, Registry, Series};

/// Registers the metric, which is 1 while this process leads. `lease` is the value of the label `name`.
pub fn register(registry: &mut Registry, lease: &str, leading: bool) {
    let labels = [("name", lease.to_owned())];
    registry.register(
        "leader_election_master_status",
        "1 while this process leads.",
        Series::new([(labels, ConstGauge::new(i64::from(leading)))]),
    );
}
