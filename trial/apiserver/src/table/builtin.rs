//! The parent module of the table columns of built-in kinds: `columns` lists the columns, and the other submodules
//! compute the cells that need more than one field.

mod cell;
mod columns;

mod network;
mod other_kinds;
mod pods_and_nodes;
mod workloads;

pub(crate) use cell::Cell;
pub(crate) use columns::builtin_columns;
