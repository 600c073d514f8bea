//! The name of a namespaced object.

use std::fmt;
use std::str::FromStr;

/// A namespace and a name, in the form `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl FromStr for NamespacedName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("must be NAMESPACE/NAME".to_owned()),
        }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_two_parts() {
        let name: NamespacedName = "a/b".parse().unwrap();
        assert_eq!(
            (&*name.namespace, &*name.name, &*name.to_string()),
            ("a", "b", "a/b")
        );
        for invalid in ["", "a", "a/", "/b", "a/b/c"] {
            assert!(invalid.parse::<NamespacedName>().is_err(), "{invalid}");
        }
    }
}
