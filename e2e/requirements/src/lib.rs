//! The attribute macro `#[needs(…)]`, which ignores a test on a machine that lacks a program or setting that the test
//! needs. Cargo then reports the test as ignored instead of passed.

use proc_macro::{TokenStream, TokenTree};

/// Ignores a test unless the machine meets all named requirements.
///
/// The attribute precedes `#[test]` or `#[tokio::test]`. `Requirement` in `build.rs` lists the names. Example:
///
/// ```ignore
/// #[needs(kubectl, apiserver)]
/// #[test]
/// fn kubectl_applies_a_manifest() {}
/// ```
#[proc_macro_attribute]
pub fn needs(names: TokenStream, test: TokenStream) -> TokenStream {
    let (known, missing) = (env!("BERTH_KNOWN"), env!("BERTH_MISSING"));
    let mut lacking = Vec::new();
    for name in names {
        let name = match name {
            TokenTree::Ident(name) => name.to_string(),
            TokenTree::Punct(_) => continue,
            other => {
                return error(&format!(
                    "{other} is not a name; the known requirements are {known}"
                ));
            }
        };
        if !known.split(',').any(|known| known == name) {
            return error(&format!(
                "the requirement {name} is unknown; the known requirements are {known}"
            ));
        }
        if missing.split(',').any(|missing| missing == name) {
            lacking.push(name);
        }
    }
    if lacking.is_empty() {
        return test;
    }
    let reason = format!("needs {}", lacking.join(", "));
    let ignore: TokenStream = format!("#[ignore = {reason:?}]")
        .parse()
        .unwrap_or_default();
    ignore.into_iter().chain(test).collect()
}

fn error(message: &str) -> TokenStream {
    format!("compile_error!({message:?});")
        .parse()
        .unwrap_or_default()
}
