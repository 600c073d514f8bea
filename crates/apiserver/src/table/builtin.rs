//! The columns of built-in kinds.

mod cell;
mod columns;

mod namespaces;
mod network;
mod nodes;
mod policy;
mod workloads;

pub(crate) use cell::Cell;

use super::BuiltinColumn;

/// Returns the columns after the name; the default is the age.
pub(crate) fn builtin_columns(group: &str, plural: &str) -> &'static [BuiltinColumn] {
    let mut kinds = columns::KINDS.iter();
    let found = kinds.find(|(g, p, _)| *g == group && p.split('|').any(|p| p == plural));
    found.map_or(&[cell::AGE], |(.., columns)| columns)
}
