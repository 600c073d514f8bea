//! Names of events.

use jiff::Timestamp;
use uuid::Uuid;

/// Maximum length of an event name.
const LONGEST: usize = 253;

/// Returns the name of an event: its object and first timestamp, or a UUID if that is not a valid name.
pub(crate) fn name(object: Option<&str>, first: Timestamp) -> String {
    let name = format!("{}.{:x}", object.unwrap_or_default(), first.as_nanosecond());
    if is_fit(&name) {
        name
    } else {
        Uuid::new_v4().to_string()
    }
}

/// Reports whether the name is a DNS subdomain.
fn is_fit(name: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        let label = label.as_bytes();
        label.first().is_some_and(|c| is_plain(*c))
            && label.last().is_some_and(|c| is_plain(*c))
            && label.iter().all(|c| is_plain(*c) || *c == b'-')
    };
    name.len() <= LONGEST && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(object: &str) -> String {
        name(Some(object), Timestamp::from_nanosecond(0x1f_00ff).unwrap())
    }

    #[test]
    fn events_are_named_after_their_objects() {
        assert_eq!(named("web"), "web.1f00ff");
        assert_eq!(named("apps.example-1.com"), "apps.example-1.com.1f00ff");
    }

    #[test]
    fn names_that_do_not_fit_give_way_to_others() {
        let long = "a".repeat(250);
        for object in ["system:node", "Web", "web-", "-web", "", "a..b", &long] {
            let name = named(object);
            assert!(Uuid::parse_str(&name).is_ok(), "{object}: {name}");
            assert_ne!(named(object), name);
        }
    }
}
