//! A port of Go's `sort.Sort`, which is a pattern-defeating quicksort. It makes the same swaps as Go.
//!
//! For more than 12 elements, this sort is unstable. Its swaps then decide which of several equal clusters an
//! aggregated division uses. With the same swaps as Go, Berth uses the same clusters as Karmada.

/// Maximum length of ranges that are sorted by insertion, which is stable.
const INSERTION_LIMIT: usize = 12;
/// Minimum length of ranges whose pivot is a median of medians. In such ranges, the sort repairs nearly sorted input.
const LONG: usize = 50;
/// Maximum number of misplaced elements to repair in nearly sorted input.
const MAX_FIXES: usize = 5;
/// Maximum number of swaps while a pivot is chosen. This number of swaps indicates a descending range.
const MAX_PIVOT_SWAPS: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hint {
    Unknown,
    Increasing,
    Decreasing,
}

/// Sorts `data` like Go's `sort.Sort`. `less` reports whether the first element must come before the second element.
pub(super) fn go_sort<T>(data: &mut [T], less: impl Fn(&T, &T) -> bool) {
    let len = data.len();
    let limit = usize::BITS - len.leading_zeros();
    Sorter { data, less: &less }.pdq(0, len, limit);
}

struct Sorter<'a, T, L: Fn(&T, &T) -> bool> {
    data: &'a mut [T],
    less: &'a L,
}

impl<T, L: Fn(&T, &T) -> bool> Sorter<'_, T, L> {
    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.data[a], &self.data[b])
    }

    fn pdq(&mut self, mut a: usize, mut b: usize, mut limit: u32) {
        let mut balanced = true;
        let mut partitioned = true;
        loop {
            let len = b - a;
            if len <= INSERTION_LIMIT {
                self.insertion(a, b);
                return;
            }
            if limit == 0 {
                self.heap(a, b);
                return;
            }
            if !balanced {
                self.break_patterns(a, b);
                limit -= 1;
            }
            let (mut pivot, mut hint) = self.choose_pivot(a, b);
            if hint == Hint::Decreasing {
                self.data[a..b].reverse();
                pivot = (b - 1) - (pivot - a);
                hint = Hint::Increasing;
            }
            if balanced && partitioned && hint == Hint::Increasing && self.partial_insertion(a, b) {
                return;
            }
            if a > 0 && !self.less(a - 1, pivot) {
                a = self.partition_equal(a, b, pivot);
                continue;
            }
            let (mid, already) = self.partition(a, b, pivot);
            partitioned = already;
            let (left, right) = (mid - a, b - mid);
            let threshold = len / 8;
            if left < right {
                balanced = left >= threshold;
                self.pdq(a, mid, limit);
                a = mid + 1;
            } else {
                balanced = right >= threshold;
                self.pdq(mid + 1, b, limit);
                b = mid;
            }
        }
    }

    fn insertion(&mut self, a: usize, b: usize) {
        for i in a + 1..b {
            let mut j = i;
            while j > a && self.less(j, j - 1) {
                self.data.swap(j, j - 1);
                j -= 1;
            }
        }
    }

    fn heap(&mut self, a: usize, b: usize) {
        let len = b - a;
        for root in (0..=(len - 1) / 2).rev() {
            self.sift_down(root, len, a);
        }
        for end in (0..len).rev() {
            self.data.swap(a, a + end);
            self.sift_down(0, end, a);
        }
    }

    fn sift_down(&mut self, mut root: usize, end: usize, first: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(first + child, first + child + 1) {
                child += 1;
            }
            if !self.less(first + root, first + child) {
                return;
            }
            self.data.swap(first + root, first + child);
            root = child;
        }
    }

    fn break_patterns(&mut self, a: usize, b: usize) {
        let len = b - a;
        if len < 8 {
            return;
        }
        let mut random = len as u64;
        let mask = (1_usize << (usize::BITS - len.leading_zeros())) - 1;
        let middle = a + (len / 4) * 2;
        for index in middle - 1..=middle + 1 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "masked to less than twice the length"
            )]
            let mut other = random as usize & mask;
            if other >= len {
                other -= len;
            }
            self.data.swap(index, a + other);
        }
    }

    fn choose_pivot(&self, a: usize, b: usize) -> (usize, Hint) {
        let len = b - a;
        let mut swaps = 0;
        let quarter = len / 4;
        let (mut low, mut middle, mut high) = (a + quarter, a + quarter * 2, a + quarter * 3);
        if len >= 8 {
            if len >= LONG {
                low = self.median(low - 1, low, low + 1, &mut swaps);
                middle = self.median(middle - 1, middle, middle + 1, &mut swaps);
                high = self.median(high - 1, high, high + 1, &mut swaps);
            }
            middle = self.median(low, middle, high, &mut swaps);
        }
        match swaps {
            0 => (middle, Hint::Increasing),
            MAX_PIVOT_SWAPS => (middle, Hint::Decreasing),
            _ => (middle, Hint::Unknown),
        }
    }

    fn median(&self, mut a: usize, mut b: usize, mut c: usize, swaps: &mut usize) -> usize {
        let order = |x: &mut usize, y: &mut usize, swaps: &mut usize| {
            if self.less(*y, *x) {
                *swaps += 1;
                std::mem::swap(x, y);
            }
        };
        order(&mut a, &mut b, swaps);
        order(&mut b, &mut c, swaps);
        order(&mut a, &mut b, swaps);
        b
    }

    fn partial_insertion(&mut self, a: usize, b: usize) -> bool {
        let mut i = a + 1;
        for _ in 0..MAX_FIXES {
            while i < b && !self.less(i, i - 1) {
                i += 1;
            }
            if i == b {
                return true;
            }
            if b - a < LONG {
                return false;
            }
            self.data.swap(i, i - 1);
            if i - a >= 2 {
                for j in (1..i).rev() {
                    if !self.less(j, j - 1) {
                        break;
                    }
                    self.data.swap(j, j - 1);
                }
            }
            if b - i >= 2 {
                for j in i + 1..b {
                    if !self.less(j, j - 1) {
                        break;
                    }
                    self.data.swap(j, j - 1);
                }
            }
        }
        false
    }

    fn partition_equal(&mut self, a: usize, b: usize, pivot: usize) -> usize {
        self.data.swap(a, pivot);
        let (mut i, mut j) = (a + 1, b - 1);
        loop {
            while i <= j && !self.less(a, i) {
                i += 1;
            }
            while i <= j && self.less(a, j) {
                j -= 1;
            }
            if i > j {
                return i;
            }
            self.data.swap(i, j);
            i += 1;
            j -= 1;
        }
    }

    fn partition(&mut self, a: usize, b: usize, pivot: usize) -> (usize, bool) {
        self.data.swap(a, pivot);
        let (mut i, mut j) = (a + 1, b - 1);
        while i <= j && self.less(i, a) {
            i += 1;
        }
        while i <= j && !self.less(j, a) {
            j -= 1;
        }
        if i > j {
            self.data.swap(j, a);
            return (j, true);
        }
        self.data.swap(i, j);
        i += 1;
        j -= 1;
        loop {
            while i <= j && self.less(i, a) {
                i += 1;
            }
            while i <= j && !self.less(j, a) {
                j -= 1;
            }
            if i > j {
                break;
            }
            self.data.swap(i, j);
            i += 1;
            j -= 1;
        }
        self.data.swap(j, a);
        (j, false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn result_is_sorted_and_short_ranges_are_stable(
            values in prop::collection::vec(0_u8..20, 0..300),
        ) {
            let mut data: Vec<(u8, usize)> = values.iter().copied().zip(0..).collect();
            let mut stable = data.clone();
            go_sort(&mut data, |a, b| a.0 > b.0);
            stable.sort_by_key(|&(value, _)| std::cmp::Reverse(value));
            let keys = |data: &[(u8, usize)]| data.iter().map(|&(value, _)| value).collect::<Vec<_>>();
            prop_assert_eq!(keys(&data), keys(&stable));
            if values.len() <= INSERTION_LIMIT {
                prop_assert_eq!(data, stable);
            }
        }
    }

    #[test]
    fn thirteen_elements_are_not_sorted_stably() {
        let mut data: Vec<(u8, u8)> = (0..13)
            .map(|index| (u8::from(index == 12), index))
            .collect();
        go_sort(&mut data, |a, b| a.0 > b.0);
        assert_eq!(data[0], (1, 12));
        assert_ne!(
            data[1],
            (0, 0),
            "a stable sort would keep element 0 before the other equal elements"
        );
    }
}
