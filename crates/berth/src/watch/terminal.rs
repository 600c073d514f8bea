//! The terminal in raw mode: output of screens and input of keys. Its modes are restored on drop and on panic.

use std::io::{self, IsTerminal as _, Read as _, Stdout, Write};
use std::panic;
use std::thread;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc;

use super::keys::{self, Key};

/// Size to assume if the terminal does not report one.
const DEFAULT_SIZE: (usize, usize) = (24, 80);

const ENTER_SCREEN: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE_SCREEN: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// A terminal on its alternate screen.
#[derive(Debug)]
pub(super) struct Terminal {
    out: Stdout,
    /// Original modes of standard input; none if it is not a terminal.
    before: Option<Termios>,
}

impl Terminal {
    /// Switches to the alternate screen and to input without echo and line buffering. Ctrl-C is still a signal.
    pub(super) fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = if stdin.is_terminal() {
            let before = tcgetattr(&stdin)?;
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // Without Ctrl-Z, which would return to a shell without echo.
            modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(&stdin, OptionalActions::Now, &modes)?;
            restore_on_panic(before.clone());
            Some(before)
        } else {
            None
        };
        let mut terminal = Self {
            out: io::stdout(),
            before,
        };
        write!(terminal.out, "{ENTER_SCREEN}")?;
        terminal.out.flush()?;
        Ok(terminal)
    }

    /// Returns the keys pressed from now on; none if standard input is not a terminal.
    pub(super) fn keys(&self) -> mpsc::UnboundedReceiver<Key> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if self.before.is_some() {
            // A separate thread, because the runtime would wait for the blocking read at exit.
            thread::spawn(move || {
                let mut bytes = [0; 64];
                while let Ok(count @ 1..) = io::stdin().read(&mut bytes) {
                    for key in keys::decode(bytes.get(..count).unwrap_or_default()) {
                        if sender.send(key).is_err() {
                            return;
                        }
                    }
                }
            });
        }
        receiver
    }

    /// Returns the number of rows and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(&self.out).map_or(DEFAULT_SIZE, |size| {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        });
        // Some terminals report 0.
        if size.0 == 0 || size.1 == 0 {
            DEFAULT_SIZE
        } else {
            size
        }
    }

    /// Draws a screen.
    pub(super) fn show(&mut self, lines: &[String]) -> io::Result<()> {
        let mut text = HOME.to_owned();
        for (row, line) in lines.iter().enumerate() {
            if row > 0 {
                text.push_str("\r\n");
            }
            // Cleared before the line, because clearing after a full row would erase its last column.
            text.push_str(CLEAR_LINE);
            text.push_str(line);
        }
        if let Some(last) = lines.last()
            && last.chars().count() < self.size().1
        {
            text.push_str(CLEAR_BELOW);
        }
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(self.before.as_ref());
    }
}

/// Restores the terminal. Failures cannot be reported.
fn restore(before: Option<&Termios>) {
    if let Some(before) = before {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
    }
    let mut out = io::stdout();
    let _ = write!(out, "{LEAVE_SCREEN}");
    let _ = out.flush();
}

/// Restores the terminal before a panic is reported, because the alternate screen discards its content.
fn restore_on_panic(before: Termios) {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore(Some(&before));
        report(info);
    }));
}
