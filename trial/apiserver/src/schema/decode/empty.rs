//! Fields whose empty value differs from an absent field: fields that are pointers in Go, and fields without
//! `omitempty`. An empty value of any other optional scalar field is removed.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The fields of each struct whose empty value is kept. Each line of `empty.txt` contains one struct.
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

/// Returns all structs and fields of the table.
#[cfg(test)]
pub(super) fn fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEPT.iter()
        .flat_map(|(owner, fields)| fields.iter().map(move |field| (*owner, *field)))
}
