//! Options of the detector.

use std::num::NonZeroUsize;

use berth_api::feature_gates::FeatureGates;
use regex::Regex;

use super::skipped_apis::{SkippedApis, SkippedApisError};

/// The default of `--skipped-propagating-namespaces`.
const DEFAULT_SKIPPED_NAMESPACES: &str = "kube-.*";
/// The default number of concurrent writes.
const CONCURRENT_WRITES: NonZeroUsize = match NonZeroUsize::new(16) {
    Some(count) => count,
    None => NonZeroUsize::MIN,
};

/// The options of the detector.
#[derive(Clone, Debug)]
pub struct DetectorOptions {
    /// APIs whose objects are never propagated.
    pub skipped_apis: SkippedApis,
    /// Expressions for namespaces whose objects are never propagated. An expression must match the whole name.
    pub skipped_namespaces: Vec<Regex>,
    /// Feature gates.
    pub gates: FeatureGates,
    /// Maximum number of concurrent writes.
    pub concurrent_writes: NonZeroUsize,
}

/// An error about an invalid flag.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The value of `--skipped-propagating-apis` is invalid.
    #[error("--skipped-propagating-apis: {0}")]
    SkippedApis(#[from] SkippedApisError),
    /// The value of `--skipped-propagating-namespaces` is invalid.
    #[error("--skipped-propagating-namespaces: {expression:?}: {source}")]
    SkippedNamespaces {
        /// The invalid expression.
        expression: String,
        /// The cause.
        source: regex::Error,
    },
}

impl DetectorOptions {
    /// Parses the flags `--skipped-propagating-apis` and `--skipped-propagating-namespaces` in Karmada's syntax.
    ///
    /// # Errors
    /// When a flag is invalid. The error contains the name of the flag.
    pub fn parse<S: AsRef<str>>(
        skipped_apis: &str,
        skipped_namespaces: &[S],
    ) -> Result<Self, OptionsError> {
        let mut expressions = Vec::new();
        for expression in skipped_namespaces {
            let expression = expression.as_ref();
            let anchored = Regex::new(&format!("^(?:{expression})$")).map_err(|source| {
                OptionsError::SkippedNamespaces {
                    expression: expression.to_owned(),
                    source,
                }
            })?;
            expressions.push(anchored);
        }
        Ok(Self {
            skipped_apis: SkippedApis::parse(skipped_apis)?,
            skipped_namespaces: expressions,
            gates: FeatureGates::default(),
            concurrent_writes: CONCURRENT_WRITES,
        })
    }

    /// Reports whether objects of a namespace are never propagated.
    pub fn skips_namespace(&self, namespace: &str) -> bool {
        berth_api::names::is_reserved_namespace(namespace)
            || self
                .skipped_namespaces
                .iter()
                .any(|expression| expression.is_match(namespace))
    }
}

impl Default for DetectorOptions {
    /// Returns Karmada's defaults.
    fn default() -> Self {
        Self {
            skipped_apis: SkippedApis::default(),
            skipped_namespaces: Regex::new(&format!("^(?:{DEFAULT_SKIPPED_NAMESPACES})$"))
                .into_iter()
                .collect(),
            gates: FeatureGates::default(),
            concurrent_writes: CONCURRENT_WRITES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_matched_as_a_whole() {
        let options = DetectorOptions::parse("", &["kube-.*", "dev"]).unwrap();
        for (namespace, skipped) in [
            ("kube-system", true),
            ("my-kube-system", false),
            ("dev", true),
            ("devs", false),
            ("karmada-system", true),
            ("karmada-es-m1", true),
            ("default", false),
            ("", false),
        ] {
            assert_eq!(options.skips_namespace(namespace), skipped, "{namespace:?}");
        }
        assert!(DetectorOptions::default().skips_namespace("kube-public"));
    }

    #[test]
    fn an_error_names_the_flag() {
        let error = DetectorOptions::parse("", &["("]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("--skipped-propagating-namespaces: \"(\"")
        );
        let error = DetectorOptions::parse("a/b/c/d", &["x"]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("--skipped-propagating-apis: ")
        );
    }
}
