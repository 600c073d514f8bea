//! The exact number behind a quantity, and its arithmetic.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::{Add, Sub};

use super::format::Format;
use super::parse::{QuantityError, parse};

/// Billionths in one.
pub(super) const NANO: i128 = 1_000_000_000;
/// Billionths in a thousandth.
const NANO_PER_MILLI: i128 = 1_000_000;

/// An exact number with the notation it is written in.
///
/// The number is counted in billionths, which is the smallest step Kubernetes knows: what is smaller
/// when parsed is rounded away from zero. Equality, order and hash are those of the number; the notation
/// (see [`Format`]) does not count.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

impl Quantity {
    /// Nothing, in plain decimal notation.
    pub const ZERO: Self = Self {
        nano: 0,
        format: Format::DecimalSi,
    };

    /// Reads any notation that Kubernetes accepts: `2`, `0.5`, `500m`, `1Gi`, `12e6`, `-3k`.
    ///
    /// # Errors
    /// When the text is not a quantity, or is larger than about 10^29 in either direction.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse(text)
    }

    /// A whole number in decimal notation.
    pub const fn from_integer(value: i64) -> Self {
        Self {
            nano: value as i128 * NANO,
            format: Format::DecimalSi,
        }
    }

    /// A number of thousandths in decimal notation.
    pub const fn from_milli(milli: i64) -> Self {
        Self {
            nano: milli as i128 * NANO_PER_MILLI,
            format: Format::DecimalSi,
        }
    }

    pub(super) const fn from_nano(nano: i128, format: Format) -> Self {
        Self { nano, format }
    }

    /// The number in billionths.
    pub const fn nano(self) -> i128 {
        self.nano
    }

    /// The notation the number is written in.
    pub const fn format(self) -> Format {
        self.format
    }

    /// Whether the number is 0.
    pub const fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// The number as an integer, fractions rounded away from zero, bounded to what an `i64` holds.
    pub fn value(self) -> i64 {
        rounded_away_from_zero(self.nano, NANO)
    }

    /// The number in thousandths, fractions rounded away from zero, bounded to what an `i64` holds.
    pub fn milli_value(self) -> i64 {
        rounded_away_from_zero(self.nano, NANO_PER_MILLI)
    }

    /// The product with a whole number; the notation stays.
    #[must_use]
    pub fn times(self, factor: i64) -> Self {
        Self {
            nano: self.nano.saturating_mul(i128::from(factor)),
            format: self.format,
        }
    }

    /// Shares that are as equal as whole steps allow, the larger ones first; what is less than a step is in the
    /// first one. The notation stays. Without a positive step the shares cannot be cut, and the first has all.
    pub fn split(self, shares: u32, step: Self) -> impl Iterator<Item = Self> {
        let (steps, left) = if step.nano > 0 {
            (self.nano / step.nano, self.nano % step.nano)
        } else {
            (0, self.nano)
        };
        let each = steps / i128::from(shares.max(1));
        let larger = steps % i128::from(shares.max(1));
        (0..shares).map(move |index| {
            let whole = (each + i128::from(i128::from(index) < larger)) * step.nano;
            Self {
                nano: whole + if index == 0 { left } else { 0 },
                format: self.format,
            }
        })
    }

    fn format_with(self, other: Self) -> Format {
        if self.is_zero() {
            other.format
        } else {
            self.format
        }
    }
}

/// The sum. Zero plus something takes over the notation of that something.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            nano: self.nano.saturating_add(other.nano),
            format: self.format_with(other),
        }
    }
}

/// The difference. Zero minus something takes over the notation of that something.
impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            nano: self.nano.saturating_sub(other.nano),
            format: self.format_with(other),
        }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

fn rounded_away_from_zero(nano: i128, unit: i128) -> i64 {
    // Nearly every quantity of a real cluster fits 64 bits here, where division is much cheaper.
    let whole = match (i64::try_from(nano), i64::try_from(unit)) {
        (Ok(nano), Ok(unit)) => {
            let rest = if nano % unit == 0 { 0 } else { nano.signum() };
            i128::from(nano / unit + rest)
        }
        _ => nano / unit + if nano % unit == 0 { 0 } else { nano.signum() },
    };
    i64::try_from(whole).unwrap_or(if whole > 0 { i64::MAX } else { i64::MIN })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn values_round_away_from_zero() {
        for (text, value, milli) in [
            ("0", 0, 0),
            ("1", 1, 1000),
            ("1m", 1, 1),
            ("1001m", 2, 1001),
            ("1n", 1, 1),
            ("-1m", -1, -1),
            ("1500u", 1, 2),
            ("1Ki", 1024, 1_024_000),
            ("1.5Ki", 1536, 1_536_000),
            ("9223372036854775807", i64::MAX, i64::MAX),
            ("100E", i64::MAX, i64::MAX),
            ("-100E", i64::MIN, i64::MIN),
        ] {
            assert_eq!(quantity(text).value(), value, "value of {text}");
            assert_eq!(quantity(text).milli_value(), milli, "milli value of {text}");
        }
    }

    #[test]
    fn zero_takes_over_the_notation_of_the_other_operand() {
        for (left, right, sum, difference) in [
            ("0", "1Gi", "1Gi", "-1Gi"),
            ("0", "1G", "1G", "-1G"),
            ("1Gi", "0", "1Gi", "1Gi"),
            ("2Gi", "1k", "2147484648", "2147482648"),
            ("2k", "1Ki", "3024", "976"),
            ("0Ki", "1e3", "1e3", "-1e3"),
            ("1500m", "1", "2500m", "500m"),
            ("1", "1Gi", "1073741825", "-1073741823"),
        ] {
            let (a, b) = (quantity(left), quantity(right));
            assert_eq!((a + b).to_string(), sum, "{left} + {right}");
            assert_eq!((a - b).to_string(), difference, "{left} - {right}");
        }
        assert_eq!((quantity("0") - quantity("1Gi")).format(), Format::BinarySi);
        assert_eq!(
            (quantity("1") - quantity("1Gi")).format(),
            Format::DecimalSi
        );
    }

    #[test]
    fn shares_are_as_equal_as_whole_steps_allow_and_nothing_is_lost() {
        for (whole, shares, step, expected) in [
            ("32", 4, "1m", vec!["8", "8", "8", "8"]),
            ("1", 3, "1m", vec!["334m", "333m", "333m"]),
            ("128Gi", 2, "1", vec!["64Gi", "64Gi"]),
            ("110", 4, "1", vec!["28", "28", "27", "27"]),
            ("2500m", 2, "1", vec!["1500m", "1"]),
            ("7", 2, "0", vec!["7", "0"]),
            ("7", 0, "1", vec![]),
        ] {
            let found: Vec<String> = quantity(whole)
                .split(shares, quantity(step))
                .map(|share| share.to_string())
                .collect();
            assert_eq!(found, expected, "{whole} by {shares}");
        }
    }

    #[test]
    fn order_is_that_of_the_numbers() {
        assert!(quantity("1Gi") > quantity("1G"));
        assert!(quantity("999m") < quantity("1"));
        assert_eq!(quantity("1000m"), quantity("1"));
        assert_eq!(quantity("1024Mi"), quantity("1Gi"));
    }

    #[test]
    fn arithmetic_at_the_ends_saturates() {
        let most = Quantity::from_nano(i128::MAX, Format::DecimalSi);
        assert_eq!(most + most, most);
        assert_eq!(most.times(3), most);
        assert_eq!(most.value(), i64::MAX);
    }
}
