//! Names of event objects.

use berth_apimachinery::dns::is_dns_subdomain;
use jiff::Timestamp;
use uuid::Uuid;

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
