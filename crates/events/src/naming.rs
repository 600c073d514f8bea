//! Names of event objects.

use jiff::Timestamp;
use uuid::Uuid;

/// Maximum length of an event name.
const MAX_LENGTH: usize = 253;

/// Returns the name of an event object: the name of the reported object and the first timestamp, or a UUID if this name
/// is invalid.
pub(crate) fn name(object: Option<&str>, first: Timestamp) -> String {
    let name = format!("{}.{:x}", object.unwrap_or_default(), first.as_nanosecond());
    if is_dns_subdomain(&name) {
        name
    } else {
        Uuid::new_v4().to_string()
    }
}

/// Reports whether the name is a DNS subdomain.
fn is_dns_subdomain(name: &str) -> bool {
    let is_alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        let label = label.as_bytes();
        label.first().is_some_and(|c| is_alphanumeric(*c))
            && label.last().is_some_and(|c| is_alphanumeric(*c))
            && label.iter().all(|c| is_alphanumeric(*c) || *c == b'-')
    };
    name.len() <= MAX_LENGTH && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(object: &str) -> String {
        name(Some(object), Timestamp::from_nanosecond(0x1f_00ff).unwrap())
    }

    #[test]
    fn names_contain_object_and_time() {
        assert_eq!(named("web"), "web.1f00ff");
        assert_eq!(named("apps.example-1.com"), "apps.example-1.com.1f00ff");
    }

    #[test]
    fn invalid_names_are_replaced_by_uuids() {
        let long = "a".repeat(250);
        for object in ["system:node", "Web", "web-", "-web", "", "a..b", &long] {
            let name = named(object);
            assert!(Uuid::parse_str(&name).is_ok(), "{object}: {name}");
            assert_ne!(named(object), name);
        }
    }
}
