//! Changes of taints in kubectl's syntax. `key=value:Effect` and `key:Effect` add a taint. `key-` and `key:Effect-`
//! remove taints.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::core::v1::Taint;

/// The effects of new taints. Karmada's webhook refuses Clusters with other effects.
const EFFECTS: [&str; 2] = ["NoSchedule", "NoExecute"];
/// An effect that only an existing taint may have.
const OLD_EFFECT: &str = "PreferNoSchedule";
/// Maximum length of a value, and of the part of a key after the `/`.
const MAX_NAME_LENGTH: usize = 63;
/// Maximum length of the part of a key before the `/`.
const MAX_PREFIX_LENGTH: usize = 253;

/// A change of one or more taints.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TaintChange {
    /// Adds this taint.
    Add(Taint),
    /// Removes the taints with this key and effect.
    Remove {
        /// Key of the taints.
        key: String,
        /// Effect of the taints, or `None` for every effect.
        effect: Option<String>,
    },
}

impl FromStr for TaintChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, removes) = match text.strip_suffix('-') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (name, effect) = match rest.split_once(':') {
            Some((name, effect))
                if EFFECTS.contains(&effect) || (removes && effect == OLD_EFFECT) =>
            {
                (name, Some(effect.to_owned()))
            }
            Some((_, effect)) => {
                return Err(format!(
                    "{effect:?} is not an effect: use {}",
                    EFFECTS.join(", ")
                ));
            }
            None => (rest, None),
        };
        let (key, value) = match name.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (name, None),
        };
        check_key(key)?;
        let key = key.to_owned();
        match (removes, effect, value) {
            (true, effect, _) => Ok(Self::Remove { key, effect }),
            (false, Some(effect), value) => {
                let value = value.unwrap_or_default();
                if !value.is_empty() {
                    check_name(value)?;
                }
                Ok(Self::Add(Taint {
                    key,
                    value: (!value.is_empty()).then(|| value.to_owned()),
                    effect,
                    time_added: None,
                }))
            }
            (false, None, _) => Err(format!(
                "has no effect: write {name}:NoSchedule to add it, or {name}- to remove it"
            )),
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            let labels = prefix.split('.');
            let valid = prefix.len() <= MAX_PREFIX_LENGTH
                && labels.into_iter().all(|label| {
                    check_name(label).is_ok()
                        && !label.contains('_')
                        && label == label.to_lowercase()
                });
            if !valid {
                return Err(format!("{prefix:?} is not a DNS subdomain"));
            }
            name
        }
        None => key,
    };
    check_name(name)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_end = |letter: char| letter.is_ascii_alphanumeric();
    let valid = (1..=MAX_NAME_LENGTH).contains(&name.len())
        && name.starts_with(is_end)
        && name.ends_with(is_end)
        && name
            .chars()
            .all(|letter| is_end(letter) || "-_.".contains(letter));
    if valid {
        Ok(())
    } else {
        Err(format!(
            "{name:?} must have 1 to {MAX_NAME_LENGTH} letters, digits, '-', '_' or '.', and begin and end with a letter or digit"
        ))
    }
}

impl TaintChange {
    fn key(&self) -> &str {
        match self {
            Self::Add(taint) => &taint.key,
            Self::Remove { key, .. } => key,
        }
    }

    fn effect(&self) -> Option<&str> {
        match self {
            Self::Add(taint) => Some(&taint.effect),
            Self::Remove { effect, .. } => effect.as_deref(),
        }
    }

    /// Reports whether the change applies to a taint.
    fn matches(&self, taint: &Taint) -> bool {
        self.key() == taint.key && self.effect().is_none_or(|effect| effect == taint.effect)
    }

    /// Reports whether two changes can apply to the same taint.
    fn overlaps(&self, other: &Self) -> bool {
        let effects = self.effect().zip(other.effect());
        self.key() == other.key() && effects.is_none_or(|(one, other)| one == other)
    }
}

impl fmt::Display for TaintChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())?;
        match self.effect() {
            Some(effect) => write!(f, ":{effect}"),
            None => Ok(()),
        }
    }
}

/// Checks that each taint is the subject of at most one change.
///
/// # Errors
/// Returns a message about the first change that overlaps an earlier change.
pub(super) fn check(changes: &[TaintChange]) -> Result<(), String> {
    for (index, change) in changes.iter().enumerate() {
        if changes[..index].iter().any(|other| change.overlaps(other)) {
            return Err(format!("{change} is named twice"));
        }
    }
    Ok(())
}

/// Returns the taints after the changes, or `None` if the changes leave the taints as they are.
///
/// # Errors
/// Fails if a taint to remove does not exist. Also fails if a taint to add exists with another value and `overwrite` is
/// not set.
pub(super) fn apply(
    taints: &[Taint],
    changes: &[TaintChange],
    overwrite: bool,
) -> Result<Option<Vec<Taint>>, String> {
    let mut after = taints.to_vec();
    for change in changes {
        let known = after.iter().position(|taint| change.matches(taint));
        match (change, known) {
            (TaintChange::Remove { .. }, None) => {
                return Err(format!("there is no taint {change} to remove"));
            }
            (TaintChange::Remove { .. }, Some(_)) => {
                after.retain(|taint| !change.matches(taint));
            }
            (TaintChange::Add(taint), None) => after.push(taint.clone()),
            (TaintChange::Add(taint), Some(index)) => {
                let same = after[index].value.as_deref().unwrap_or_default()
                    == taint.value.as_deref().unwrap_or_default();
                if !same && !overwrite {
                    return Err(format!(
                        "the taint {change} has another value: pass --overwrite"
                    ));
                }
                if !same {
                    after[index] = taint.clone();
                }
            }
        }
    }
    Ok((after != taints).then_some(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(texts: &[&str]) -> Vec<TaintChange> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn shown(taints: &[Taint]) -> Vec<String> {
        let one = |taint: &Taint| {
            format!(
                "{}={}:{}",
                taint.key,
                taint.value.as_deref().unwrap_or_default(),
                taint.effect
            )
        };
        taints.iter().map(one).collect()
    }

    fn after(before: &[&str], texts: &[&str], overwrite: bool) -> Result<Vec<String>, String> {
        let before = apply(&[], &changes(before), false)
            .unwrap()
            .unwrap_or_default();
        let after = apply(&before, &changes(texts), overwrite)?;
        Ok(shown(&after.unwrap_or(before)))
    }

    #[test]
    fn changes_are_parsed_or_refused() {
        for text in [
            "a=b:NoSchedule",
            "a:NoExecute",
            "x.io/a=:NoSchedule",
            "a:PreferNoSchedule-",
            "a-",
            "a:NoExecute-",
            "a=b:NoSchedule-",
        ] {
            assert!(text.parse::<TaintChange>().is_ok(), "{text}");
        }
        for (text, expected) in [
            (
                "a",
                "has no effect: write a:NoSchedule to add it, or a- to remove it",
            ),
            (
                "a=b:Never",
                "\"Never\" is not an effect: use NoSchedule, NoExecute",
            ),
            (
                "a:PreferNoSchedule",
                "\"PreferNoSchedule\" is not an effect: use NoSchedule, NoExecute",
            ),
            ("=b:NoSchedule", "\"\" must have 1 to 63"),
            ("A.io/a:NoSchedule", "\"A.io\" is not a DNS subdomain"),
            ("a=b c:NoSchedule", "\"b c\" must have"),
        ] {
            let error = text.parse::<TaintChange>().unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(
            check(&changes(&["a:NoExecute", "b-", "a-"])),
            Err("a is named twice".to_owned())
        );
        assert_eq!(check(&changes(&["a:NoExecute", "a:NoSchedule"])), Ok(()));
    }

    #[test]
    fn taints_are_added_overwritten_and_removed() {
        let before = ["a=1:NoSchedule", "a=1:NoExecute", "b:NoSchedule"];
        assert_eq!(
            after(&before, &["c=3:NoExecute", "a-"], false).unwrap(),
            ["b=:NoSchedule", "c=3:NoExecute"]
        );
        assert_eq!(
            after(&before, &["a:NoExecute-"], false).unwrap(),
            ["a=1:NoSchedule", "b=:NoSchedule"]
        );
        assert_eq!(
            after(&before, &["a=2:NoSchedule"], true).unwrap()[0],
            "a=2:NoSchedule"
        );
        assert_eq!(
            after(&before, &["a=2:NoSchedule"], false),
            Err("the taint a:NoSchedule has another value: pass --overwrite".to_owned())
        );
        assert_eq!(
            after(&before, &["c-"], false),
            Err("there is no taint c to remove".to_owned())
        );
        let same = apply(&[], &changes(&["a=1:NoSchedule"]), false)
            .unwrap()
            .unwrap();
        assert_eq!(apply(&same, &changes(&["a=1:NoSchedule"]), false), Ok(None));
    }
}
