//! Go's notations of booleans for command-line flags.

/// Parses a boolean in one of Go's notations: `true`, `True`, `TRUE`, `t`, `T`, `1`, `false`, `False`, `FALSE`, `f`,
/// `F` or `0`.
///
/// # Errors
/// When the text is none of these notations.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(true),
        "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_parsed_as_in_go() {
        for (text, expected) in [
            ("true", Some(true)),
            ("T", Some(true)),
            ("1", Some(true)),
            ("False", Some(false)),
            ("0", Some(false)),
            ("tRUE", None),
            ("yes", None),
            ("", None),
        ] {
            assert_eq!(go_bool(text).ok(), expected, "{text}");
        }
    }
}
