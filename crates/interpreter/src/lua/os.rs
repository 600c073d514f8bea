//! The functions `os.time` and `os.date`, in UTC. Karmada's interpreter has no other functions of the library `os`.

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use mlua::{Lua, Table, Value};

/// Creates the library `os`.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    let time = lua.create_function(|_, fields: Option<Table>| match fields {
        None => Ok(Timestamp::now().as_second()),
        Some(fields) => seconds_of(&fields),
    })?;
    library.raw_set("time", time)?;
    library.raw_set("date", lua.create_function(date)?)?;
    Ok(library)
}

/// Returns the Unix time of a date in seconds. Fields beyond their range carry over: the 14th month is February of the
/// next year.
fn seconds_of(fields: &Table) -> mlua::Result<i64> {
    let field = |name: &str, default: Option<i64>| -> mlua::Result<i64> {
        let value: Option<i64> = fields.raw_get(name)?;
        value.or(default).ok_or_else(|| {
            mlua::Error::runtime(format!("field {name:?} is missing in the date table"))
        })
    };
    let (year, month, day) = (
        field("year", None)?,
        field("month", None)?,
        field("day", None)?,
    );
    let invalid = |_| mlua::Error::runtime("the date is out of range");
    let months = month.saturating_sub(1);
    let year = year.saturating_add(months.div_euclid(12));
    let first = jiff::civil::Date::new(
        i16::try_from(year).map_err(|_| mlua::Error::runtime("the date is out of range"))?,
        i8::try_from(months.rem_euclid(12) + 1).unwrap_or(1),
        1,
    );
    let midnight = first
        .map_err(invalid)?
        .to_zoned(TimeZone::UTC)
        .map_err(invalid)?;
    let part = |value: i64, unit: i64| value.saturating_mul(unit);
    Ok(midnight
        .timestamp()
        .as_second()
        .saturating_add(part(day.saturating_sub(1), 86_400))
        .saturating_add(part(field("hour", Some(12))?, 3_600))
        .saturating_add(part(field("min", Some(0))?, 60))
        .saturating_add(field("sec", Some(0))?))
}

fn date(lua: &Lua, (format, seconds): (Option<String>, Option<i64>)) -> mlua::Result<Value> {
    let out_of_range = |_| mlua::Error::runtime("the time is out of range");
    let time = match seconds {
        None => Timestamp::now(),
        Some(seconds) => Timestamp::from_second(seconds).map_err(out_of_range)?,
    };
    let time = time.to_zoned(TimeZone::UTC);
    let format = format.unwrap_or_else(|| "%c".to_owned());
    let format = format.trim_start_matches('!');
    if format.starts_with("*t") {
        let table = lua.create_table()?;
        let weekday = time.weekday().since(Weekday::Sunday) + 1;
        for (name, number) in [
            ("year", i64::from(time.year())),
            ("month", i64::from(time.month())),
            ("day", i64::from(time.day())),
            ("hour", i64::from(time.hour())),
            ("min", i64::from(time.minute())),
            ("sec", i64::from(time.second())),
            ("wday", i64::from(weekday)),
            ("yday", i64::from(time.day_of_year())),
        ] {
            table.raw_set(name, number)?;
        }
        table.raw_set("isdst", false)?;
        return Ok(Value::Table(table));
    }
    let text = jiff::fmt::strtime::format(format, &time)
        .map_err(|error| mlua::Error::runtime(format!("format {format:?}: {error}")))?;
    Ok(Value::String(lua.create_string(text)?))
}
