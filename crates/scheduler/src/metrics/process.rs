//! Metrics of the process, from /proc. Omits values that cannot be read, because not every system has it.

use std::fs;
use std::path::Path;

use super::exposition::{Kind, family, float, gauge, sample};

/// The unit of processor times in /proc: hundredths of a second, whatever the kernel's tick is.
const TICKS_PER_SECOND: f64 = 100.0;
/// The value of Prometheus clients for an unlimited resource.
const UNLIMITED: f64 = 18_446_744_073_709_551_615.0;

pub(super) fn encode(out: &mut String) {
    encode_from(out, Path::new("/proc"));
}

fn encode_from(out: &mut String, proc: &Path) {
    let read = |file: &str| fs::read_to_string(proc.join(file)).unwrap_or_default();
    let (stat, status, limits) = (read("self/stat"), read("self/status"), read("self/limits"));
    // The second field is the program's name in parentheses, which may contain any character.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
    // proc(5) numbers fields from 1. The first after the name is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    if let (Some(user), Some(system)) = (field(14), field(15)) {
        let (name, seconds) = (
            "process_cpu_seconds_total",
            (user + system) / TICKS_PER_SECOND,
        );
        counter(
            out,
            name,
            "Total user and system CPU time spent in seconds.",
            seconds,
        );
    }
    if let Some(limit) = limit(&limits, "Max open files") {
        gauge(
            out,
            "process_max_fds",
            "Maximum number of open file descriptors.",
            limit,
        );
    }
    let network = read("self/net/netstat");
    if let (Some(received), Some(sent)) =
        (octets(&network, "InOctets"), octets(&network, "OutOctets"))
    {
        counter(
            out,
            "process_network_receive_bytes_total",
            "Number of bytes received over the network, in the network namespace of the process.",
            received,
        );
        counter(
            out,
            "process_network_transmit_bytes_total",
            "Number of bytes sent over the network, in the network namespace of the process.",
            sent,
        );
    }
    if let Ok(open) = fs::read_dir(proc.join("self/fd")) {
        let open = u32::try_from(open.count()).unwrap_or(u32::MAX);
        gauge(
            out,
            "process_open_fds",
            "Number of open file descriptors.",
            open.into(),
        );
    }
    if let Some(bytes) = kibibytes(&status, "VmRSS:") {
        gauge(
            out,
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            bytes,
        );
    }
    if let (Some(ticks), Some(boot)) = (field(22), boot_time(&read("stat"))) {
        gauge(
            out,
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            boot + ticks / TICKS_PER_SECOND,
        );
    }
    if let Some(bytes) = kibibytes(&status, "VmSize:") {
        gauge(
            out,
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            bytes,
        );
    }
    if let Some(limit) = limit(&limits, "Max address space") {
        gauge(
            out,
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            limit,
        );
    }
}

fn counter(out: &mut String, name: &str, help: &str, value: f64) {
    family(out, name, Kind::Counter, help);
    sample(out, name, "", float(value));
}

/// Returns the value of a line of `status` such as `VmRSS:  123 kB`, in bytes.
fn kibibytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// Returns the soft limit in a line of `limits`.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(UNLIMITED),
        number => number.parse().ok(),
    }
}

/// Returns a value of `IpExt` in `netstat`, where a line of names precedes each line of values.
fn octets(network: &str, name: &str) -> Option<f64> {
    let mut lines = network.lines().filter(|line| line.starts_with("IpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let index = names.split_whitespace().position(|known| known == name)?;
    values.split_whitespace().nth(index)?.parse().ok()
}

fn boot_time(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_proc_are_converted_to_seconds_and_bytes() {
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
        let mut out = String::new();
        encode_from(&mut out, proc.path());
        let samples: Vec<&str> = out.lines().filter(|line| !line.starts_with('#')).collect();
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
        assert_eq!(samples, expected);
    }

    #[test]
    fn nothing_is_exposed_without_proc() {
        let mut out = String::new();
        encode_from(&mut out, Path::new("/nowhere"));
        assert_eq!(out, "");
    }
}
