//! The type [`Quantity`], which is an exact number, and its arithmetic.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::{Add, Sub};

/// Number of billionths in one.
pub(super) const NANO: i128 = 1_000_000_000;
/// Number of billionths in a thousandth.
const NANO_PER_MILLI: i128 = 1_000_000;

/// The notation of a quantity. A quantity is printed in this notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `500m`, `12`, `3G`.
    DecimalSi,
    /// `4Ki`, `1Gi`.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

/// An exact number and its notation.
///
/// The number is counted in billionths, which are the smallest step of Kubernetes quantities. The parser rounds smaller
/// fractions away from zero. Equality, order and hash ignore the notation.
///
/// ```
/// use berth_apimachinery::quantity::Quantity;
///
/// let request = Quantity::parse("512Mi")? + Quantity::parse("0.5Gi")?;
/// assert_eq!(request.to_string(), "1Gi");
/// assert_eq!(Quantity::parse("1500m")?.value(), 2);
/// # Ok::<(), berth_apimachinery::quantity::QuantityError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

impl Quantity {
    /// Zero in decimal notation.
    pub const ZERO: Self = Self {
        nano: 0,
        format: Format::DecimalSi,
    };

    /// Returns an integer in decimal notation.
    pub const fn from_integer(value: i64) -> Self {
        Self {
            nano: value as i128 * NANO,
            format: Format::DecimalSi,
        }
    }

    /// Returns a number of thousandths in decimal notation.
    pub const fn from_milli(milli: i64) -> Self {
        Self {
            nano: milli as i128 * NANO_PER_MILLI,
            format: Format::DecimalSi,
        }
    }

    pub(super) const fn from_nano(nano: i128, format: Format) -> Self {
        Self { nano, format }
    }

    /// Returns the same number in another notation.
    #[must_use]
    pub const fn in_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Returns the number in billionths.
    pub const fn nano(self) -> i128 {
        self.nano
    }

    /// Returns the notation of the number.
    pub const fn format(self) -> Format {
        self.format
    }

    /// Reports whether the number is zero.
    pub const fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Reports whether the number has no fraction.
    pub const fn is_integer(self) -> bool {
        self.nano % NANO == 0
    }

    /// Returns the number as an integer. Fractions are rounded away from zero. A number outside the range of `i64`
    /// becomes the minimum or the maximum of `i64`.
    pub fn value(self) -> i64 {
        rounded_away_from_zero(self.nano, NANO)
    }

    /// Returns the number in thousandths. The result is rounded and limited as in [`Self::value`].
    pub fn milli_value(self) -> i64 {
        rounded_away_from_zero(self.nano, NANO_PER_MILLI)
    }

    /// Returns `self / other` as a floating-point number.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio of two quantities is approximate"
    )]
    pub fn ratio(self, other: Self) -> f64 {
        self.nano as f64 / other.nano as f64
    }

    /// Returns the product of the number and an integer, in the same notation.
    #[must_use]
    pub fn times(self, factor: i64) -> Self {
        Self {
            nano: self.nano.saturating_mul(i128::from(factor)),
            format: self.format,
        }
    }

    /// Splits the number into shares. Each share is a multiple of `step`. Shares differ by at most one step, and the
    /// larger shares are first.
    ///
    /// Then, the remainder that is smaller than a step is added to the first share. If `step` is zero or negative, the
    /// first share gets the whole number.
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

/// Adds two quantities. The sum has the notation of the first operand that is not zero.
impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            nano: self.nano.saturating_add(other.nano),
            format: self.format_with(other),
        }
    }
}

/// Subtracts two quantities. The difference has the notation of the first operand that is not zero.
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
    // Most quantities fit into 64 bits. A 64-bit division is much cheaper than a 128-bit division.
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
    fn is_integer_detects_fractions_and_ratio_divides() {
        assert!(quantity("1Gi").is_integer() && !quantity("1500m").is_integer());
        assert!((quantity("3").ratio(quantity("1500m")) - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn sum_with_zero_has_the_notation_of_the_other_operand() {
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
    fn split_gives_shares_that_add_up_to_the_whole() {
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
    fn quantities_are_ordered_by_their_numbers() {
        assert!(quantity("1Gi") > quantity("1G"));
        assert!(quantity("999m") < quantity("1"));
        assert_eq!(quantity("1000m"), quantity("1"));
        assert_eq!(quantity("1024Mi"), quantity("1Gi"));
    }

    #[test]
    fn arithmetic_saturates() {
        let most = Quantity::from_nano(i128::MAX, Format::DecimalSi);
        assert_eq!(most + most, most);
        assert_eq!(most.times(3), most);
        assert_eq!(most.value(), i64::MAX);
    }
}
