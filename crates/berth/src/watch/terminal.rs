//! The [`Terminal`]: draws screens and reads keys. The original modes of the terminal are restored when the value is
//! dropped and before a panic is printed.

use std::io::{self, IsTerminal as _, Read as _, Stdout, Write};
use std::panic;
use std::thread;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc;

use super::keys::{self, Key};

/// Rows and columns to assume if the terminal reports no size.
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
    /// Original modes of standard input. `None` if standard input is not a terminal.
    before: Option<Termios>,
}

impl Terminal {
    /// Switches to the alternate screen, and turns off echo and line buffering of the input. Ctrl-C still sends a
    /// signal.
    pub(super) fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = if stdin.is_terminal() {
            let before = tcgetattr(&stdin)?;
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // Ctrl-Z is disabled, because the shell would run without echo while `berth watch` is suspended.
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

    /// Returns a channel of the pressed keys. The channel is empty and closed if standard input is not a terminal.
    pub(super) fn keys(&self) -> mpsc::UnboundedReceiver<Key> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if self.before.is_some() {
            // A plain thread reads, because the read blocks, and the runtime would wait for a blocking task at exit.
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
            // The row is cleared before the line is written. After a full row, clearing would erase the last column.
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

/// Restores the terminal, and ignores failures.
fn restore(before: Option<&Termios>) {
    if let Some(before) = before {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
    }
    let mut out = io::stdout();
    let _ = write!(out, "{LEAVE_SCREEN}");
    let _ = out.flush();
}

/// Sets a panic hook that restores the terminal before it prints the panic. Otherwise the message would disappear with
/// the alternate screen.
fn restore_on_panic(before: Termios) {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore(Some(&before));
        report(info);
    }));
}
