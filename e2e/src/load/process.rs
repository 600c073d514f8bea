//! What the system says of a process: its processor time and its memory.

use std::time::Duration;

/// The unit of processor time in /proc, fixed on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// The processor time that a process has used, in user and in system mode together.
pub(super) fn processor_time(id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    // The fields 14 and 15 of the file are user and system time.
    let ticks: u64 = fields
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// The memory that a process holds now, in KiB.
pub(super) fn resident_kib(id: u32) -> u64 {
    status(id, "VmRSS:")
}

/// The most memory that a process has held, in KiB.
pub(super) fn peak_kib(id: u32) -> u64 {
    status(id, "VmHWM:")
}

fn status(id: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok())
        .unwrap_or_default()
}
