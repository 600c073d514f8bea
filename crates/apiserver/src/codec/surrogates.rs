//! Unpaired surrogates in JSON escapes. Go's decoder replaces each with U+FFFD; `serde_json` refuses them.

/// Prefix and length of an escaped code unit.
const BEGIN: &str = "\\u";
const LENGTH: usize = 6;
/// The escaped replacement character.
const REPLACEMENT: &str = "\\ufffd";

/// Replaces unpaired surrogates. Returns `None` if there are none.
pub(super) fn replaced(text: &str) -> Option<String> {
    let mut out = String::new();
    // End of the text copied to `out`, and start of the search for the next escape.
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        match unit(text, at) {
            Some(0xD800..=0xDBFF) if matches!(unit(text, at + LENGTH), Some(0xDC00..=0xDFFF)) => {
                at += 2 * LENGTH;
            }
            Some(0xD800..=0xDFFF) => {
                out.push_str(&text[copied..at]);
                out.push_str(REPLACEMENT);
                at += LENGTH;
                copied = at;
            }
            // Skips the escaped character: it may be a backslash.
            _ => at += 2,
        }
    }
    if out.is_empty() {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

/// Returns the code unit whose escape starts at `at`.
fn unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + LENGTH)?.strip_prefix(BEGIN)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpaired_surrogates_are_replaced_and_pairs_are_kept() {
        for (text, expected) in [
            (r"\ud800", Some(r"\ufffd")),
            (r"a\uDFFFb", Some(r"a\ufffdb")),
            (r"\ud83d\ude00", None),
            (r"\ud83d\ud83d\ude00", Some(r"\ufffd\ud83d\ude00")),
            (r"\ude00\ud83d", Some(r"\ufffd\ufffd")),
            (r"\ud800\u0041", Some(r"\ufffd\u0041")),
            (r"\\ud800", None),
            (r"\\\ud800é", Some(r"\\\ufffdé")),
            (r"\ud8", None),
            (r"é\", None),
            ("", None),
        ] {
            assert_eq!(replaced(text).as_deref(), expected, "{text}");
        }
    }
}
