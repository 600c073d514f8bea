//! Texts that stand for something else: bytes and times, and what Go says of those that do not.

/// What is wrong with bytes in base64.
pub(super) fn base64_problem(text: &str) -> Option<String> {
    let bad = |at: usize| Some(format!("illegal base64 data at input byte {at}"));
    let bytes: Vec<(usize, u8)> = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'))
        .collect();
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    for (group, four) in bytes.chunks(4).enumerate() {
        for (i, (at, byte)) in four.iter().enumerate() {
            if usual(*byte) {
                continue;
            }
            let padded = *byte == b'='
                && i >= 2
                && four[i..].len() + i == 4
                && four[i..].iter().all(|(_, byte)| *byte == b'=');
            let rest = bytes.get((group + 1) * 4);
            return match rest {
                None if padded => None,
                Some((at, _)) if padded => bad(*at),
                _ => bad(*at),
            };
        }
        if four.len() < 4 {
            return bad(text.len() - four.len());
        }
    }
    None
}

/// The parts of a time: how Go names each, and how many digits it has.
const PARTS: [(&str, usize); 11] = [
    ("2006", 4),
    ("-", 0),
    ("01", 2),
    ("-", 0),
    ("02", 2),
    ("T", 0),
    ("15", 2),
    (":", 0),
    ("04", 2),
    (":", 0),
    ("05", 2),
];
const ZONE: &str = "Z07:00";
const MICRO: &str = ".000000";

/// What is wrong with a time, which has exactly six digits of a second's fraction if it is `micro`.
pub(super) fn time_problem(text: &str, micro: bool) -> Option<String> {
    let layout = if micro {
        "2006-01-02T15:04:05.000000Z07:00"
    } else {
        "2006-01-02T15:04:05Z07:00"
    };
    let begin = format!("parsing time \"{text}\"");
    let stuck = |rest: &str, part: &str| {
        Some(format!(
            "{begin} as \"{layout}\": cannot parse \"{rest}\" as \"{part}\""
        ))
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = text;
    for (part, length) in PARTS {
        let good = if length == 0 {
            rest.starts_with(part)
        } else {
            digits(rest) >= length
        };
        if !good {
            return stuck(rest, part);
        }
        rest = &rest[length.max(1)..];
    }
    let fraction = rest.strip_prefix('.').map_or(0, digits);
    if micro {
        if fraction < MICRO.len() - 1 {
            return stuck(rest, MICRO);
        }
        rest = &rest[MICRO.len()..];
    } else if fraction > 0 {
        rest = &rest[1 + fraction..];
    }
    let offset = rest.strip_prefix(['+', '-']).unwrap_or_default();
    let shape = offset
        .bytes()
        .map(|b| if b.is_ascii_digit() { b'0' } else { b });
    if rest != "Z" && !shape.eq(*b"00:00") {
        return stuck(rest, ZONE);
    }
    text.parse::<jiff::Timestamp>()
        .is_err()
        .then(|| format!("{begin}: day out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_bytes() {
        for good in ["", "YQ==", "YWI=", "YWJj", "YWJj\nYQ=="] {
            assert_eq!(base64_problem(good), None, "{good}");
        }
        for (bad, at) in [
            ("%%", 0),
            ("not base64!", 3),
            ("YQ", 0),
            ("YWJjYQ", 4),
            ("YQ==x", 4),
        ] {
            let why = format!("illegal base64 data at input byte {at}");
            assert_eq!(base64_problem(bad), Some(why), "{bad}");
        }
    }

    #[test]
    fn times_are_times() {
        for (good, micro) in [
            ("2024-01-01T00:00:00Z", false),
            ("2024-01-01T00:00:00.5Z", false),
            ("2024-01-01T00:00:00+02:00", false),
            ("2024-01-01T00:00:00.000000Z", true),
        ] {
            assert_eq!(time_problem(good, micro), None, "{good}");
        }
        for bad in [
            "x",
            "2024",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-02-31T00:00:00Z",
            "2024-01-01T00:00:00é",
        ] {
            assert!(time_problem(bad, false).is_some(), "{bad}");
        }
    }
}
