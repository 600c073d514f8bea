//! Go's notation of durations for command-line flags.

use std::time::Duration;

/// Parses a duration in Go's notation, for example `300ms`, `15s`, `1m30s` or `2h`.
pub fn go_duration(text: &str) -> Result<Duration, String> {
    const HINT: &str = "must be a duration such as 300ms, 15s or 1m30s";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or(HINT)?;
        let number: f64 = rest[..digits].parse().map_err(|_| HINT)?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let seconds = match &rest[..letters] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(HINT.into()),
        };
        total += Duration::try_from_secs_f64(number * seconds).map_err(|_| HINT)?;
        rest = &rest[letters..];
    }
    if text.is_empty() {
        Err(HINT.into())
    } else {
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        let cases = [
            ("15s", 15_000),
            ("1m30s", 90_000),
            ("300ms", 300),
            ("1.5h", 5_400_000),
            ("0", 0),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(
                go_duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in ["", "15", "s", "15x", "1m30", "-5s"] {
            assert!(go_duration(text).is_err(), "{text}");
        }
    }
}
