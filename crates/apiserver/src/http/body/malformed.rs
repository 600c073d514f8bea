//! What is wrong with a text that is no JSON, in the words of Go's decoder: clients print them, and people search for
//! them.

/// How deep the decoder follows objects and lists.
const DEEPEST: usize = 127;
const TOO_DEEP: &str = "exceeded max depth";

/// Where the scanner is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// A value, or the end of a list that has none.
    ValueOrEnd,
    Key,
    /// A key, or the end of an object that has none.
    KeyOrEnd,
    Colon,
    /// A comma or the end of what is open.
    Next,
}

/// The first thing that is wrong; none if the text is JSON.
pub(super) fn problem(text: &[u8]) -> Option<String> {
    let mut open: Vec<u8> = Vec::new();
    let mut expect = Expect::Value;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let wrong = |place: &str| Some(unexpected(byte, place));
        match (expect, byte) {
            (Expect::ValueOrEnd, b']') | (Expect::KeyOrEnd, b'}') => {
                open.pop();
                expect = Expect::Next;
                at += 1;
            }
            (Expect::Value | Expect::ValueOrEnd, b'{') => {
                open.push(byte);
                if open.len() > DEEPEST {
                    return Some(TOO_DEEP.to_owned());
                }
                expect = Expect::KeyOrEnd;
                at += 1;
            }
            (Expect::Value | Expect::ValueOrEnd, b'[') => {
                open.push(byte);
                if open.len() > DEEPEST {
                    return Some(TOO_DEEP.to_owned());
                }
                expect = Expect::ValueOrEnd;
                at += 1;
            }
            (Expect::Value | Expect::ValueOrEnd, _) => {
                match scalar(text, at) {
                    Ok(end) => at = end,
                    Err(problem) => return Some(problem),
                }
                expect = Expect::Next;
            }
            (Expect::Key | Expect::KeyOrEnd, b'"') => {
                match string(text, at) {
                    Ok(end) => at = end,
                    Err(problem) => return Some(problem),
                }
                expect = Expect::Colon;
            }
            (Expect::Key | Expect::KeyOrEnd, _) => {
                return wrong("looking for beginning of object key string");
            }
            (Expect::Colon, b':') => {
                expect = Expect::Value;
                at += 1;
            }
            (Expect::Colon, _) => return wrong("after object key"),
            (Expect::Next, _) => {
                expect = match (open.last(), byte) {
                    (None, _) => return wrong("after top-level value"),
                    (Some(b'{'), b',') => Expect::Key,
                    (Some(_), b',') => Expect::Value,
                    (Some(b'{'), b'}') | (Some(b'['), b']') => {
                        open.pop();
                        Expect::Next
                    }
                    (Some(b'{'), _) => return wrong("after object key:value pair"),
                    (Some(_), _) => return wrong("after array element"),
                };
                at += 1;
            }
        }
    }
    let whole = open.is_empty() && expect == Expect::Next;
    (!whole).then(end)
}

fn end() -> String {
    "unexpected end of JSON input".to_owned()
}

fn unexpected(byte: u8, place: &str) -> String {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => format!("'{}'", char::from(byte).escape_debug()),
    };
    format!("invalid character {shown} {place}")
}

/// The end of the text, number or word that begins here.
fn scalar(text: &[u8], at: usize) -> Result<usize, String> {
    match text[at] {
        b'"' => string(text, at),
        b't' => word(text, at, b"true"),
        b'f' => word(text, at, b"false"),
        b'n' => word(text, at, b"null"),
        b'-' | b'0'..=b'9' => number(text, at),
        other => Err(unexpected(other, "looking for beginning of value")),
    }
}

fn word(text: &[u8], at: usize, word: &[u8]) -> Result<usize, String> {
    for (offset, expected) in word.iter().enumerate() {
        match text.get(at + offset) {
            None => return Err(end()),
            Some(found) if found == expected => {}
            Some(found) => {
                let whole = String::from_utf8_lossy(word);
                let next = char::from(*expected);
                return Err(unexpected(
                    *found,
                    &format!("in literal {whole} (expecting '{next}')"),
                ));
            }
        }
    }
    Ok(at + word.len())
}

fn string(text: &[u8], start: usize) -> Result<usize, String> {
    let mut at = start + 1;
    loop {
        match text.get(at) {
            None => return Err(end()),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => match text.get(at + 1) {
                None => return Err(end()),
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                Some(b'u') => {
                    for offset in 2..6 {
                        match text.get(at + offset) {
                            None => return Err(end()),
                            Some(digit) if digit.is_ascii_hexdigit() => {}
                            Some(other) => {
                                return Err(unexpected(
                                    *other,
                                    "in \\u hexadecimal character escape",
                                ));
                            }
                        }
                    }
                    at += 6;
                }
                Some(other) => {
                    let other = char::from(*other);
                    return Err(format!("invalid escape sequence `\\{other}` in string"));
                }
            },
            Some(control) if *control < 0x20 => {
                return Err(unexpected(*control, "in string literal"));
            }
            Some(_) => at += 1,
        }
    }
}

fn number(text: &[u8], start: usize) -> Result<usize, String> {
    let digits = |mut at: usize, place: &str| match text.get(at) {
        None => Err(end()),
        Some(digit) if digit.is_ascii_digit() => {
            while text.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            Ok(at)
        }
        Some(other) => Err(unexpected(*other, place)),
    };
    let mut at = start + usize::from(text[start] == b'-');
    at = match text.get(at) {
        // What follows is no part of the number.
        Some(b'0') => at + 1,
        _ => digits(at, "in numeric literal")?,
    };
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1, "after decimal point in numeric literal")?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        at = digits(at + 1 + sign, "in exponent of numeric literal")?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_go() {
        for (text, expected) in [
            (r#"{"a":"#, "unexpected end of JSON input"),
            ("", "unexpected end of JSON input"),
            ("[", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (
                r#"{"a":tru}"#,
                "invalid character '}' in literal true (expecting 'e')",
            ),
            (
                r#"{"a":1,}"#,
                "invalid character '}' looking for beginning of object key string",
            ),
            (r#"{"a":"\x"}"#, r"invalid escape sequence `\x` in string"),
            (
                r#"{"a":01}"#,
                "invalid character '1' after object key:value pair",
            ),
            (
                r#"{"a":1} x"#,
                "invalid character 'x' after top-level value",
            ),
            (
                "{a:1}",
                "invalid character 'a' looking for beginning of object key string",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            (
                "nope",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
        ] {
            assert_eq!(
                problem(text.as_bytes()).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for text in [
            r#" {"a": [1, -2.5e+3, "\u00e9\n"], "b": {}, "c": []} "#,
            "null",
            "5",
        ] {
            assert_eq!(problem(text.as_bytes()), None, "{text}");
        }
    }
}
