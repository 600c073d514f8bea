//! The table columns of built-in kinds. The submodules compute the cells that need more than one field.

mod cell;
mod columns;

mod network;
mod other_kinds;
mod pods_and_nodes;
mod workloads;

pub(crate) use cell::Cell;
pub(crate) use columns::builtin_columns;
