//! The schedules and time zones of cron jobs.

use std::ops::RangeInclusive;

use crate::go_text;

/// A field of a schedule: its range of numbers, and names for the first of them.
type Field = (RangeInclusive<u64>, &'static [&'static str]);

const FIELDS: [Field; 5] = [
    (0..=59, &[]),
    (0..=23, &[]),
    (1..=31, &[]),
    (
        1..=12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    (0..=6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
const DESCRIPTORS: &[&str] = &[
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// Reports whether a schedule is valid.
pub(super) fn is_valid(schedule: &str) -> bool {
    if schedule.starts_with('@') {
        let every = schedule.strip_prefix("@every ");
        return DESCRIPTORS.contains(&schedule)
            || every.is_some_and(|every| go_text::duration(every).is_ok());
    }
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    let valid = |(text, field): (&&str, &Field)| {
        let mut parts = text.split(',').filter(|part| !part.is_empty());
        parts.all(|part| is_range(part, field).unwrap_or(false))
    };
    parts.len() == FIELDS.len() && parts.iter().zip(&FIELDS).all(valid)
}

/// Checks a range such as `1`, `1-5`, `*` or `*/5`.
fn is_range(text: &str, field: &Field) -> Option<bool> {
    let (ends, step) = match text.split_once('/') {
        Some((ends, step)) => (ends, number(step, &(0..=0, &[]))?),
        None => (text, 1),
    };
    let ends: Vec<&str> = ends.split('-').collect();
    let (start, end) = match ends.as_slice() {
        ["*" | "?", ..] => (*field.0.start(), *field.0.end()),
        [start] if text.contains('/') => (number(start, field)?, *field.0.end()),
        [one] => (number(one, field)?, number(one, field)?),
        [start, end] => (number(start, field)?, number(end, field)?),
        _ => return None,
    };
    Some(field.0.contains(&start) && field.0.contains(&end) && start <= end && step > 0)
}

fn number(text: &str, (range, names): &Field) -> Option<u64> {
    let name = text.to_lowercase();
    let mut numbered = names.iter().zip(*range.start()..);
    let found = numbered.find(|(known, _)| **known == name);
    found.map_or_else(|| text.parse().ok(), |(_, number)| Some(number))
}

/// Reports whether a time zone exists. Without a time zone database every name is accepted.
pub(super) fn is_zone(zone: &str) -> bool {
    let zones = jiff::tz::db();
    if zone.is_empty() || zone.eq_ignore_ascii_case("local") {
        return false;
    }
    let found = zones.get(zone);
    zone == "UTC"
        || zones.available().next().is_none()
        || found.is_ok_and(|found| found.iana_name() == Some(zone))
}
