//! The syntax of label keys and values.

use crate::dns::is_dns_subdomain;

/// Maximum length of a label value and of the name in a label key, in bytes.
const MAX_NAME: usize = 63;

/// The reason why a label key or value is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelSyntaxError {
    /// The prefix of a key is not a DNS subdomain.
    #[error("the prefix of {0:?} must be a lower-case DNS subdomain of at most 253 characters")]
    Prefix(String),
    /// The name in a key is malformed. The name is the part after the prefix.
    #[error(
        "{0:?} must be a name of 1 to 63 letters, digits, '-', '_' or '.', which starts and ends with a letter or digit, after an optional DNS prefix and '/'"
    )]
    Key(String),
    /// The value is malformed.
    #[error(
        "{0:?} must be empty or at most 63 letters, digits, '-', '_' or '.', which start and end with a letter or digit"
    )]
    Value(String),
}

/// Validates a label key. A key is a name after an optional prefix, which is a DNS subdomain with a slash.
///
/// # Errors
/// When the key is malformed.
pub fn validate_label_key(key: &str) -> Result<(), LabelSyntaxError> {
    let name = match key.split_once('/') {
        None => key,
        Some((prefix, name)) => {
            if !is_dns_subdomain(prefix) {
                return Err(LabelSyntaxError::Prefix(key.to_owned()));
            }
            name
        }
    };
    if is_name(name) {
        Ok(())
    } else {
        Err(LabelSyntaxError::Key(key.to_owned()))
    }
}

/// Validates a label value. A value is empty or a name.
///
/// # Errors
/// When the value is malformed.
pub fn validate_label_value(value: &str) -> Result<(), LabelSyntaxError> {
    if value.is_empty() || is_name(value) {
        Ok(())
    } else {
        Err(LabelSyntaxError::Value(value.to_owned()))
    }
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    bytes.len() <= MAX_NAME
        && first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_are_names_with_an_optional_dns_prefix() {
        let long = "a".repeat(63);
        let too_long = "a".repeat(64);
        let long_prefix = format!("{}/a", vec!["a".repeat(50); 5].join("."));
        for (key, valid) in [
            ("env", true),
            ("Env_1.x-y", true),
            ("example.com/env", true),
            ("a/b", true),
            (long.as_str(), true),
            (too_long.as_str(), false),
            (long_prefix.as_str(), false),
            ("", false),
            ("/env", false),
            ("example.com/", false),
            ("Example.com/env", false),
            ("a/b/c", false),
            ("-env", false),
            ("env-", false),
            ("env var", false),
            ("ключ", false),
        ] {
            assert_eq!(validate_label_key(key).is_ok(), valid, "{key:?}");
        }
    }

    #[test]
    fn label_values_are_empty_or_names() {
        for (value, valid) in [
            ("", true),
            ("a", true),
            ("A.b_c-1", true),
            ("a/b", false),
            ("-1", false),
            ("a.", false),
            ("a b", false),
        ] {
            assert_eq!(validate_label_value(value).is_ok(), valid, "{value:?}");
        }
    }
}
