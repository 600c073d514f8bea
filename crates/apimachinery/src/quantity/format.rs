//! The canonical text of quantities.

use std::fmt;

use super::number::{Format, NANO, Quantity};

/// Decimal suffixes. The first suffix stands for a billionth, and each further suffix for 1000 times the previous one.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Binary suffixes. Each suffix stands for 1024 times the previous suffix.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The decimal exponent of a billionth, which is the smallest step of quantities.
const NANO_EXPONENT: i32 = -9;

/// Writes the canonical text. It has the largest suffix that leaves an integer before the suffix. A quantity in binary
/// notation is written in decimal notation if it is less than 1024 or has a fraction.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let whole = self.nano() % NANO == 0;
        let value = self.nano() / NANO;
        match self.format() {
            Format::BinarySi if whole && value.abs() >= 1024 => {
                let (mantissa, thousands) = strip_factors(value, 1024, BINARY_SUFFIXES.len() - 1);
                write!(
                    f,
                    "{mantissa}{}",
                    BINARY_SUFFIXES.get(thousands).unwrap_or(&"")
                )
            }
            Format::BinarySi | Format::DecimalSi => {
                let (mantissa, thousands) =
                    strip_factors(self.nano(), 1000, DECIMAL_SUFFIXES.len() - 1);
                write!(
                    f,
                    "{mantissa}{}",
                    DECIMAL_SUFFIXES.get(thousands).unwrap_or(&"")
                )
            }
            Format::DecimalExponent => {
                let (mantissa, thousands) = strip_factors(self.nano(), 1000, usize::MAX);
                let exponent = NANO_EXPONENT + 3 * i32::try_from(thousands).unwrap_or(0);
                if exponent == 0 {
                    write!(f, "{mantissa}")
                } else {
                    write!(f, "{mantissa}e{exponent}")
                }
            }
        }
    }
}

/// Divides by `base` at most `limit` times while there is no remainder. Returns the result and the number of
/// divisions.
fn strip_factors(mut mantissa: i128, base: i128, limit: usize) -> (i128, usize) {
    let mut times = 0;
    while times < limit && mantissa % base == 0 {
        mantissa /= base;
        times += 1;
    }
    (mantissa, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_uses_the_largest_suffix_without_a_fraction() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("-0", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1500", "1500"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1023Ki", "1023Ki"),
            ("1000Ki", "1000Ki"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("0.3Ki", "307200m"),
            ("1e3", "1e3"),
            ("1E4", "10e3"),
            ("1.5e-3", "1500e-6"),
            ("5e0", "5"),
            ("10G", "10G"),
            ("1000E", "1000E"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-2500m", "-2500m"),
            ("+3k", "3k"),
            ("100Ei", "9223372036854775807"),
            ("9223372036854775807", "9223372036854775807"),
            ("1", "1"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1000000Ki", "1000000Ki"),
            ("1.5Gi", "1536Mi"),
            ("0.1Gi", "107374182400m"),
            ("1000k", "1M"),
            ("1000e0", "1e3"),
            ("5E", "5E"),
            ("12E", "12E"),
            ("-1000m", "-1"),
            (".5", "500m"),
        ] {
            assert_eq!(
                Quantity::parse(text).unwrap().to_string(),
                canonical,
                "{text}"
            );
        }
    }
}
