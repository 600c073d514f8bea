//! The rule when a program gives memory back to the operating system after a peak.

use std::time::Duration;

use berth_metrics::process;

/// Interval of the comparisons of the resident memory with its floor.
const PERIOD: Duration = Duration::from_secs(30);
/// Number of bytes by which the resident memory may exceed its floor. A trim that frees less is not worth its pause.
const TOLERANCE: u64 = 64 * 1024 * 1024;

/// The lowest resident memory of the process since it was last trimmed.
#[derive(Debug)]
struct Floor(u64);

impl Floor {
    /// Returns whether the heap should be trimmed, because the resident memory is far above the floor.
    fn is_exceeded(&mut self, resident: u64) -> bool {
        self.0 = self.0.min(resident);
        resident > self.0.saturating_add(TOLERANCE)
    }

    /// Accepts what is left after trimming as the memory that the program uses.
    fn trimmed(&mut self, resident: u64) {
        self.0 = resident;
    }
}

/// Trims the heap whenever the resident memory has grown far beyond what the program used after the last time. Returns
/// only where the system does not tell the resident memory.
///
/// A program whose objects really grow is trimmed once for each growth by the tolerance.
pub(super) async fn give_back() {
    let Some(start) = process::resident_memory() else {
        return;
    };
    let mut floor = Floor(start);
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(resident) = process::resident_memory() else {
            return;
        };
        if !floor.is_exceeded(resident) {
            continue;
        }
        if tokio::task::spawn_blocking(berth_heap_trim::trim)
            .await
            .is_err()
        {
            return;
        }
        let left = process::resident_memory().unwrap_or(resident);
        tracing::debug!(
            before = resident,
            after = left,
            "gave freed memory back to the system"
        );
        floor.trimmed(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn only_a_growth_beyond_the_tolerance_is_trimmed() {
        let mut floor = Floor(50 * MIB);

        assert!(!floor.is_exceeded(100 * MIB));
        assert!(!floor.is_exceeded(114 * MIB));
        assert!(floor.is_exceeded(115 * MIB));

        // The objects are in use: the same size is not trimmed again.
        floor.trimmed(113 * MIB);
        assert!(!floor.is_exceeded(150 * MIB));
        assert!(floor.is_exceeded(178 * MIB));
    }

    #[test]
    fn the_floor_follows_a_process_that_shrinks() {
        let mut floor = Floor(500 * MIB);

        assert!(!floor.is_exceeded(60 * MIB));
        assert!(floor.is_exceeded(300 * MIB));
    }
}
