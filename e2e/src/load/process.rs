//! Processor time and memory of a process, from `/proc`.

use std::time::Duration;

/// Number of clock ticks per second. `/proc` reports processor time in clock ticks. The number is fixed on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the processor time of a process in user and system mode.
pub(super) fn processor_time(id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    // `fields` starts with field 3 of the file. Fields 14 and 15 are the user time and the system time.
    let ticks: u64 = fields
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// Returns the resident memory of a process, in KiB.
pub(super) fn resident_kib(id: u32) -> u64 {
    status(id, "VmRSS:")
}

/// Returns the peak resident memory of a process, in KiB.
pub(super) fn peak_kib(id: u32) -> u64 {
    status(id, "VmHWM:")
}

fn status(id: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok())
        .unwrap_or_default()
}
