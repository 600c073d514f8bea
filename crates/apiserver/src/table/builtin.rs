//! The columns of built-in kinds.

mod cell;

mod certificates;
mod namespaces;
mod network;
mod nodes;
mod policy;
mod storage;
mod workloads;

use super::BuiltinColumn;

/// Returns the columns after the name; the default is the age.
pub(crate) fn builtin_columns(group: &str, plural: &str) -> &'static [BuiltinColumn] {
    let groups = [
        namespaces::columns,
        nodes::columns,
        storage::columns,
        workloads::columns,
        network::columns,
        policy::columns,
        certificates::columns,
    ];
    groups
        .iter()
        .find_map(|columns| columns(group, plural))
        .unwrap_or(const { &[cell::AGE] })
}
