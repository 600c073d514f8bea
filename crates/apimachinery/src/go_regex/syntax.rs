//! Conversion of regular expressions from Go's syntax to that of the crate `regex`. The two read some patterns
//! differently: in Go, `\d`, `\s`, `\w` and `\b` are ASCII, `\<` and `\>` are literals, a class contains no operators and
//! no nested class, a brace that begins no repetition is a literal, and `\Q` and `\E` enclose literal text.
//!
//! The conversion takes linear time, because patterns come from clients.

use std::iter::Peekable;
use std::str::Chars;

/// Returns the pattern in the syntax of the crate `regex`. If the pattern is malformed, the result is malformed, too.
pub(super) fn to_regex(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, &mut out),
            '[' => class(&mut rest, &mut out),
            '{' if !begins_repetition(rest.clone()) => out.push_str(r"\{"),
            other => out.push(other),
        }
    }
    out
}

/// Converts an escape sequence outside a class, after its backslash.
fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    match rest.next() {
        Some('b') => out.push_str(r"(?-u:\b)"),
        Some('Q') => {
            while let Some(c) = rest.next() {
                if c == '\\' && rest.next_if_eq(&'E').is_some() {
                    return;
                }
                out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
            }
        }
        Some(c @ ('<' | '>')) => out.push(c),
        Some(c) => match ascii_class(c) {
            Some(class) => out.push_str(class),
            None => out.extend(['\\', c]),
        },
        None => out.push('\\'),
    }
}

/// Converts a class, after its opening bracket.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut is_first = true;
    while let Some(c) = rest.next() {
        match c {
            ']' if !is_first => {
                out.push(']');
                return;
            }
            '[' if rest.peek() == Some(&':') => {
                out.push('[');
                while let Some(c) = rest.next() {
                    out.push(c);
                    if c == ':' && rest.next_if_eq(&']').is_some() {
                        out.push(']');
                        break;
                    }
                }
            }
            '\\' if rest.peek().is_some_and(|&c| ascii_class(c).is_some()) => {
                out.extend(rest.next().and_then(ascii_class));
            }
            '\\' if matches!(rest.peek(), Some('p' | 'P')) => {
                out.push('\\');
                out.extend(rest.next());
            }
            first => {
                class_character(first, rest, out);
                let mut after = rest.clone();
                let is_range = after.next() == Some('-') && after.next().is_some_and(|c| c != ']');
                if is_range {
                    out.extend(rest.next());
                    if let Some(last) = rest.next() {
                        class_character(last, rest, out);
                    }
                }
            }
        }
        is_first = false;
    }
}

/// Converts one character of a class, or the escape sequence that begins with it.
fn class_character(c: char, rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    match c {
        '\\' => {
            out.push('\\');
            match rest.next() {
                Some('x') if rest.peek() == Some(&'{') => {
                    out.push('x');
                    for c in rest.by_ref() {
                        out.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                }
                Some('x') => {
                    out.push('x');
                    out.extend(rest.by_ref().take(2));
                }
                Some(c @ ('<' | '>')) => {
                    out.pop();
                    out.push(c);
                }
                other => out.extend(other),
            }
        }
        '[' | ']' | '^' | '-' | '&' | '~' => out.extend(['\\', c]),
        other => out.push(other),
    }
}

/// Returns the class that an escape sequence means, from the character after its backslash.
fn ascii_class(c: char) -> Option<&'static str> {
    Some(match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

/// Reports whether the text after an opening brace makes it a repetition: `n}`, `n,}` or `n,m}`.
fn begins_repetition(mut rest: Peekable<Chars<'_>>) -> bool {
    let mut inside = String::new();
    while let Some(c) = rest.next_if(|c| c.is_ascii_digit() || *c == ',') {
        inside.push(c);
    }
    if rest.next() != Some('}') {
        return false;
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match inside.split_once(',') {
        Some((least, most)) => is_number(least) && (most.is_empty() || is_number(most)),
        None => is_number(&inside),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::to_regex;

    /// The expected results are those of Go's package `regexp`.
    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, matching, others) in [
            (r"^[^[]+$", &["a]"][..], &["a[b"][..]),
            (r"^[]a]+$", &["]a"], &["b"]),
            (r"^[a&&b]+$", &["a&b"], &["c"]),
            (r"^[a~~b]+$", &["a~b"], &["c"]),
            (r"^[+--]+$", &["+,-"], &["."]),
            (r"^[--/]+$", &["-./"], &["0"]),
            (r"^[\w-.]+$", &["a-_.9"], &["é", "+"]),
            (r"^[\D]$", &["a", "é"], &["1"]),
            (r"^[\x41-\x{43}\]\-]+$", &["ABC]-"], &["D"]),
            (r"^[[:alpha:]_]+$", &["a_"], &["1"]),
            (r"^[\pL-]+$", &["é-"], &["1"]),
            (r"^\d+$", &["123"], &["١٢٣"]),
            (r"^\w\W$", &["aé"], &["éa"]),
            (r"^\s$", &["\t"], &["\u{a0}", "\u{b}"]),
            (r"\bcd", &["ab cd", "écd"], &["abcd"]),
            (r"^{a}$", &["{a}"], &["a"]),
            (r"^\${[a-z]+}$", &["${x}"], &["x"]),
            (r"^a{,2}$", &["a{,2}"], &["aa"]),
            (r"^a{2}{b$", &["aa{b"], &["aab"]),
            (r"^\<[\<\>]\>$", &["<<>", "<>>"], &["a", "\\"]),
            (r"^\Qa.b[\E+$", &["a.b[["], &["axb["]),
        ] {
            let converted = to_regex(pattern);
            let regex = regex::Regex::new(&converted).expect(&converted);
            for text in matching {
                assert!(regex.is_match(text), "{pattern} matches {text:?}");
            }
            for text in others {
                assert!(!regex.is_match(text), "{pattern} does not match {text:?}");
            }
        }
    }

    #[test]
    fn long_patterns_are_converted_in_linear_time() {
        for part in ["{", r"\Q\E", r"\Q", "[{", "{1,"] {
            let pattern = part.repeat(300_000);
            let start = Instant::now();
            drop(to_regex(&pattern));
            // A quadratic conversion takes more than a minute.
            assert!(start.elapsed() < Duration::from_secs(10), "{part}");
        }
    }

    #[test]
    fn malformed_patterns_stay_malformed() {
        for pattern in ["(a", "[a", "[a-", "[z-a]", r"a\", "(?P<n"] {
            let converted = to_regex(pattern);
            assert!(
                regex::Regex::new(&converted).is_err(),
                "{pattern}: {converted}"
            );
        }
    }
}
