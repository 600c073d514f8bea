//! The canonical text of quantities: what `1000m` becomes when a server stores it.

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    Decimal,
    Exponent,
    Binary,
}

const NANO: i128 = 1_000_000_000;
/// The largest value, as everywhere in Kubernetes.
const MAX: i128 = i64::MAX as i128 * NANO;

/// An amount, and how it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    /// In billionths.
    nanos: i128,
    notation: Notation,
}

impl Quantity {
    pub(crate) const ZERO: Self = Self::whole(0);

    pub(crate) const fn whole(count: i64) -> Self {
        Self {
            nanos: count as i128 * NANO,
            notation: Notation::Decimal,
        }
    }

    /// None if `text` is no quantity.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let negative = text.starts_with('-');
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (notation, power10, shift) = unit(suffix)?;
        let nanos = nanos(whole, fraction, power10, shift);
        let nanos = if negative { -nanos } else { nanos };
        Some(Self { nanos, notation })
    }

    pub(crate) fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub(crate) fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// How many times `other` this is.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio is shown with six digits"
    )]
    pub(crate) fn ratio(self, other: Self) -> f64 {
        self.nanos as f64 / other.nanos as f64
    }
}

impl std::ops::Add for Quantity {
    type Output = Self;

    /// Written as the first that is not zero.
    fn add(self, other: Self) -> Self {
        let notation = if self.is_zero() {
            other.notation
        } else {
            self.notation
        };
        Self {
            nanos: (self.nanos + other.nanos).min(MAX),
            notation,
        }
    }
}

impl std::ops::Sub for Quantity {
    type Output = Self;

    /// Written as the first.
    fn sub(self, other: Self) -> Self {
        Self {
            nanos: self.nanos - other.nanos,
            notation: self.notation,
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.nanos.abs();
        let shown = match self.notation {
            // Small binary quantities are plain numbers.
            Notation::Binary if nanos >= 1024 * NANO => binary(round_up(nanos)),
            Notation::Binary | Notation::Decimal => decimal(nanos),
            Notation::Exponent => exponent(nanos),
        };
        let sign = if self.nanos < 0 { "-" } else { "" };
        write!(f, "{sign}{shown}")
    }
}

/// The canonical form of `text`; none if it is no quantity.
pub(crate) fn canonical(text: &str) -> Option<String> {
    Quantity::parse(text).map(|quantity| quantity.to_string())
}

/// Notation, power of ten and power of two of a suffix.
fn unit(suffix: &str) -> Option<(Notation, i32, u32)> {
    let decimal = |power| Some((Notation::Decimal, power, 0));
    let binary = |shift| Some((Notation::Binary, 0, shift));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((Notation::Exponent, power, 0))
        }
    }
}

/// The value in billionths, rounded up, and capped.
fn nanos(whole: &str, fraction: &str, power10: i32, shift: u32) -> i128 {
    let digits: String = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let scale = power10 + 9 - i32::try_from(fraction.len()).unwrap_or(i32::MAX / 2);
    let length = i32::try_from(digits.len()).unwrap_or(i32::MAX / 2);
    if length + scale > 30 {
        return MAX;
    }
    // Digits far below a billionth cannot matter beyond rounding.
    let kept = usize::try_from((length + scale).max(0) + 3)
        .unwrap_or(0)
        .min(digits.len());
    let rest_is_zero = digits[kept..].bytes().all(|b| b == b'0');
    let scale = scale + i32::try_from(digits.len() - kept).unwrap_or(0);
    let mantissa = digits[..kept].parse::<i128>().unwrap_or(0) + i128::from(!rest_is_zero);
    let mantissa = mantissa.checked_mul(1 << shift).unwrap_or(MAX);
    let value = match u32::try_from(scale) {
        Ok(up) => 10_i128
            .checked_pow(up)
            .and_then(|p| mantissa.checked_mul(p))
            .unwrap_or(MAX),
        Err(_) => match 10_i128.checked_pow(scale.unsigned_abs()) {
            Some(down) => mantissa / down + i128::from(mantissa % down != 0),
            None => 1,
        },
    };
    value.min(MAX)
}

fn round_up(nanos: i128) -> i128 {
    nanos / NANO + i128::from(nanos % NANO != 0)
}

fn binary(mut value: i128) -> String {
    let mut units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter();
    let mut unit = units.next().unwrap_or(&"");
    while value != 0 && value % 1024 == 0 {
        let Some(next) = units.next() else { break };
        value /= 1024;
        unit = next;
    }
    format!("{value}{unit}")
}

/// Mantissa and power of a thousand of a value in billionths.
fn thousands(mut value: i128) -> (i128, i32) {
    let mut power = -9;
    while value != 0 && value % 1000 == 0 && power < 18 {
        value /= 1000;
        power += 3;
    }
    (value, if value == 0 { 0 } else { power })
}

fn decimal(nanos: i128) -> String {
    let (value, power) = thousands(nanos);
    let unit = match power {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    };
    format!("{value}{unit}")
}

fn exponent(nanos: i128) -> String {
    match thousands(nanos) {
        (value, 0) => value.to_string(),
        (value, power) => format!("{value}e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_one_form() {
        for (text, expected) in [
            ("1", "1"),
            ("0", "0"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1000000Ki", "1000000Ki"),
            ("1.5Gi", "1536Mi"),
            ("0.1Gi", "107374183"),
            ("0.5Ki", "512"),
            ("1000k", "1M"),
            ("1e3", "1e3"),
            ("1000e0", "1e3"),
            ("5E", "5E"),
            ("12E", "9223372036854775807"),
            ("-1000m", "-1"),
            ("+5", "5"),
            ("0.0000000001", "1n"),
            (".5", "500m"),
            ("100", "100"),
            ("1000", "1k"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "x", "1x", "1.2.3", "1 Gi", "Gi", "--1"] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
