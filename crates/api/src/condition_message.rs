//! The messages of conditions are bounded: a server refuses a status with a longer one, again and again.

/// The longest message of a condition, in characters.
pub const LONGEST: usize = 32_768;

/// The message, or as much of it as a condition takes.
pub fn bounded(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(LONGEST) {
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_too_long_is_cut_between_characters() {
        assert_eq!(bounded("short".to_owned()), "short");
        let longest = "ä".repeat(LONGEST);
        assert_eq!(bounded(longest.clone()), longest);
        assert_eq!(bounded(format!("{longest}b")), longest);
    }
}
