//! A headless Chromium that the dashboard tests control through the DevTools protocol on a pipe.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::until;

/// Maximum time until the browser responds to a call.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Arguments of the browser. Some of them disable its background requests.
const ARGUMENTS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
];

/// A browser with one page. Dropping it kills the process.
pub(crate) struct Browser {
    child: Child,
    requests: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// Errors of scripts, and violations of the content security policy.
    errors: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts a browser with an empty page. Tests that call this function need the attribute `#[needs(chromium)]`.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads requests from descriptor 3 and writes responses to descriptor 4.
        let redirect = "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", redirect, "chromium"])
            .args(ARGUMENTS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap();
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            requests,
            messages,
            session: None,
            last: 0,
            errors: Vec::new(),
            _profile: profile,
        };
        let blank = json!({"url": "about:blank"});
        let target = browser.call("Target.createTarget", &blank).unwrap();
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &target).unwrap();
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({})).unwrap();
        }
        browser
    }

    /// Calls a method of the protocol. Returns the result or the error in the browser's response.
    fn call(&mut self, method: &str, parameters: &Value) -> Result<Value, Value> {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        self.requests.write_all(&bytes).unwrap();
        loop {
            let mut message = self.messages.recv_timeout(TIMEOUT).expect(method);
            let is_error = message["method"] == "Runtime.exceptionThrown"
                || message["params"]["entry"]["level"] == "error";
            if is_error {
                self.errors.push(message["params"].to_string());
            }
            if message["id"] == self.last {
                return match message["error"].take() {
                    Value::Null => Ok(message["result"].take()),
                    error => Err(error),
                };
            }
        }
    }

    /// Opens a URL, and waits until the page is loaded.
    pub(crate) fn open(&mut self, url: &str) {
        // The variable disappears when the new page replaces the old page.
        self.evaluate("window.isLeft = true");
        self.call("Page.navigate", &json!({"url": url})).unwrap();
        self.wait("!window.isLeft && document.readyState == 'complete'");
    }

    /// Evaluates a JavaScript expression, and returns its value. Returns null while the browser loads another page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true});
        let Ok(mut result) = self.call("Runtime.evaluate", &parameters) else {
            return Value::Null;
        };
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].take()
    }

    /// Waits until a JavaScript expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        until(expression, || {
            if self.evaluate(expression) == true {
                Ok(())
            } else {
                Err(self.text())
            }
        });
    }

    /// Waits until the page contains all of the texts.
    pub(crate) fn shows(&mut self, expected: &[&str]) {
        until("texts of the page", || {
            let text = self.text();
            let missing = expected.iter().find(|part| !text.contains(**part));
            missing.map_or(Ok(()), |part| Err(format!("{part:?} is not in {text}")))
        });
    }

    fn text(&mut self) -> String {
        let text = self.evaluate("document.querySelector('main')?.innerText ?? ''");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Asserts that no script failed and that the page did not violate the content security policy.
    pub(crate) fn has_no_errors(&self) {
        assert!(self.errors.is_empty(), "{:#?}", self.errors);
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", &event).unwrap();
        }
    }

    /// Saves a screenshot of the whole page in the folder that the environment variable `BERTH_SCREENSHOTS` names, if
    /// the variable is set.
    pub(crate) fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("BERTH_SCREENSHOTS") else {
            return;
        };
        let whole = json!({"captureBeyondViewport": true});
        let picture = self.call("Page.captureScreenshot", &whole).unwrap();
        let picture = picture["data"].as_str().unwrap();
        let picture = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, picture).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), picture).unwrap();
    }

    /// Changes the width of the page and the colour scheme.
    pub(crate) fn display(&mut self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size)
            .unwrap();
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &scheme).unwrap();
    }
}
