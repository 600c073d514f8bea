//! The least and the most of something: of a size, or of a cost. Sums and products stay within what can be counted.

/// From the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    /// The least.
    pub(crate) min: u64,
    /// The most.
    pub(crate) max: u64,
}

impl Range {
    /// Nothing is known.
    pub(super) const ANY: Self = Self {
        min: 0,
        max: u64::MAX,
    };

    pub(super) const fn exactly(count: u64) -> Self {
        Self {
            min: count,
            max: count,
        }
    }

    pub(super) const fn between(min: u64, max: u64) -> Self {
        Self { min, max }
    }

    /// Where the union of the sizes of some elements begins, or what it is without any.
    pub(super) const fn of_none(empty: bool) -> Self {
        Self {
            min: if empty { 0 } else { u64::MAX },
            max: 0,
        }
    }

    pub(super) const fn add(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) const fn multiply(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// So much for each, rounded up.
    pub(super) fn at(self, each: f64) -> Self {
        Self {
            min: scaled(self.min, each),
            max: scaled(self.max, each),
        }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates are made in these numbers elsewhere, and have to come out the same; the cast saturates"
)]
fn scaled(count: u64, each: f64) -> u64 {
    (count as f64 * each).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_stays_the_most() {
        assert_eq!(
            Range::ANY.add(Range::exactly(1)),
            Range::between(1, u64::MAX)
        );
        assert_eq!(Range::ANY.multiply(Range::exactly(2)).max, u64::MAX);
        assert_eq!(Range::ANY.at(2.0).max, u64::MAX);
        assert_eq!(Range::between(1, 11).at(0.1), Range::between(1, 2));
    }
}
