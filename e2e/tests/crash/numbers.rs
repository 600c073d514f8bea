//! A deterministic generator of pseudo-random numbers.

pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        let mut numbers = Self(seed);
        // Skip the first numbers, which are similar for neighbouring seeds.
        for _ in 0..4 {
            numbers.below(1);
        }
        numbers
    }

    /// Returns the next number, which is below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Returns a random item of a slice.
    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = self.below(all.len() as u64);
        &all[usize::try_from(index).unwrap()]
    }
}
