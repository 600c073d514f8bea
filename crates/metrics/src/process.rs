//! The `process_*` metrics of the current process, with the names that Prometheus clients use.
//!
//! The values are read from `/proc`. A metric that the system does not provide is omitted.

use std::fs;
use std::path::Path;

use crate::{ConstCounter, ConstGauge, Registry};

/// Number of clock ticks per second. A tick is the unit of time in `/proc`, and has the same length on every Linux
/// system.
const TICKS_PER_SECOND: f64 = 100.0;
/// The value that Prometheus clients report for an absent limit.
const UNLIMITED: f64 = 18_446_744_073_709_551_615.0;

/// Registers the metrics of the current process.
pub fn register(registry: &mut Registry) {
    register_from(Path::new("/proc"), registry);
}

/// Returns the resident memory of the current process in bytes, if the system tells it.
pub fn resident_memory() -> Option<u64> {
    bytes_of(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

fn register_from(proc: &Path, registry: &mut Registry) {
    let read = |file: &str| fs::read_to_string(proc.join(file)).unwrap_or_default();
    let (stat, status, limits) = (read("self/stat"), read("self/status"), read("self/limits"));
    let network = read("self/net/netstat");
    // The second field is the program name in parentheses. The name may itself contain blanks and parentheses.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
    // The manual page proc(5) numbers the fields from 1. Field 3 is the first field after the program name.
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let cpu_ticks = field(14).zip(field(15)).map(|(user, system)| user + system);
    let network_bytes = octets(&network, "InOctets").zip(octets(&network, "OutOctets"));
    let open_files = fs::read_dir(proc.join("self/fd")).ok();
    let open_files = open_files.map(|open| u32::try_from(open.count()).unwrap_or(u32::MAX));
    let started = field(22).zip(boot_time(&read("stat")));
    #[expect(
        clippy::cast_precision_loss,
        reason = "values of metrics are floating-point numbers"
    )]
    let size = |name| bytes_of(&status, name).map(|bytes| bytes as f64);
    let all = [
        (
            "process_cpu_seconds_total",
            "Total user and system CPU time spent in seconds.",
            cpu_ticks.map(|ticks| ticks / TICKS_PER_SECOND),
        ),
        (
            "process_max_fds",
            "Maximum number of open file descriptors.",
            limit(&limits, "Max open files"),
        ),
        (
            "process_network_receive_bytes_total",
            "Number of bytes received over the network, in the network namespace of the process.",
            network_bytes.map(|(received, _)| received),
        ),
        (
            "process_network_transmit_bytes_total",
            "Number of bytes sent over the network, in the network namespace of the process.",
            network_bytes.map(|(_, sent)| sent),
        ),
        (
            "process_open_fds",
            "Number of open file descriptors.",
            open_files.map(f64::from),
        ),
        (
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            size("VmRSS:"),
        ),
        (
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            started.map(|(ticks, boot)| boot + ticks / TICKS_PER_SECOND),
        ),
        (
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            size("VmSize:"),
        ),
        (
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            limit(&limits, "Max address space"),
        ),
    ];
    for (name, help, value) in all {
        let Some(value) = value else { continue };
        if name.ends_with("_total") {
            registry.register(name, help, ConstCounter::new(value));
        } else {
            registry.register(name, help, ConstGauge::new(value));
        }
    }
}

/// Returns the number of bytes in a line of `/proc/self/status`, such as `VmRSS:  123 kB`.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns the soft limit in the line of `/proc/self/limits` with this name.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(UNLIMITED),
        number => number.parse().ok(),
    }
}

/// Returns a number of the group `IpExt` in `/proc/self/net/netstat`. In this file, a line of names precedes each line
/// of values.
fn octets(network: &str, name: &str) -> Option<f64> {
    let mut lines = network.lines().filter(|line| line.starts_with("IpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let column = names.split_whitespace().position(|found| found == name)?;
    values.split_whitespace().nth(column)?.parse().ok()
}

fn boot_time(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    /// Returns the samples of a folder like `/proc`.
    fn samples(proc: &Path) -> Vec<String> {
        let text = Format::Text.render(|registry| register_from(proc, registry));
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn proc_files_are_converted_to_seconds_and_bytes() {
        let proc = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = proc.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let after_name = "S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 4 0 12345 0 0";
        write("self/stat", &format!("7 (odd) name) {after_name}"));
        write("self/status", "VmSize:\t  20 kB\nVmRSS:\t  10 kB\n");
        write(
            "self/limits",
            "Max open files            1024     4096     files\nMax address space         unlimited   unlimited   bytes\n",
        );
        write(
            "self/net/netstat",
            "TcpExt: A B\nTcpExt: 1 2\nIpExt: X InOctets OutOctets\nIpExt: 0 5 6\n",
        );
        write("self/fd/0", "");
        write("stat", "cpu 1 2\nbtime 1000\n");
        let found = samples(proc.path());
        let expected = [
            "process_cpu_seconds_total 2",
            "process_max_fds 1024",
            "process_network_receive_bytes_total 5",
            "process_network_transmit_bytes_total 6",
            "process_open_fds 1",
            "process_resident_memory_bytes 10240",
            "process_start_time_seconds 1123.45",
            "process_virtual_memory_bytes 20480",
            "process_virtual_memory_max_bytes 18446744073709552000",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn without_proc_there_are_no_metrics() {
        assert_eq!(samples(Path::new("/nowhere")), [""; 0]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_current_process_has_plausible_metrics() {
        let all = samples(Path::new("/proc"));
        let value = |name: &str| {
            let mut samples = all.iter().filter_map(|sample| sample.split_once(' '));
            let (_, value) = samples.find(|(found, _)| *found == name).unwrap();
            value.parse::<f64>().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_open_fds") >= 3.0);
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - value("process_start_time_seconds");
        assert!(age.abs() < 86_400.0, "{age}");
    }
}
