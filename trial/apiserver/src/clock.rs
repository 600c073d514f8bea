//! The current time as API text (RFC 3339, whole seconds), ages of timestamps, and durations in kubectl's form, such as
//! `5m`.

use berth_apimachinery::timestamp;
use jiff::Timestamp;

/// Returns the current time in the format of `metav1.Time`.
pub(crate) fn now() -> String {
    timestamp::now().to_string()
}

/// Returns the number of seconds since a timestamp, at least zero. Returns `None` if the text is not a timestamp.
pub(crate) fn seconds_since(text: &str) -> Option<i64> {
    let at: Timestamp = text.parse().ok()?;
    Some((Timestamp::now().as_second() - at.as_second()).max(0))
}

/// Formats a duration as kubectl does, for example `5m` or `2d3h`.
pub(crate) fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |big: i64, unit: char, small: i64, sub: char| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{sub}")
        }
    };
    match seconds {
        s if s < 120 => format!("{s}s"),
        s if s < 600 => pair(minutes, 'm', s % 60, 's'),
        s if s < 3 * 3600 => format!("{minutes}m"),
        s if s < 8 * 3600 => pair(hours, 'h', minutes % 60, 'm'),
        s if s < 48 * 3600 => format!("{hours}h"),
        s if s < 8 * 86_400 => pair(days, 'd', hours % 24, 'h'),
        s if s < 2 * 365 * 86_400 => format!("{days}d"),
        s if s < 8 * 365 * 86_400 => pair(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_like_kubectl() {
        let cases = [
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3600, "60m"),
            (90_000, "25h"),
            (200_000, "2d7h"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
