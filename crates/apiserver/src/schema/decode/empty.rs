//! Fields whose empty value differs from an absent field: pointers of the Go types, and fields that are always written.
//! All other optional fields are dropped when they are empty.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The fields of each struct, one struct a line.
static KEPT: LazyLock<HashMap<&str, HashSet<&str>>> = LazyLock::new(|| {
    include_str!("empty.txt")
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(owner, fields)| (owner, fields.split(' ').collect()))
        .collect()
});

/// Reports whether an empty value of a field is kept.
pub(super) fn is_kept(owner: &str, field: &str) -> bool {
    KEPT.get(owner).is_some_and(|fields| fields.contains(field))
}

/// Returns all fields of the table.
#[cfg(test)]
pub(super) fn fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEPT.iter()
        .flat_map(|(owner, fields)| fields.iter().map(move |field| (*owner, *field)))
}
