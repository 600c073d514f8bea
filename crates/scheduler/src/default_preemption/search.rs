//! A search for the smallest sufficient set of assignments to evict, with a bounded number of trials. A set is
//! sufficient if the binding fits after the eviction of the set. A trial checks this for one set.
//!
//! The search tries smaller sets first. Among sets of equal size, it tries less important assignments first. If the
//! trials are used up, the search takes the shortest sufficient prefix of the candidates. It then removes unneeded
//! assignments from this prefix, the most important assignment first. The result is deterministic.

use super::candidates::Candidates;
use crate::framework::Victim;

/// Maximum number of trials in the search for the smallest set.
const EXACT_TRIALS: usize = 256;
/// Maximum number of trials in one call of [`remove_unneeded`].
const REMOVAL_TRIALS: usize = 256;

/// Returns the victims, or `None` if even the set of all candidates is insufficient. `fits` runs a trial. The search
/// prefers assignments that are already being evicted.
pub(super) fn smallest(
    candidates: Candidates,
    mut fits: impl FnMut(&[Victim]) -> bool,
) -> Option<Vec<Victim>> {
    let Candidates { evicting, placed } = candidates;
    let with = |chosen: &[Victim]| [evicting.as_slice(), chosen].concat();
    if !fits(&with(&placed)) {
        return None;
    }
    if !evicting.is_empty() && fits(&evicting) {
        return Some(remove_unneeded(Vec::new(), evicting, &mut fits));
    }
    let chosen = exact(&placed, |chosen| fits(&with(chosen)));
    let chosen = chosen.unwrap_or_else(|| {
        let enough = shortest_prefix(&placed, |chosen| fits(&with(chosen)));
        remove_unneeded(evicting.clone(), enough, &mut fits)
            .into_iter()
            .filter(|victim| !evicting.contains(victim))
            .collect()
    });
    Some(remove_unneeded(chosen, evicting, &mut fits))
}

/// Returns the first sufficient set, in order of size, or `None` after [`EXACT_TRIALS`] trials.
fn exact(placed: &[Victim], mut fits: impl FnMut(&[Victim]) -> bool) -> Option<Vec<Victim>> {
    let mut left = EXACT_TRIALS;
    for size in 1..=placed.len() {
        let mut indices: Vec<usize> = (0..size).collect();
        loop {
            left = left.checked_sub(1)?;
            let chosen: Vec<Victim> = indices.iter().map(|&index| placed[index].clone()).collect();
            if fits(&chosen) {
                return Some(chosen);
            }
            if !advance(&mut indices, placed.len()) {
                break;
            }
        }
    }
    None
}

/// Advances `indices` to the next combination of the same size. Combinations are ordered by their most important
/// assignment. Returns `false` after the last combination.
fn advance(indices: &mut [usize], count: usize) -> bool {
    for index in 0..indices.len() {
        let limit = indices.get(index + 1).copied().unwrap_or(count);
        if indices[index] + 1 < limit {
            indices[index] += 1;
            for (position, value) in indices[..index].iter_mut().enumerate() {
                *value = position;
            }
            return true;
        }
    }
    false
}

/// Returns the shortest sufficient prefix of `placed`. The whole list must be sufficient.
fn shortest_prefix(placed: &[Victim], mut fits: impl FnMut(&[Victim]) -> bool) -> Vec<Victim> {
    let (mut too_few, mut enough) = (0, placed.len());
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if fits(&placed[..middle]) {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    placed[..enough].to_vec()
}

/// Removes unneeded assignments from `removable`, the most important assignment first. An assignment is unneeded if the
/// other assignments are sufficient. Returns `kept` and the rest of `removable`.
fn remove_unneeded(
    kept: Vec<Victim>,
    mut removable: Vec<Victim>,
    fits: &mut impl FnMut(&[Victim]) -> bool,
) -> Vec<Victim> {
    let mut left = REMOVAL_TRIALS;
    let mut index = removable.len();
    while index > 0 && left > 0 {
        index -= 1;
        left -= 1;
        let victim = removable.remove(index);
        if !fits(&[kept.as_slice(), &removable].concat()) {
            removable.insert(index, victim);
        }
    }
    [kept, removable].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::BindingKey;

    fn victim(name: &str) -> Victim {
        Victim {
            key: BindingKey::new("n", name),
            cluster: "m1".to_owned(),
        }
    }

    fn candidates(evicting: &[&str], placed: &[&str]) -> Candidates {
        let victims = |names: &[&str]| names.iter().map(|name| victim(name)).collect();
        Candidates {
            evicting: victims(evicting),
            placed: victims(placed),
        }
    }

    /// Returns the names of the victims. Each letter of a victim's name frees one place, and the binding needs `needed`
    /// places.
    fn found(evicting: &[&str], placed: &[&str], needed: usize) -> Option<Vec<String>> {
        let size = |victims: &[Victim]| victims.iter().map(|v| v.key.name.len()).sum::<usize>();
        let found = smallest(candidates(evicting, placed), |victims| {
            size(victims) >= needed
        })?;
        Some(found.iter().map(|v| v.key.name.to_string()).collect())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_smallest_and_least_important_set_is_found() {
        let placed = ["a", "bb", "c", "dd", "eeee"];
        assert_eq!(found(&[], &placed, 1), Some(names(&["a"])));
        assert_eq!(found(&[], &placed, 2), Some(names(&["bb"])));
        assert_eq!(found(&[], &placed, 3), Some(names(&["eeee"])));
        assert_eq!(
            found(&[], &["a", "bb", "c", "dd"], 3),
            Some(names(&["a", "bb"]))
        );
        assert_eq!(found(&[], &placed, 6), Some(names(&["bb", "eeee"])));
        assert_eq!(
            found(&[], &placed, 10),
            Some(names(&["a", "bb", "c", "dd", "eeee"]))
        );
        assert_eq!(found(&[], &placed, 11), None);
    }

    #[test]
    fn ongoing_evictions_are_used_first_if_they_help() {
        assert_eq!(found(&["gg"], &["a", "bb"], 2), Some(names(&["gg"])));
        assert_eq!(found(&["g", "hh"], &["a"], 2), Some(names(&["hh"])));
        assert_eq!(found(&["g"], &["a", "bb"], 3), Some(names(&["bb", "g"])));
        assert_eq!(
            found(&["g"], &["aa", "bbb"], 5),
            Some(names(&["aa", "bbb"]))
        );
    }

    #[test]
    fn a_large_search_finds_a_sufficient_set_in_bounded_trials() {
        let many: Vec<String> = (0..2000).map(|number| format!("{number:04}")).collect();
        let placed: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut trials = 0;
        let victims = smallest(candidates(&[], &placed), |victims| {
            trials += 1;
            victims.len() >= 50
        })
        .unwrap();
        let expected: Vec<Victim> = placed[..50].iter().map(|name| victim(name)).collect();
        assert_eq!(victims, expected, "the fifty least important assignments");
        assert!(trials <= EXACT_TRIALS + REMOVAL_TRIALS + 16, "{trials}");
    }
}
