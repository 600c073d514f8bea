//! A wall clock that a test can set for a process. The library in `shim.rs` implements it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An adjustable wall clock.
pub(crate) struct Clock {
    library: PathBuf,
    offset: PathBuf,
}

impl Clock {
    /// Compiles the library, and sets the offset to zero.
    pub(crate) fn make(folder: &Path) -> Self {
        let clock = Self {
            library: folder.join("libwall_clock.so"),
            offset: folder.join("wall-clock-offset"),
        };
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/service/clock_jumps/shim.rs");
        let compiled = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()))
            .args(["--edition=2024", "--crate-type=cdylib", "-o"])
            .args([&clock.library, &source])
            .status()
            .unwrap();
        assert!(compiled.success(), "the shim does not compile");
        clock.jump_to(0);
        clock
    }

    /// Sets the offset from the machine's clock in seconds. The file is renamed into place, so that a reader never sees
    /// a part of it.
    pub(crate) fn jump_to(&self, seconds: i64) {
        let next = self.offset.with_extension("next");
        fs::write(&next, seconds.to_string()).unwrap();
        fs::rename(&next, &self.offset).unwrap();
    }

    /// Returns the environment variables with which a process uses this clock.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 2] {
        [
            ("LD_PRELOAD", self.library.as_path()),
            ("WALL_CLOCK_OFFSET", self.offset.as_path()),
        ]
    }
}
