//! The size of a JSON value in bytes. Callers limit the size of JSON patches and of the statuses that member clusters
//! report.

use std::io::{self, Write};

use serde_json::Value;

/// A writer that counts bytes.
struct Count(usize);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the length of a value as compact JSON, in bytes.
pub fn json_size(value: &Value) -> usize {
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        // A value that cannot be serialized exceeds every bound.
        Err(_) => usize::MAX,
    }
}
