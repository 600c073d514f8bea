//! A limit on the log lines about events that clients cause, such as failed handshakes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Allows a number of log lines in each interval, and counts the suppressed ones.
#[derive(Debug)]
pub struct LogLimit {
    lines: u32,
    interval: Duration,
    window: Mutex<Option<Window>>,
}

#[derive(Debug)]
struct Window {
    started: Instant,
    allowed: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Creates a limit of `lines` in each `interval`.
    pub const fn new(lines: u32, interval: Duration) -> Self {
        Self {
            lines,
            interval,
            window: Mutex::new(None),
        }
    }

    /// Returns the number of lines that were suppressed since the last allowed one, or `None` if this line must be
    /// suppressed.
    pub fn allow(&self) -> Option<u64> {
        self.allow_at(Instant::now())
    }

    fn allow_at(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let suppressed = window.as_ref().map_or(0, |window| window.suppressed);
        let fresh = |suppressed| Window {
            started: now,
            allowed: 0,
            suppressed,
        };
        let current = window.get_or_insert_with(|| fresh(0));
        if now.saturating_duration_since(current.started) >= self.interval {
            *current = fresh(suppressed);
        }
        if current.allowed == self.lines {
            current.suppressed += 1;
            return None;
        }
        current.allowed += 1;
        Some(std::mem::take(&mut current.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted_in_the_next_interval() {
        let limit = LogLimit::new(2, Duration::from_mins(1));
        let start = Instant::now();
        let lines: Vec<_> = (0..5).map(|_| limit.allow_at(start)).collect();
        assert_eq!(lines, [Some(0), Some(0), None, None, None]);
        let later = start + Duration::from_mins(1);
        assert_eq!(limit.allow_at(later), Some(3));
        assert_eq!(limit.allow_at(later), Some(0));
        assert_eq!(limit.allow_at(later), None);
    }
}
