//! Runner of the example programs in `examples/extender`.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running example program. The process is killed when the value is dropped.
#[derive(Debug)]
pub struct ExampleExtender(Child);

impl Drop for ExampleExtender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an example program on a free port, and returns the program and its URL. The test needs `#[needs(python3)]`.
///
/// # Panics
/// If the program does not start.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub fn start(program: &str, arguments: &[&OsStr]) -> (ExampleExtender, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/extender");
    let started = Command::new("python3")
        .arg(folder.join(program))
        .args(["--port", "0"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = started.unwrap();
    let mut url = String::new();
    let printed = child.stdout.take().unwrap();
    BufReader::new(printed).read_line(&mut url).unwrap();
    (ExampleExtender(child), url.trim().to_owned())
}
