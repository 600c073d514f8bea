//! The parser of quantities.

use super::number::{Format, NANO, Quantity};

/// The reason why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text lacks digits, or contains characters that quantities never contain.
    #[error("{0:?} is not a quantity: a number with an optional suffix such as m, k, Gi or e3")]
    Malformed(String),
    /// The suffix is unknown.
    #[error("{0:?} has an unknown quantity suffix")]
    Suffix(String),
    /// The number is too large, or has too many decimal places.
    #[error("{0:?} is too large, or has too many decimal places")]
    NotRepresentable(String),
}

/// The value that replaces a number that is too large, as in Kubernetes: the maximum of `i64`, in billionths.
const MOST: i128 = i64::MAX as i128 * NANO;

/// The factor that a suffix stands for.
enum Unit {
    /// A power of ten.
    Ten(i32, Format),
    /// A power of two.
    Two(u32),
}

impl Quantity {
    /// Parses any notation that Kubernetes accepts: `2`, `0.5`, `500m`, `1Gi`, `12e6`, `-3k`.
    ///
    /// # Errors
    /// When the text is not a quantity, or when a number with a binary suffix is too large or has too many decimal
    /// places.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse(text)
    }
}

fn parse(text: &str) -> Result<Quantity, QuantityError> {
    let malformed = || QuantityError::Malformed(text.to_owned());
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, rest) = leading_digits(unsigned);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(after_point) => leading_digits(after_point),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(malformed());
    }
    let unit = unit_of(suffix).ok_or_else(|| {
        if suffix
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-".contains(&b))
        {
            QuantityError::Suffix(text.to_owned())
        } else {
            malformed()
        }
    })?;
    let not_representable = || QuantityError::NotRepresentable(text.to_owned());
    let (nano, format) = match unit {
        Unit::Ten(exponent, format) => (decimal(whole, fraction, exponent).unwrap_or(MOST), format),
        Unit::Two(bits) => binary(whole, fraction, bits).ok_or_else(not_representable)?,
    };
    Ok(Quantity::from_nano(
        if negative { -nano } else { nano },
        format,
    ))
}

fn leading_digits(text: &str) -> (&str, &str) {
    let end = text
        .bytes()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn unit_of(suffix: &str) -> Option<Unit> {
    let decimal = |exponent| Some(Unit::Ten(exponent, Format::DecimalSi));
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => Some(Unit::Two(10)),
        "Mi" => Some(Unit::Two(20)),
        "Gi" => Some(Unit::Two(30)),
        "Ti" => Some(Unit::Two(40)),
        "Pi" => Some(Unit::Two(50)),
        "Ei" => Some(Unit::Two(60)),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            Some(Unit::Ten(exponent.parse().ok()?, Format::DecimalExponent))
        }
    }
}

/// Returns `whole.fraction * 10^exponent` in billionths, rounded up. Returns `None` if an intermediate result does not
/// fit into 128 bits.
fn decimal(whole: &str, fraction: &str, exponent: i32) -> Option<i128> {
    let digits = || {
        whole
            .bytes()
            .chain(fraction.bytes())
            .skip_while(|&digit| digit == b'0')
    };
    let significant = digits().count();
    if significant == 0 {
        return Some(0);
    }
    // The digits form one integer, which is multiplied by this power of ten.
    let shift = i64::from(exponent) + 9 - i64::try_from(fraction.len()).ok()?;
    if shift >= 0 {
        let integer = integer_of(digits())?;
        integer.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)
    } else {
        let dropped = usize::try_from(-shift).ok()?;
        let kept = significant.saturating_sub(dropped);
        let inexact = digits().skip(kept).any(|digit| digit != b'0');
        integer_of(digits().take(kept))?.checked_add(i128::from(inexact))
    }
}

/// Returns `whole.fraction * 2^bits` in billionths, rounded up and limited to [`MOST`], and the notation. Returns
/// `None` if the fraction has too many digits, or if a result does not fit into 128 bits.
fn binary(whole: &str, fraction: &str, bits: u32) -> Option<(i128, Format)> {
    // A number of more than 19 digits exceeds [`MOST`].
    let whole_digits = whole.trim_start_matches('0');
    if whole_digits.len() > 19 {
        return Some((MOST, Format::BinarySi));
    }
    let whole = integer_of(whole_digits.bytes())? << bits;
    let fraction = fraction.trim_end_matches('0');
    let nano = if fraction.is_empty() {
        whole.checked_mul(NANO)
    } else if fraction.len() <= 19 {
        let scaled = (integer_of(fraction.bytes())? << bits).checked_mul(NANO);
        let divisor = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        match scaled {
            Some(scaled) => {
                let rounded = scaled / divisor + i128::from(scaled % divisor != 0);
                whole.checked_mul(NANO)?.checked_add(rounded)
            }
            None => return None,
        }
    } else {
        return None;
    }?;
    let nano = nano.min(MOST);
    let below_one = nano > 0 && nano < NANO;
    Some((
        nano,
        if below_one {
            Format::DecimalSi
        } else {
            Format::BinarySi
        },
    ))
}

fn integer_of(digits: impl Iterator<Item = u8>) -> Option<i128> {
    // Up to 18 digits fit into 64 bits. 64-bit arithmetic is much cheaper than 128-bit arithmetic.
    let mut small: i64 = 0;
    let mut wide: Option<i128> = None;
    for (position, digit) in digits.enumerate() {
        let digit = digit - b'0';
        if position < 18 {
            small = small * 10 + i64::from(digit);
        } else {
            let so_far = wide.unwrap_or_else(|| i128::from(small));
            wide = Some(so_far.checked_mul(10)?.checked_add(i128::from(digit))?);
        }
    }
    Some(wide.unwrap_or_else(|| i128::from(small)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn malformed_quantities_are_rejected() {
        for text in [
            "",
            " ",
            "+",
            "-",
            ".",
            "Ki",
            "m",
            "1.1.M",
            "1+1.0M",
            "0.1mi",
            "0.1am",
            "aoeu",
            ".5i",
            "1i",
            "-3.01i",
            "-3.01e-",
            " 1",
            "1 ",
            "1K",
            "1ki",
            "1Zi",
            "1e",
            "1e1.5",
            "1e99999999999",
            "--1",
            "0x1",
            "1é",
            "½",
            "x",
            "1x",
            "1.2.3",
            "1 Gi",
            "Gi",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn huge_quantities_are_capped() {
        for text in [
            "1e40",
            "99999999999999999999999999999999999999999",
            "1e2147483647",
        ] {
            assert_eq!(Quantity::parse(text).unwrap().nano(), MOST, "{text}");
        }
        assert_eq!(Quantity::parse("-1e40").unwrap().nano(), -MOST);
    }

    #[test]
    fn every_notation_is_parsed() {
        for (text, nano, format) in [
            ("1", NANO, Format::DecimalSi),
            ("1.", NANO, Format::DecimalSi),
            (".5", NANO / 2, Format::DecimalSi),
            ("007", 7 * NANO, Format::DecimalSi),
            ("1e-9", 1, Format::DecimalExponent),
            ("1e-40", 1, Format::DecimalExponent),
            ("0e40", 0, Format::DecimalExponent),
            ("1.0000000001", NANO + 1, Format::DecimalSi),
            ("2E", 2_000_000_000_000_000_000 * NANO, Format::DecimalSi),
            ("2E0", 2 * NANO, Format::DecimalExponent),
            ("1.5Gi", 1_610_612_736 * NANO, Format::BinarySi),
            ("0.0001Ki", 102_400_000, Format::DecimalSi),
        ] {
            let quantity = Quantity::parse(text).unwrap();
            assert_eq!(
                (quantity.nano(), quantity.format()),
                (nano, format),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in ".{0,40}") {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn quantity_like_text_does_not_panic(
            text in "[+-]?[0-9]{0,45}(\\.[0-9]{0,45})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,12})?"
        ) {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn canonical_text_parses_to_the_same_number(
            number in -1_000_000_000_i64..1_000_000_000,
            suffix in prop::sample::select(vec![
                "", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "e3", "E-2", "e9",
            ]),
        ) {
            let parsed = Quantity::parse(&format!("{number}{suffix}")).unwrap();
            let again = Quantity::parse(&parsed.to_string()).unwrap();
            prop_assert_eq!(parsed, again);
            prop_assert_eq!(parsed.to_string(), again.to_string());
        }

        #[test]
        fn subtraction_undoes_addition(a in any::<i64>(), b in any::<i64>()) {
            let (a, b) = (Quantity::from_milli(a), Quantity::from_integer(b));
            prop_assert_eq!(a + b - b, a);
        }
    }
}
