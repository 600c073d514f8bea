//! Formatting of numbers, amounts, times and URL paths of bindings.

use berth_api::BindingKey;
use jiff::Timestamp;

use crate::binding_query::encode;
use crate::store::PolicyName;

/// Returns milli-CPUs as cores. An amount below 100 cores has one decimal, unless it is a whole number.
pub(crate) fn cores(milli: i64) -> String {
    if milli % 1000 == 0 || milli >= 100_000 {
        thousands(milli / 1000)
    } else {
        format!("{}.{}", milli / 1000, milli % 1000 / 100)
    }
}

/// Returns bytes with a binary unit.
pub(crate) fn bytes(bytes: i64) -> String {
    const UNITS: [(&str, i64); 4] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    for (unit, size) in UNITS {
        if bytes >= size {
            let (whole, tenth) = (bytes / size, bytes % size * 10 / size);
            return if tenth == 0 || whole >= 100 {
                format!("{} {unit}", thousands(whole))
            } else {
                format!("{whole}.{tenth} {unit}")
            };
        }
    }
    format!("{bytes} B")
}

/// Returns a number with commas between thousands.
pub(crate) fn thousands(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a count as text.
pub(crate) fn count(number: usize) -> String {
    thousands(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Returns the time since `since` in seconds, minutes, hours or days.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Returns the time of day in UTC.
pub(crate) fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S").to_string()
}

/// Returns the URL path of the page of a binding.
pub(crate) fn path(binding: &BindingKey) -> String {
    let name = encode(&binding.name);
    match &binding.namespace {
        Some(namespace) => format!("/bindings/{}/{name}", encode(namespace)),
        None => format!("/clusterbindings/{name}"),
    }
}

/// Returns the URL path of the page of a cluster.
pub(crate) fn cluster_path(name: &str) -> String {
    format!("/clusters/{}", encode(name))
}

/// Returns the URL path of the page of a policy.
pub(crate) fn policy_path(policy: &PolicyName) -> String {
    let name = encode(&policy.name);
    match &policy.namespace {
        Some(namespace) => format!("/policies/{}/{name}", encode(namespace)),
        None => format!("/clusterpolicies/{name}"),
    }
}

/// Returns a number with its noun, such as `1 cluster` or `2 clusters`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        number => format!("{} {noun}s", count(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units() {
        assert_eq!(cores(4000), "4");
        assert_eq!(cores(1250), "1.2");
        assert_eq!(cores(1_250_500), "1,250");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(bytes(2 << 40), "2 TiB");
        assert_eq!(thousands(-1_234_567), "-1,234,567");
        assert_eq!(thousands(999), "999");
    }

    #[test]
    fn longer_ages_have_larger_units() {
        let start = Timestamp::UNIX_EPOCH;
        for (seconds, expected) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7200, "2 h"),
            (172_800, "2 d"),
        ] {
            let now = Timestamp::from_second(seconds).unwrap();
            assert_eq!(age(start, now), expected);
        }
        assert_eq!(age(Timestamp::from_second(9).unwrap(), start), "0 s");
    }
}
