//! Checks that every kind comes from kube-derive: a kind in `crds/` is declared with `#[derive(CustomResource)]`, and no
//! code implements the traits of a kind by hand.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::source_files::{crate_folders, source_files};

/// Returns the kinds in the `kube` attributes of a file. Only the derive macro accepts these attributes.
fn derived_kinds(text: &str) -> impl Iterator<Item = &str> {
    let attributes = text.split("#[kube(").skip(1);
    attributes.filter_map(|attribute| attribute.split_once("kind = \"")?.1.split('"').next())
}

/// Reports whether a line implements a trait of kinds by hand. A wrapper has the kind of its content.
fn is_written_by_hand(line: &str) -> bool {
    let line = line.trim_start();
    let traits = ["Resource for ", "CustomResourceExt for "];
    line.starts_with("impl")
        && !line.starts_with("impl<K: Resource>")
        && !line.contains("Resource for LeanObject")
        && traits
            .iter()
            .any(|name| line.contains(&format!(" {name}")) || line.contains(&format!("::{name}")))
}

#[test]
fn every_kind_comes_from_kube_derive() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = crate_folders().into_iter();
    let files = crates.flat_map(|folder| source_files(&folder.join("src")));
    let mut derived = BTreeSet::new();
    let mut written_by_hand = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        derived.extend(derived_kinds(&text).map(str::to_owned));
        let lines = text.lines().filter(|line| is_written_by_hand(line));
        written_by_hand.extend(lines.map(|line| format!("{}: {line}", file.display())));
    }
    assert!(written_by_hand.is_empty(), "{}", written_by_hand.join("\n"));

    let mut defined = BTreeSet::new();
    for entry in fs::read_dir(root.join("crds")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let kind = text
            .lines()
            .find_map(|line| line.strip_prefix("    kind: "));
        defined.insert(kind.unwrap().to_owned());
    }
    assert_eq!(defined, derived);
}

#[test]
fn implementations_of_the_traits_are_found() {
    for (line, expected) in [
        ("impl kube::Resource for Cluster {", true),
        ("        impl ::kube::core::Resource for $name {", true),
        ("impl Resource for Cluster {", true),
        ("impl kube::CustomResourceExt for Cluster {", true),
        ("impl<K: Resource> Resource for LazyObject<K> {", false),
        ("impl From<ObjectReference> for Reference {", false),
    ] {
        assert_eq!(is_written_by_hand(line), expected, "{line}");
    }
    let text = "#[kube(\n    group = \"a\",\n    kind = \"B\",\n)]\n#[kube(kind = \"C\")]";
    assert_eq!(derived_kinds(text).collect::<Vec<_>>(), ["B", "C"]);
}
