//! Suggestions for misspelled names, for messages that ask "did you mean …?".

/// Returns the candidate with the smallest edit distance to a word, or `None` if no candidate is similar. The distance
/// is at most a third of the word's length, or 1 for a short word, and ignores case. Skips a candidate that equals the
/// word.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = word.to_lowercase();
    let most = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != word)
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&folded, &candidate.to_lowercase());
            (distance, candidate)
        })
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns a hint for a kind that is not served in an API version. `served` contains the served API versions and kinds.
pub fn kind_hint<'a>(
    api_version: &str,
    kind: &str,
    mut served: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> Option<String> {
    let mut elsewhere = served.clone().filter(|(_, known)| *known == kind);
    if let Some((version, _)) = elsewhere.next() {
        return Some(format!("{kind} is served in {version}"));
    }
    let here = served
        .clone()
        .filter(|(version, _)| *version == api_version);
    if let Some(found) = nearest(kind, here.map(|(_, known)| known)) {
        return Some(format!("did you mean {found}?"));
    }
    let found = nearest(kind, served.clone().map(|(_, known)| known))?;
    let (version, _) = served.find(|(_, known)| *known == found)?;
    Some(format!("did you mean {found} in {version}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        let names = ["web", "worker", "database"];
        for (word, expected) in [
            ("wbe", Some("web")),
            ("Web", Some("web")),
            ("databsae", Some("database")),
            ("workers", Some("worker")),
            ("web", None),
            ("frontend", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
    }

    #[test]
    fn a_kind_is_suggested_from_any_api_version() {
        let served = [
            ("apps/v1", "Deployment"),
            ("apps/v1", "DaemonSet"),
            ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ];
        for (api_version, kind, expected) in [
            ("apps/v1", "Deploymnt", Some("did you mean Deployment?")),
            ("v1", "Deployment", Some("Deployment is served in apps/v1")),
            (
                "autoscaling/v1",
                "HorizontalPodAutoscaler",
                Some("HorizontalPodAutoscaler is served in autoscaling/v2"),
            ),
            (
                "v1",
                "Daemonset",
                Some("did you mean DaemonSet in apps/v1?"),
            ),
            ("example.io/v1", "Gadget", None),
        ] {
            let hint = kind_hint(api_version, kind, served.into_iter());
            assert_eq!(hint.as_deref(), expected, "{api_version} {kind}");
        }
    }
}
