//! Names of members on the command line: `NAME`, or `TYPE/NAME` as `-o name` and kubectl print it.

/// The types that a name may have. kubectl accepts the same ones.
const TYPES: [&str; 6] = [
    "cluster",
    "clusters",
    "cluster.cluster.karmada.io",
    "clusters.cluster.karmada.io",
    "cluster.v1alpha1.cluster.karmada.io",
    "clusters.v1alpha1.cluster.karmada.io",
];

/// Returns the name of a member without its type.
///
/// # Errors
/// Fails if the name is empty or has the type of another kind.
pub(crate) fn parse(word: &str) -> Result<String, String> {
    let name = match word.split_once('/') {
        Some((kind, name)) if TYPES.contains(&kind.to_lowercase().as_str()) => name,
        Some((kind, _)) => {
            return Err(format!(
                "{kind} is not the type of a member: write NAME or cluster/NAME"
            ));
        }
        None => word,
    };
    if name.is_empty() || name.contains('/') {
        return Err("the name of the member is missing: write NAME or cluster/NAME".to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_the_type_of_a_member() {
        for word in [
            "member1",
            "cluster/member1",
            "clusters/member1",
            "Cluster/member1",
            "cluster.cluster.karmada.io/member1",
            "clusters.v1alpha1.cluster.karmada.io/member1",
        ] {
            assert_eq!(parse(word).as_deref(), Ok("member1"), "{word}");
        }
        for (word, expected) in [
            (
                "deployment/member1",
                "deployment is not the type of a member",
            ),
            ("cluster/", "the name of the member is missing"),
            ("", "the name of the member is missing"),
            ("cluster/a/b", "the name of the member is missing"),
        ] {
            let error = parse(word).unwrap_err();
            assert!(error.starts_with(expected), "{word}: {error}");
        }
    }
}
