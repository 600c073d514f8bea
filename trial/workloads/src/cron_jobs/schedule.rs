//! Parsing of cron schedules, and search for scheduled times.

use cronexpr::{Crontab, MakeTimestamp};
use jiff::{Span, Timestamp, ToSpan as _};

/// A parsed cron schedule.
#[derive(Debug)]
pub(super) struct Schedule(Crontab);

impl Schedule {
    /// Parses five fields or a descriptor such as `@hourly`, in a time zone, which is UTC by default. Returns `None`
    /// for `@every`, invalid fields and unknown time zones.
    pub(super) fn parse(text: &str, zone: Option<&str>) -> Option<Self> {
        let fields = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            fields => fields,
        };
        // A question mark means the same as an asterisk.
        let fields = fields.replace('?', "*");
        let zone = zone.filter(|zone| !zone.is_empty()).unwrap_or("UTC");
        cronexpr::parse_crontab(&format!("{fields} {zone}"))
            .ok()
            .map(Self)
    }

    /// Returns the first scheduled time after `after`.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let next = self.0.find_next(MakeTimestamp(after)).ok()?;
        Some(next.timestamp())
    }

    /// Returns the latest scheduled time after `since` that is at most `now`.
    pub(super) fn latest(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        // The search uses growing spans before `now`, to avoid iterating over many missed times.
        let spans: [Span; 5] = [
            1.minute(),
            1.hour(),
            24.hours(),
            (24 * 32).hours(),
            (24 * 366 * 8).hours(),
        ];
        spans.into_iter().find_map(|span| {
            let start = now.checked_sub(span).unwrap_or(Timestamp::MIN).max(since);
            let times = std::iter::successors(self.next(start), |time| self.next(*time));
            times.take_while(|time| *time <= now).last()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn fields_descriptors_and_zones_are_parsed() {
        let now = at("2026-03-01T10:30:20Z");
        for (schedule, zone, next) in [
            ("* * * * *", None, "2026-03-01T10:31:00Z"),
            ("*/20 * * * *", None, "2026-03-01T10:40:00Z"),
            ("0 9 * * mon-fri", None, "2026-03-02T09:00:00Z"),
            ("0 9 ? * *", None, "2026-03-02T09:00:00Z"),
            ("@hourly", None, "2026-03-01T11:00:00Z"),
            ("@weekly", None, "2026-03-08T00:00:00Z"),
            ("@yearly", None, "2027-01-01T00:00:00Z"),
            ("0 12 * * *", Some("UTC"), "2026-03-01T12:00:00Z"),
            ("0 12 * * *", Some("Asia/Shanghai"), "2026-03-02T04:00:00Z"),
        ] {
            let schedule = Schedule::parse(schedule, zone).unwrap();
            assert_eq!(schedule.next(now), Some(at(next)), "{schedule:?}");
        }
        assert!(Schedule::parse("@every 1h", None).is_none());
        assert!(Schedule::parse("0 12 * * *", Some("No/Where")).is_none());
    }

    #[test]
    fn latest_due_time_is_found() {
        let now = at("2026-03-01T10:30:20Z");
        for (schedule, since, latest) in [
            (
                "* * * * *",
                "2026-03-01T10:29:50Z",
                Some("2026-03-01T10:30:00Z"),
            ),
            ("* * * * *", "2026-03-01T10:30:00Z", None),
            // The schedule has had a time every minute for years.
            (
                "* * * * *",
                "2000-01-01T00:00:00Z",
                Some("2026-03-01T10:30:00Z"),
            ),
            (
                "0 4 * * *",
                "2026-02-01T00:00:00Z",
                Some("2026-03-01T04:00:00Z"),
            ),
            (
                "0 0 29 2 *",
                "2020-01-01T00:00:00Z",
                Some("2024-02-29T00:00:00Z"),
            ),
            ("0 4 * * *", "2026-03-01T04:00:00Z", None),
        ] {
            let schedule = Schedule::parse(schedule, None).unwrap();
            assert_eq!(
                schedule.latest(at(since), now),
                latest.map(at),
                "{schedule:?}"
            );
        }
    }
}
