//! Validation of the schedules and time zones of cron jobs.

/// A field of a schedule: its range of numbers, and names for them.
struct Field {
    min: u64,
    max: u64,
    names: &'static [&'static str],
    /// The number of the first name.
    first: u64,
}

const fn numbers(min: u64, max: u64) -> Field {
    Field {
        min,
        max,
        names: &[],
        first: 0,
    }
}

const FIELDS: [Field; 5] = [
    numbers(0, 59),
    numbers(0, 23),
    numbers(1, 31),
    Field {
        min: 1,
        max: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
        first: 1,
    },
    Field {
        min: 0,
        max: 6,
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
        first: 0,
    },
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

/// Checks a schedule that is not empty.
pub(super) fn problem(schedule: &str) -> Option<String> {
    let zoned = ["TZ=", "CRON_TZ="].iter().any(|p| schedule.starts_with(p));
    let rest = match schedule.split_once(' ') {
        Some((_, rest)) if zoned => rest.trim(),
        _ => schedule,
    };
    parse(rest).err().or_else(|| {
        let message = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        schedule.contains("TZ").then(|| message.to_owned())
    })
}

fn parse(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    for (text, field) in fields.iter().zip(&FIELDS) {
        for part in text.split(',').filter(|part| !part.is_empty()) {
            range(part, field)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(every) => duration(every)
            .map_err(|message| format!("failed to parse duration {text}: time: {message}")),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// Checks a range such as `1`, `1-5`, `*` or `*/5`.
fn range(text: &str, field: &Field) -> Result<(), String> {
    let (parts, ends): (Vec<&str>, Vec<&str>) = {
        let parts: Vec<&str> = text.split('/').collect();
        let ends = parts.first().map(|first| first.split('-').collect());
        (parts, ends.unwrap_or_default())
    };
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (field.min, field.max),
        [one] => (number(one, field)?, number(one, field)?),
        [start, end] => (number(start, field)?, number(end, field)?),
        [start, ..] => {
            number(start, field)?;
            return Err(format!("too many hyphens: {text}"));
        }
        [] => return Ok(()),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step, &numbers(0, 0))?;
            if ends.len() == 1 {
                end = field.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    let Field { min, max, .. } = field;
    if start < *min {
        return Err(format!(
            "beginning of range ({start}) below minimum ({min}): {text}"
        ));
    }
    if end > *max {
        return Err(format!(
            "end of range ({end}) above maximum ({max}): {text}"
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number(text: &str, field: &Field) -> Result<u64, String> {
    let name = text.to_lowercase();
    let named = field.names.iter().zip(field.first..);
    if let Some((_, number)) = named.clone().find(|(known, _)| **known == name) {
        return Ok(number);
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let message = if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
        "invalid syntax"
    } else if let Ok(number) = text.parse::<i64>() {
        return u64::try_from(number)
            .map_err(|_| format!("negative number ({number}) not allowed: {text}"));
    } else {
        "value out of range"
    };
    Err(format!(
        "failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": {message}"
    ))
}

/// Checks a duration such as `1h30m`.
fn duration(text: &str) -> Result<(), String> {
    const UNITS: &[&str] = &["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    let numeric = |c: char| c.is_ascii_digit() || c == '.';
    if rest.is_empty() {
        return Err(format!("invalid duration \"{text}\""));
    }
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(numeric).len();
        if !rest[..number].contains(|c: char| c.is_ascii_digit()) {
            return Err(format!("invalid duration \"{text}\""));
        }
        let after = &rest[number..];
        let unit = after.find(numeric).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        if unit.is_empty() {
            return Err(format!("missing unit in duration \"{text}\""));
        }
        if !UNITS.contains(&unit) {
            return Err(format!("unknown unit \"{unit}\" in duration \"{text}\""));
        }
        rest = after;
    }
    Ok(())
}

/// Checks the name of a time zone.
pub(super) fn zone_problems(zone: &str) -> Vec<String> {
    if zone.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let mut problems = Vec::new();
    if zone.eq_ignore_ascii_case("local") {
        let message =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        problems.push(message.to_owned());
    }
    if zone != "Local" && !is_known(zone) {
        problems.push(format!("unknown time zone {zone}"));
    }
    problems
}

/// Reports whether a time zone exists. Without a time zone database every name is accepted.
fn is_known(zone: &str) -> bool {
    let zones = jiff::tz::db();
    if zone == "UTC" || zones.available().next().is_none() {
        return true;
    }
    zones
        .get(zone)
        .is_ok_and(|found| found.iana_name() == Some(zone))
}
