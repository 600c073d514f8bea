//! Accessors of durations and timestamps, such as `getHours`, in a named time zone or at an offset from UTC.

use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, ExecutionError, Value};

/// Returns a part of a time.
type Part = fn(DateTime) -> i64;

/// The parts of a time, by the function that returns them.
const PARTS: [(&str, Part); 10] = [
    ("getFullYear", |t| i64::from(t.year())),
    ("getMonth", |t| i64::from(t.month()) - 1),
    ("getDayOfYear", |t| i64::from(t.day_of_year()) - 1),
    ("getDayOfMonth", |t| i64::from(t.day()) - 1),
    ("getDate", |t| i64::from(t.day())),
    ("getDayOfWeek", |t| {
        i64::from(t.weekday().to_sunday_zero_offset())
    }),
    ("getHours", |t| i64::from(t.hour())),
    ("getMinutes", |t| i64::from(t.minute())),
    ("getSeconds", |t| i64::from(t.second())),
    ("getMilliseconds", |t| i64::from(t.millisecond())),
];

pub(super) fn add(context: &mut Context<'_>) {
    for (name, part) in PARTS {
        let get =
            move |This(of): This<Value>, Arguments(given): Arguments| match (&of, given.as_slice())
            {
                (Value::Duration(duration), []) => match name {
                    "getHours" => Ok(Value::Int(duration.num_hours())),
                    "getMinutes" => Ok(Value::Int(duration.num_minutes())),
                    "getSeconds" => Ok(Value::Int(duration.num_seconds())),
                    "getMilliseconds" => Ok(Value::Int(duration.num_milliseconds())),
                    _ => Err(ExecutionError::NoSuchOverload),
                },
                (Value::Timestamp(time), given) => {
                    let nanosecond =
                        i32::try_from(time.timestamp_subsec_nanos()).unwrap_or_default();
                    let utc = Timestamp::new(time.timestamp(), nanosecond);
                    let utc = utc.map_err(|e| ExecutionError::function_error(name, e))?;
                    let east = match given {
                        [] => 0,
                        [Value::String(zone)] => east_of_utc(zone, utc)
                            .map_err(|message| ExecutionError::function_error(name, message))?,
                        _ => return Err(ExecutionError::NoSuchOverload),
                    };
                    Offset::UTC
                        .to_datetime(utc)
                        .checked_add(SignedDuration::from_secs(east))
                        .map(|there| Value::Int(part(there)))
                        .map_err(|e| ExecutionError::function_error(name, e))
                }
                _ => Err(ExecutionError::NoSuchOverload),
            };
        context.add_function(name, get);
    }
}

/// Returns the offset of a zone from UTC at a time, in seconds.
fn east_of_utc(zone: &Arc<String>, at: Timestamp) -> Result<i64, String> {
    if let Some((hours, minutes)) = zone.split_once(':') {
        let number = |text: &str| {
            text.parse::<i32>()
                .map_err(|_| format!("invalid UTC offset '{text}'"))
        };
        let (hours, minutes) = (i64::from(number(hours)?), i64::from(number(minutes)?));
        let sign = if zone.starts_with('-') { -1 } else { 1 };
        return Ok((hours * 60 + sign * minutes) * 60);
    }
    match zone.as_str() {
        "" | "UTC" | "Local" => Ok(0),
        name if name.contains("..") || name.starts_with(['/', '\\']) => {
            Err("invalid time zone name".to_owned())
        }
        name => TimeZone::get(name)
            .ok()
            // Time zone names are case-sensitive.
            .filter(|found| found.iana_name() == Some(name))
            .map(|found| i64::from(found.to_offset(at).seconds()))
            .ok_or_else(|| format!("unknown time zone {name}")),
    }
}
