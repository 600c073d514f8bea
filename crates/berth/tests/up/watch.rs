//! Tests of `berth watch`: the lines that the command prints into a pipe, and the screen that it shows on a terminal.

use berth_test_requirements::needs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::program::{Up, berth, line, root, until};

/// A running `berth watch` that prints lines into a pipe. Dropping it kills the process.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watch {
    fn start(up: &Up) -> Self {
        let mut command = berth(up.home.path(), &["watch"]);
        command
            .env("KUBECONFIG", up.kubeconfig())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a line that contains all parts, and returns the line.
    fn wait_for_line(&self, parts: &[&str]) -> String {
        let mut others = Vec::new();
        loop {
            match self.lines.recv_timeout(Duration::from_mins(1)) {
                Ok(line) if parts.iter().all(|part| line.contains(part)) => return line,
                Ok(line) => others.push(line),
                Err(error) => panic!("no line with {parts:?} ({error}) in {others:#?}"),
            }
        }
    }
}

#[needs(kubectl)]
#[test]
fn each_change_is_a_line() {
    let up = Up::start(&["--members=2"]);
    let watch = Watch::start(&up);
    watch.wait_for_line(&["member1", "cluster", "ready"]);
    let example = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", &example.display().to_string()]);
    let placed = watch.wait_for_line(&["default/nginx-deployment", "placed"]);
    assert!(placed.ends_with("member1:1, member2:1"), "{placed}");
    watch.wait_for_line(&["default/nginx-deployment", "reported", "member"]);
    watch.wait_for_line(&[
        "default/nginx-deployment  well ",
        "2 of 2 replicas are ready in 2 clusters",
    ]);
    let taint = r#"{"spec":{"taints":[{"key":"down","effect":"NoExecute"}]}}"#;
    up.kubectl(&["patch", "cluster", "member1", "--type=merge", "-p", taint]);
    watch.wait_for_line(&["default/nginx-deployment", "leaving", "member1"]);
    let moved = watch.wait_for_line(&["default/nginx-deployment", "moved", "-> member2:2"]);
    assert!(!moved.contains("-> member1"), "{moved}");
    up.kubectl(&["delete", "-f", &example.display().to_string()]);
    watch.wait_for_line(&["default/nginx-deployment", "gone"]);
}

#[needs(kubectl)]
#[test]
fn a_signal_or_a_closed_stdout_ends_the_command() {
    let up = Up::start(&["--members=1"]);
    let mut watch = Watch::start(&up);
    watch.wait_for_line(&["member1"]);
    let sent = Command::new("kill")
        .args(["-INT", &watch.child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    assert!(watch.child.wait().unwrap().success());

    let mut command = berth(up.home.path(), &["watch"]);
    command
        .env("KUBECONFIG", up.kubeconfig())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    drop(out);
    let change = r#"{"spec":{"taints":[]},"metadata":{"labels":{"a":"b"}}}"#;
    up.kubectl(&["patch", "cluster", "member1", "--type=merge", "-p", change]);
    up.kubectl(&["delete", "cluster", "member1", "--wait=false"]);
    assert!(
        child.wait().unwrap().success(),
        "the command fails although only its stdout was closed"
    );
}

#[test]
fn the_error_about_an_unreachable_control_plane_contains_its_url() {
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    std::fs::write(
        &kubeconfig,
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n\
         clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n",
    )
    .unwrap();
    let output = berth(home.path(), &["watch"])
        .env("KUBECONFIG", &kubeconfig)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        line(&output).contains("cannot reach the control plane at https://127.0.0.1:1"),
        "{output:?}"
    );
}

/// A shell in a terminal of 24 rows and 80 columns. The shell runs `berth watch`, and then prints the exit code and the
/// modes of the terminal.
struct OnTerminal {
    script: Child,
    shown: Arc<Mutex<String>>,
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

impl OnTerminal {
    fn start(up: &Up) -> Self {
        let berth = env!("CARGO_BIN_EXE_berth");
        let line = format!(
            "stty rows 24 cols 80; echo $$ > pid; '{berth}' watch; echo \"ended with $?\"; stty -a; echo that is all"
        );
        let script = Command::new("script")
            .args(["--quiet", "--command", &line, "/dev/null"])
            .current_dir(up.home.path())
            .env("KUBECONFIG", up.kubeconfig())
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut script = script.unwrap();
        let mut out = script.stdout.take().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                sink.lock().unwrap().push_str(&text);
            }
        });
        Self { script, shown }
    }

    fn shows(&self, text: &str) -> String {
        until(text, || {
            let shown = self.shown.lock().unwrap().clone();
            if shown.contains(text) {
                Ok(shown)
            } else {
                Err(shown)
            }
        })
    }

    /// Clears the recorded output, and sends keys to the terminal.
    fn press(&mut self, keys: &str) {
        self.shown.lock().unwrap().clear();
        let mut stdin = self.script.stdin.as_ref().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Asserts that `berth watch` succeeded and restored the modes of the terminal.
    fn assert_restored(&self) {
        let shown = self.shows("that is all");
        let (screen, after) = shown.split_once("ended with 0").unwrap();
        assert!(screen.contains("\u{1b}[?25h\u{1b}[?1049l"), "{shown:?}");
        let words: Vec<&str> = after.split_whitespace().collect();
        for mode in ["echo", "icanon", "isig"] {
            assert!(words.contains(&mode), "{mode}: {after}");
        }
        assert!(after.contains("susp = ^Z"), "{after}");
    }
}

#[needs(script)]
#[test]
fn keys_work_and_the_terminal_is_restored_at_the_end() {
    let up = Up::start(&["--members=2"]);
    let mut watch = OnTerminal::start(&up);
    watch.shows("member1");
    watch.press("?");
    let help = watch.shows("scroll by a page");
    assert!(
        !help.contains("?\r") && !help.starts_with('?'),
        "the terminal echoes the key: {help:?}"
    );
    watch.press("x/member2\r");
    watch.shows("with \"member2\"");
    watch.press("q");
    watch.assert_restored();

    let watch = OnTerminal::start(&up);
    watch.shows("member1");
    let shell = std::fs::read_to_string(up.home.path().join("pid")).unwrap();
    let shell = shell.trim();
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let killed = Command::new("kill").arg(children.trim()).status();
    assert!(killed.unwrap().success());
    watch.assert_restored();
}
