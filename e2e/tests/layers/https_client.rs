//! Checks that webhooks, extenders and traces have one HTTPS client: only `berth-https-client` builds clients and their
//! TLS configurations. A second one would have rules of its own about certificates, sizes of responses and time limits.
//! Clients of API servers share one transport in `berth-component-base`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::source_files::{crate_folders, source_files};

/// Parts of code that build an HTTPS client.
const CLIENTS: &[&str] = &[
    "hyper_rustls",
    "HttpsConnector",
    "client::legacy",
    "legacy::Client",
    "reqwest::",
    "ureq::",
    "ClientConfig::builder",
];

/// The only files that may contain [`CLIENTS`].
const HOMES: &[&str] = &[
    "crates/component-base/src/kube_client/transport.rs",
    "crates/https-client/src/client.rs",
    "crates/https-client/src/tls.rs",
];

/// Reports whether code builds an HTTPS client outside of comments and unit tests.
fn builds_client(text: &str) -> bool {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut lines = code.lines().map(str::trim_start);
    lines.any(|line| !line.starts_with("//") && CLIENTS.iter().any(|client| line.contains(client)))
}

#[test]
fn there_is_one_https_client() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = crate_folders().into_iter();
    let files = crates.flat_map(|folder| source_files(&folder.join("src")));
    let mut found = BTreeSet::new();
    for file in files {
        let is_test = file.components().any(|part| part.as_os_str() == "tests");
        if !is_test && builds_client(&fs::read_to_string(&file).unwrap()) {
            found.insert(file.strip_prefix(&root).unwrap().display().to_string());
        }
    }
    let homes: BTreeSet<String> = HOMES.iter().map(|home| (*home).to_owned()).collect();
    assert_eq!(
        found, homes,
        "use `Client` of berth-https-client instead of another client"
    );
}

#[test]
fn clients_are_found_in_code_only() {
    for (text, expected) in [
        ("use hyper_util::client::legacy;", true),
        ("let http = legacy::Client::builder(executor);", true),
        ("// legacy::Client", false),
        (
            "#[cfg(test)]\nuse hyper_rustls::HttpsConnectorBuilder;",
            false,
        ),
        ("use hyper_util::rt::TokioIo;", false),
    ] {
        assert_eq!(builds_client(text), expected, "{text}");
    }
}
