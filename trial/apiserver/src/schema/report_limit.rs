//! The limit on the unknown and duplicate fields that a response reports. A body may contain many such fields with long
//! paths.

/// Maximum number of reported fields.
pub(crate) const MAX_FIELDS: usize = 100;
/// Maximum total size of the paths of the reported fields, in bytes. The last path may exceed it.
const MAX_BYTES: usize = 64 << 10;

/// Reports whether a response that reports fields with these paths can report another field.
pub(crate) fn has_space<'a>(paths: impl ExactSizeIterator<Item = &'a String>) -> bool {
    paths.len() < MAX_FIELDS && paths.map(String::len).sum::<usize>() < MAX_BYTES
}
