//! Numbers that look random and are the same for the same seed.

pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        let mut numbers = Self(seed);
        // Neighbouring seeds begin alike.
        for _ in 0..4 {
            numbers.below(1);
        }
        numbers
    }

    /// The next number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// One of these.
    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = self.below(all.len() as u64);
        &all[usize::try_from(index).unwrap()]
    }
}
