//! The arithmetic of lending between the ClusterQueues of a cohort, for one resource. All functions are pure.
//!
//! A queue owns its nominal quota. It keeps a part of the quota for itself (the nominal quota minus the lending limit),
//! and lends the rest to the cohort. Usage beyond the kept part comes from the cohort, so that
//! - the usage that comes from the cohort never exceeds the sum of all lent parts;
//! - therefore, the usage of all queues never exceeds the sum of their nominal quotas.

use berth_apimachinery::quantity::Quantity;

/// The quota of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) nominal: Quantity,
    /// The largest usage beyond the nominal quota, or `None` for no limit. Zero for a queue without a cohort.
    pub(super) borrowing: Option<Quantity>,
    /// The part of the nominal quota that other queues may use. Zero for a queue without a cohort.
    pub(super) lent: Quantity,
}

/// Reason why a usage does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// The queue would borrow more than it may.
    Borrowing {
        /// The largest amount to borrow. Zero for a queue without a cohort.
        limit: Quantity,
    },
    /// The other queues have not left enough of the cohort's quota.
    Cohort {
        /// The unused quota that the queue can still get.
        unused: Quantity,
    },
}

impl Limit {
    /// Returns the quota that only the queue itself uses.
    fn kept(self) -> Quantity {
        self.nominal - self.lent
    }

    /// Returns the part of a usage that comes from the cohort.
    pub(super) fn used_of_cohort(self, used: Quantity) -> Quantity {
        (used - self.kept()).max(Quantity::ZERO)
    }

    /// Returns the part of a usage beyond the nominal quota.
    pub(super) fn borrowed(self, used: Quantity) -> Quantity {
        (used - self.nominal).max(Quantity::ZERO)
    }

    /// Checks whether the usage of the queue may grow from `used` to `requested`. `others` is the usage of the other
    /// queues that comes from the cohort, and `lent` the sum of all lent parts.
    pub(super) fn check(
        self,
        used: Quantity,
        requested: Quantity,
        others: Quantity,
        lent: Quantity,
    ) -> Result<(), Excess> {
        let borrowed = self.borrowed(requested);
        if let Some(limit) = self.borrowing
            && borrowed > limit
        {
            return Err(Excess::Borrowing { limit });
        }
        let (before, after) = (self.used_of_cohort(used), self.used_of_cohort(requested));
        if after > before && others + after > lent {
            let unused = (lent - others - before).max(Quantity::ZERO);
            return Err(Excess::Cohort { unused });
        }
        Ok(())
    }
}
