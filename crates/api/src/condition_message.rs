//! The length limit of condition messages. An API server rejects a status with a longer message.

/// Maximum length of a condition message, in characters.
pub const MAX_LENGTH: usize = 32_768;

/// Truncates a message to [`MAX_LENGTH`] characters.
pub fn truncate(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MAX_LENGTH) {
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(truncate("short".to_owned()), "short");
        let longest = "ä".repeat(MAX_LENGTH);
        assert_eq!(truncate(longest.clone()), longest);
        assert_eq!(truncate(format!("{longest}b")), longest);
    }
}
