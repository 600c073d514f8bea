//! Encoder of raw HTTP/2 frames.

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Id of the setting for the initial window of streams.
const INITIAL_WINDOW_SIZE: u16 = 4;
/// Error code of a cancelled stream.
const CANCEL: u32 = 8;

/// The frames of one connection, with an authorization header.
pub(super) struct Frames {
    bytes: Vec<u8>,
    authorization: String,
    /// Id of the last opened stream.
    stream: u32,
}

impl Frames {
    pub(super) fn new(authorization: &str) -> Self {
        Self {
            bytes: PREFACE.to_vec(),
            authorization: authorization.to_owned(),
            stream: 0,
        }
    }

    /// Sets the window of all streams to zero.
    pub(super) fn close_windows(&mut self) {
        let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        setting.extend(0_u32.to_be_bytes());
        self.settings(&setting);
    }

    /// Adds a GET request.
    pub(super) fn get(&mut self, path: &str) {
        // `:method: GET` of the static table.
        self.open(0x82, path, END_STREAM);
    }

    /// Adds a POST request with one byte of its body.
    pub(super) fn begin_post(&mut self, path: &str) {
        // `:method: POST` of the static table.
        self.open(0x83, path, 0);
        self.frame(DATA, 0, self.stream, b"{");
    }

    /// Resets the stream of the last request.
    pub(super) fn reset(&mut self) {
        self.frame(RST_STREAM, 0, self.stream, &CANCEL.to_be_bytes());
    }

    /// Returns the encoded bytes.
    pub(super) fn take(self) -> Vec<u8> {
        self.bytes
    }

    fn settings(&mut self, settings: &[u8]) {
        self.frame(SETTINGS, 0, 0, settings);
    }

    fn open(&mut self, method: u8, path: &str, flags: u8) {
        if self.stream == 0 {
            // A connection must start with a SETTINGS frame.
            if self.bytes.len() == PREFACE.len() {
                self.settings(&[]);
            }
            self.stream = 1;
        } else {
            self.stream += 2;
        }
        // `:scheme: https`, and `:path` and `:authority` as literals with names of the static table.
        let mut block = vec![method, 0x87, 0x04];
        text(&mut block, path);
        block.push(0x01);
        text(&mut block, "localhost");
        if self.stream == 1 {
            // `authorization`, added to the dynamic table.
            block.push(0x40 | 0x17);
            text(&mut block, &self.authorization);
        } else {
            // The first entry of the dynamic table.
            block.push(0x80 | 0x3e);
        }
        self.frame(HEADERS, flags | END_HEADERS, self.stream, &block);
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap_or_default();
        self.bytes.extend(&length.to_be_bytes()[1..]);
        self.bytes.extend([kind, flags]);
        self.bytes.extend(stream.to_be_bytes());
        self.bytes.extend(payload);
    }
}

/// Appends an uncompressed HPACK string.
fn text(block: &mut Vec<u8>, text: &str) {
    let mut rest = text.len();
    if rest < 127 {
        block.extend(u8::try_from(rest));
    } else {
        block.push(127);
        rest -= 127;
        while rest >= 128 {
            block.extend(u8::try_from(rest % 128 + 128));
            rest /= 128;
        }
        block.extend(u8::try_from(rest));
    }
    block.extend(text.as_bytes());
}
