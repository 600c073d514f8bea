//! The text of a queued key in log lines.

use std::fmt::{self, Display};

use super::observe::ObjectName;

/// A key that log lines show.
pub(crate) trait LogKey {
    /// Writes the key as users write it, such as `namespace/name`.
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// The text of a key.
pub(crate) struct KeyText<'a, K>(pub(crate) &'a K);

impl<K: LogKey> Display for KeyText<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_key(f)
    }
}

impl LogKey for String {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl LogKey for &str {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// Namespace and name, or an empty namespace for a cluster-scoped object.
impl LogKey for ObjectName {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = self;
        if namespace.is_empty() {
            f.write_str(name)
        } else {
            write!(f, "{namespace}/{name}")
        }
    }
}
