//! The metric of leader election, with the name that client-go uses.

use super::exposition::{Kind, family, quoted, sample};

/// Writes the metric, which is 1 while this process leads. `lease` is the value of the label `name`.
pub fn encode(out: &mut String, lease: &str, leading: bool) {
    let name = "leader_election_master_status";
    family(out, name, Kind::Gauge, "1 while this process leads.");
    let labels = format!("name={}", quoted(lease));
    sample(out, name, &labels, u8::from(leading));
}
