//! What the rules of a schema may cost: each by itself, and all of them together.

use crate::error::Cause;

/// What one expression may cost.
const OF_ONE: u64 = 10_000_000;
/// What all expressions of a schema may cost together.
const OF_ALL: u64 = 100_000_000;
/// So many expressions are named that cost the most, if they cost enough to matter.
const NAMED: usize = 4;
const MATTERS: u64 = OF_ALL / 100;
const ADVICE: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";

/// What was spent so far.
#[derive(Debug, Default)]
pub(super) struct Budget {
    spent: u64,
    /// The dearest expressions, the dearest of all first.
    dearest: Vec<(String, u64)>,
    refused: Vec<Cause>,
}

impl Budget {
    /// Spends what the expression at `at` costs, which messages call `what`.
    pub(super) fn spend(&mut self, at: &str, what: &str, cost: u64) {
        self.spent = self.spent.saturating_add(cost);
        if cost >= MATTERS {
            let place = self.dearest.partition_point(|(_, other)| *other >= cost);
            self.dearest.insert(place, (at.to_owned(), cost));
            self.dearest.truncate(NAMED);
        }
        if cost > OF_ONE {
            let detail = exceeds(&format!("estimated {what} cost"), cost, OF_ONE);
            self.refused.push(Cause::forbidden(at, &detail));
        }
    }

    /// All that costs too much, in the schema at `path`.
    pub(super) fn balance(self, path: &str) -> Vec<Cause> {
        let mut causes = self.refused;
        if self.spent <= OF_ALL {
            return causes;
        }
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let total =
            "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let dearest = self.dearest.into_iter();
        causes.extend(dearest.map(|(at, _)| Cause::forbidden(at, detail)));
        causes.push(Cause::forbidden(path, &exceeds(total, self.spent, OF_ALL)));
        causes
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a factor is shown, of two digits or so"
)]
fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!("{what} exceeds budget by factor of {factor} {ADVICE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_are_named() {
        let mut budget = Budget::default();
        for (at, cost) in [
            ("a", 2_000_000),
            ("b", 999_999),
            ("c", 37_000_001),
            ("d", 3_000_000),
            ("e", 3_000_000),
            ("f", 70_000_000),
        ] {
            budget.spend(at, "rule", cost);
        }
        let causes = budget.balance("schema");
        let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["c", "f", "f", "c", "d", "e", "schema"]);
        for (i, factor) in [(0, "3.7x"), (1, "7.0x"), (6, "1.160000x")] {
            let says = &causes[i].message;
            assert!(says.contains(&format!("by factor of {factor} (")), "{says}");
        }
    }
}
