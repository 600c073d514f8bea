//! Names in CEL expressions: reserved words, and identifiers for properties.

/// Words that cannot be identifiers.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Reports whether a word cannot be an identifier.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Returns the identifier that selects the property with this name.
pub fn escape(name: &str) -> String {
    if is_reserved(name) {
        return format!("__{name}__");
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_names_are_escaped() {
        for (name, escaped) in [
            ("plain_name", "plain_name"),
            ("foo-bar", "foo__dash__bar"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("under__score", "under__underscores__score"),
            ("namespace", "__namespace__"),
        ] {
            assert_eq!(escape(name), escaped);
        }
    }
}
