//! What the system says of this process. Linux only; elsewhere there is nothing to read.

use std::fs;

/// The unit of times in `/proc`: fixed by the kernel's interface, whatever its own clock.
const TICKS_PER_SECOND: f64 = 100.0;
/// Unit of sizes in `/proc/self/status`.
const KIBIBYTE: f64 = 1024.0;

pub(super) struct Process {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: f64,
    pub(super) open_files: f64,
    pub(super) started: f64,
}

pub(super) fn read() -> Option<Process> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may hold blanks; what follows its last bracket does not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<f64>().ok();
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let resident = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))?
        .split_whitespace()
        .next()?
        .parse::<f64>()
        .ok()?;
    let booted = fs::read_to_string("/proc/stat")
        .ok()?
        .lines()
        .find_map(|l| l.strip_prefix("btime "))?
        .trim()
        .parse::<f64>()
        .ok()?;
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(Process {
        cpu_seconds: (number(11)? + number(12)?) / TICKS_PER_SECOND,
        resident_bytes: resident * KIBIBYTE,
        open_files: u32::try_from(open).map_or(f64::INFINITY, f64::from),
        started: booted + number(19)? / TICKS_PER_SECOND,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_described() {
        let process = read().unwrap();
        assert!(process.resident_bytes > 1e6 && process.open_files >= 3.0);
        let now = jiff::Timestamp::now().as_second();
        assert!((process.started - f64::from(u32::try_from(now).unwrap())).abs() < 86_400.0);
    }
}
