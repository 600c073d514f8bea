//! The columns of the built-in kinds, by group of kinds.

mod cell;

mod certificates;
mod namespaces;
mod network;
mod nodes;
mod policy;
mod storage;
mod workloads;

use super::BuiltinColumn;

/// The columns after the name. Kinds without any of their own have their age.
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
