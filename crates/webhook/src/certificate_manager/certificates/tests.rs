use super::*;

fn names() -> Vec<String> {
    vec!["karmada-webhook.karmada-system.svc".to_owned()]
}

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + DAY * 20_000
}

fn first() -> Certificates {
    Certificates::next(None, &names(), start())
        .unwrap()
        .unwrap()
}

fn next(current: &Certificates, after: Duration) -> Option<Certificates> {
    Certificates::next(Some(current), &names(), start() + after).unwrap()
}

#[test]
fn certificates_are_replaced_only_shortly_before_they_expire() {
    let current = first();
    assert!(next(&current, Duration::ZERO).is_none());
    assert!(next(&current, DAY * 59).is_none());
    let renewed = next(&current, DAY * 61).unwrap();
    assert_ne!(renewed.certificate, current.certificate);
    assert_eq!(renewed.ca_bundle, current.ca_bundle);
    assert!(next(&renewed, DAY * 61).is_none());
}

#[test]
fn a_new_authority_leaves_its_predecessor_in_the_bundle() {
    let current = first();
    let renewed = next(&current, DAY * 3300).unwrap();
    assert_eq!(certificates(&renewed.ca_bundle).len(), 2);
    assert!(renewed.ca_bundle.ends_with(&current.ca_bundle));
    assert_ne!(renewed.ca_key, current.ca_key);
    // The bundle contains at most one previous authority, and no expired authority.
    let later = DAY * 3300 * 2;
    let renewed = next(&renewed, later).unwrap();
    assert_eq!(certificates(&renewed.ca_bundle).len(), 2);
    let after_all_expired = next(&renewed, DAY * 20_000).unwrap();
    assert_eq!(certificates(&after_all_expired.ca_bundle).len(), 1);
}

#[test]
fn damaged_or_foreign_content_is_replaced() {
    let (current, other) = (first(), first());
    for damaged in [
        Certificates {
            key: other.key,
            ..current.clone()
        },
        Certificates {
            ca_key: other.ca_key,
            ..current.clone()
        },
        Certificates {
            certificate: String::new(),
            ..current.clone()
        },
        Certificates {
            key: "-----BEGIN".to_owned(),
            ..current.clone()
        },
        Certificates {
            ca_key: String::new(),
            ..current.clone()
        },
        Certificates {
            ca_bundle: "x".to_owned(),
            ..current.clone()
        },
    ] {
        let renewed = next(&damaged, Duration::ZERO).unwrap();
        assert!(next(&renewed, Duration::ZERO).is_none());
    }
    let other = ["other.karmada-system.svc".to_owned()];
    let renamed = Certificates::next(Some(&current), &other, start())
        .unwrap()
        .unwrap();
    assert_eq!(renamed.ca_bundle, current.ca_bundle);
    assert_eq!(Details::of(&renamed.certificate).unwrap().names, other);
}
