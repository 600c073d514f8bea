//! A decoder of the bytes that a terminal sends for pressed keys.

/// A pressed key: a special key that the view handles, or a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    Enter,
    Escape,
    Backspace,
    Char(char),
}

const ESCAPE: char = '\u{1b}';

/// Decodes the bytes from one read of the terminal. Skips unknown escape sequences.
pub(super) fn decode(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.chars().peekable();
    let mut keys = Vec::new();
    while let Some(next) = rest.next() {
        match next {
            ESCAPE if rest.next_if(|c| matches!(c, '[' | 'O')).is_some() => {
                let is_final = |c: &char| matches!(c, '@'..='~');
                let mut parameters = String::new();
                while let Some(c) = rest.next_if(|c| !is_final(c)) {
                    parameters.push(c);
                }
                keys.extend(rest.next().and_then(|c| sequence(&parameters, c)));
            }
            ESCAPE => keys.push(Key::Escape),
            '\r' | '\n' => keys.push(Key::Enter),
            '\t' => keys.push(Key::Tab),
            '\u{7f}' | '\u{8}' => keys.push(Key::Backspace),
            c if c.is_control() => {}
            c => keys.push(Key::Char(c)),
        }
    }
    keys
}

fn sequence(parameters: &str, last: char) -> Option<Key> {
    Some(match (last, parameters) {
        ('A', _) => Key::Up,
        ('B', _) => Key::Down,
        ('H', _) | ('~', "1" | "7") => Key::Home,
        ('F', _) | ('~', "4" | "8") => Key::End,
        ('~', "5") => Key::PageUp,
        ('~', "6") => Key::PageDown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_decoded_to_keys() {
        for (bytes, expected) in [
            (&b"\x1b[A\x1b[B"[..], &[Key::Up, Key::Down][..]),
            (b"\x1bOA\x1bOB", &[Key::Up, Key::Down]),
            (b"\x1b[5~\x1b[6~", &[Key::PageUp, Key::PageDown]),
            (b"\x1b[H\x1b[F", &[Key::Home, Key::End]),
            (b"\x1b[1~\x1b[4~", &[Key::Home, Key::End]),
            (b"jq", &[Key::Char('j'), Key::Char('q')]),
            (b"\x1b", &[Key::Escape]),
            (b"\x7f\r\t", &[Key::Backspace, Key::Enter, Key::Tab]),
            ("é".as_bytes(), &[Key::Char('é')]),
            // F5, arrow left and a control character are skipped before q, an incomplete sequence after q.
            (b"\x1b[15~\x1b[D\x01q\x1b[", &[Key::Char('q')]),
        ] {
            assert_eq!(decode(bytes), expected, "{bytes:?}");
        }
    }
}
