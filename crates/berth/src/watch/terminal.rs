//! The terminal: it shows pictures and passes keys on, and is as it was before when this is dropped or a panic comes.

use std::io::{self, IsTerminal as _, Read as _, Stdout, Write};
use std::panic;
use std::thread;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc;

use super::keys::{self, Key};

/// The size of a terminal that does not tell.
const SIZE: (usize, usize) = (24, 80);

const ALTERNATE: &str = "\x1b[?1049h\x1b[?25l";
const BACK: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// A terminal that shows pictures.
#[derive(Debug)]
pub(super) struct Terminal {
    out: Stdout,
    /// The modes of standard input before; none where that is no terminal.
    before: Option<Termios>,
}

impl Terminal {
    /// Takes the terminal. Keys come without echo and at once; Ctrl-C is a signal as before.
    pub(super) fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = if stdin.is_terminal() {
            let before = tcgetattr(&stdin)?;
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // Stopped by Ctrl-Z, it would leave the shell without echo.
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
        write!(terminal.out, "{ALTERNATE}")?;
        terminal.out.flush()?;
        Ok(terminal)
    }

    /// Returns the keys that are pressed from now on; none ever where standard input is no terminal.
    pub(super) fn keys(&self) -> mpsc::UnboundedReceiver<Key> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if self.before.is_some() {
            // A thread of its own: the runtime would wait for the read when the program ends.
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

    /// Returns the rows and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(&self.out).map_or(SIZE, |size| {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        });
        // Some terminals do not know.
        if size.0 == 0 || size.1 == 0 {
            SIZE
        } else {
            size
        }
    }

    /// Shows a picture.
    pub(super) fn show(&mut self, picture: &[String]) -> io::Result<()> {
        let mut text = HOME.to_owned();
        for (place, line) in picture.iter().enumerate() {
            if place > 0 {
                text.push_str("\r\n");
            }
            // Before the line: after one that fills the row, the last column would be cleared.
            text.push_str(CLEAR_LINE);
            text.push_str(line);
        }
        if let Some(last) = picture.last()
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

/// Makes the terminal as it was. There is nowhere to report a failure.
fn restore(before: Option<&Termios>) {
    if let Some(before) = before {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
    }
    let mut out = io::stdout();
    let _ = write!(out, "{BACK}");
    let _ = out.flush();
}

/// Lets the message of a panic be seen: what is written on the alternate screen goes with it.
fn restore_on_panic(before: Termios) {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore(Some(&before));
        report(info);
    }));
}
