//! The memory of a peak after its objects are dropped. The test has a process of its own, because it reads the memory of
//! the process.

#![expect(clippy::unwrap_used, reason = "test code")]
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::fs;
use std::thread;

const MIB: u64 = 1024 * 1024;
const PEAK: u64 = 200 * MIB;

/// Returns the resident memory of the process in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes * 1024
}

/// Allocates small objects on four threads, and keeps one of a thousand, as a cache does that keeps names of objects.
fn peak() -> Vec<Vec<u8>> {
    let threads: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(|| {
                let objects: Vec<Vec<u8>> = (0..PEAK / 4 / 1024).map(|_| vec![1; 1024]).collect();
                objects
            })
        })
        .collect();
    let objects = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap());
    let objects: Vec<Vec<u8>> = objects.collect();
    assert!(resident() > PEAK);
    objects.into_iter().step_by(1000).collect()
}

#[test]
fn the_memory_of_a_peak_returns_to_the_system() {
    let before = resident();
    let kept = peak();
    let held = resident();

    berth_heap_trim::trim();

    let after = resident();
    assert!(
        held > before + PEAK / 2,
        "the allocator itself returned the memory: {before}, {held}"
    );
    assert!(after < before + PEAK / 10, "{before}, {held}, {after}");
    drop(kept);
}
