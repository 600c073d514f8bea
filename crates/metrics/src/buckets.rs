//! The bounds of the buckets of histograms.

/// Returns the upper bounds of `COUNT` buckets. The bound with the index `i` is `start · factor^i`.
///
/// Each bound is the product of the previous bound and the factor, as in Prometheus' Go client. Powers of the factor
/// would differ in the last digits, which are part of the label `le`.
pub const fn exponential<const COUNT: usize>(start: f64, factor: f64) -> [f64; COUNT] {
    let mut bounds = [start; COUNT];
    let mut index = 1;
    while index < COUNT {
        bounds[index] = bounds[index - 1] * factor;
        index += 1;
    }
    bounds
}
