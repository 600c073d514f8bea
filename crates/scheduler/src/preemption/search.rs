//! The smallest set of assignments whose removal helps, in a bounded number of trials.
//!
//! Sets are tried by size; among those of a size, one that spares the better assignments comes first. Where
//! there are too many, the cheapest assignments that suffice together are taken, and as many of them as possible
//! are spared again, the best first. Either way the same bindings lead to the same victims.

use super::candidates::Candidates;
use crate::framework::Victim;

/// How many sets are tried for the smallest one.
const EXACT_TRIALS: usize = 256;
/// How many assignments are tried to be spared where the smallest set was not found.
const SPARING_TRIALS: usize = 256;

/// The victims; `None` where nothing helps. What is going already is taken before anything else.
pub(super) fn smallest(
    candidates: Candidates,
    mut fits: impl FnMut(&[Victim]) -> bool,
) -> Option<Vec<Victim>> {
    let Candidates { going, staying } = candidates;
    let with = |chosen: &[Victim]| [going.as_slice(), chosen].concat();
    if !fits(&with(&staying)) {
        return None;
    }
    if !going.is_empty() && fits(&going) {
        return Some(spare(Vec::new(), going, &mut fits));
    }
    let chosen = exact(&staying, |chosen| fits(&with(chosen)));
    let chosen = chosen.unwrap_or_else(|| {
        let enough = shortest_prefix(&staying, |chosen| fits(&with(chosen)));
        spare(going.clone(), enough, &mut fits)
            .into_iter()
            .filter(|victim| !going.contains(victim))
            .collect()
    });
    Some(spare(chosen, going, &mut fits))
}

/// The first set that helps, by size; `None` when too many have been tried.
fn exact(staying: &[Victim], mut fits: impl FnMut(&[Victim]) -> bool) -> Option<Vec<Victim>> {
    let mut left = EXACT_TRIALS;
    for size in 1..=staying.len() {
        let mut places: Vec<usize> = (0..size).collect();
        loop {
            left = left.checked_sub(1)?;
            let chosen: Vec<Victim> = places.iter().map(|&place| staying[place].clone()).collect();
            if fits(&chosen) {
                return Some(chosen);
            }
            if !advance(&mut places, staying.len()) {
                break;
            }
        }
    }
    None
}

/// The next set of the same size, so that the best assignment of it is as cheap as possible; false after the
/// last one.
fn advance(places: &mut [usize], count: usize) -> bool {
    for index in 0..places.len() {
        let limit = places.get(index + 1).copied().unwrap_or(count);
        if places[index] + 1 < limit {
            places[index] += 1;
            for (place, value) in places[..index].iter_mut().enumerate() {
                *value = place;
            }
            return true;
        }
    }
    false
}

/// As few of the cheapest assignments as suffice; all of them are known to.
fn shortest_prefix(staying: &[Victim], mut fits: impl FnMut(&[Victim]) -> bool) -> Vec<Victim> {
    let (mut too_few, mut enough) = (0, staying.len());
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if fits(&staying[..middle]) {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    staying[..enough].to_vec()
}

/// Drops from `spared` what is not needed beside `kept`, the best first. Returns what remains of both.
fn spare(
    kept: Vec<Victim>,
    mut spared: Vec<Victim>,
    fits: &mut impl FnMut(&[Victim]) -> bool,
) -> Vec<Victim> {
    let mut left = SPARING_TRIALS;
    let mut index = spared.len();
    while index > 0 && left > 0 {
        index -= 1;
        left -= 1;
        let victim = spared.remove(index);
        if !fits(&[kept.as_slice(), &spared].concat()) {
            spared.insert(index, victim);
        }
    }
    [kept, spared].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::BindingKey;

    fn victim(name: &str) -> Victim {
        Victim {
            key: BindingKey {
                namespace: Some("n".into()),
                name: name.into(),
            },
            cluster: "m1".to_owned(),
        }
    }

    fn candidates(going: &[&str], staying: &[&str]) -> Candidates {
        let victims = |names: &[&str]| names.iter().map(|name| victim(name)).collect();
        Candidates {
            going: victims(going),
            staying: victims(staying),
        }
    }

    /// What is found where each letter in a name leaves one place, and so many are needed.
    fn found(going: &[&str], staying: &[&str], needed: usize) -> Option<Vec<String>> {
        let size = |victims: &[Victim]| victims.iter().map(|v| v.key.name.len()).sum::<usize>();
        let found = smallest(candidates(going, staying), |victims| {
            size(victims) >= needed
        })?;
        Some(found.iter().map(|v| v.key.name.to_string()).collect())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_smallest_set_is_found_and_among_equals_the_one_that_matters_least() {
        let staying = ["a", "bb", "c", "dd", "eeee"];
        assert_eq!(found(&[], &staying, 1), Some(names(&["a"])));
        assert_eq!(found(&[], &staying, 2), Some(names(&["bb"])));
        assert_eq!(found(&[], &staying, 3), Some(names(&["eeee"])));
        assert_eq!(
            found(&[], &["a", "bb", "c", "dd"], 3),
            Some(names(&["a", "bb"]))
        );
        assert_eq!(found(&[], &staying, 6), Some(names(&["bb", "eeee"])));
        assert_eq!(
            found(&[], &staying, 10),
            Some(names(&["a", "bb", "c", "dd", "eeee"]))
        );
        assert_eq!(found(&[], &staying, 11), None);
    }

    #[test]
    fn what_is_going_already_is_counted_first_and_only_where_it_helps() {
        assert_eq!(found(&["gg"], &["a", "bb"], 2), Some(names(&["gg"])));
        assert_eq!(found(&["g", "hh"], &["a"], 2), Some(names(&["hh"])));
        assert_eq!(found(&["g"], &["a", "bb"], 3), Some(names(&["bb", "g"])));
        assert_eq!(
            found(&["g"], &["aa", "bbb"], 5),
            Some(names(&["aa", "bbb"]))
        );
    }

    #[test]
    fn among_too_many_sets_a_sufficient_one_is_found_in_bounded_trials() {
        let many: Vec<String> = (0..2000).map(|number| format!("{number:04}")).collect();
        let staying: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut trials = 0;
        let victims = smallest(candidates(&[], &staying), |victims| {
            trials += 1;
            victims.len() >= 50
        })
        .unwrap();
        let expected: Vec<Victim> = staying[..50].iter().map(|name| victim(name)).collect();
        assert_eq!(victims, expected, "the cheapest fifty");
        assert!(trials <= EXACT_TRIALS + SPARING_TRIALS + 16, "{trials}");
    }
}
