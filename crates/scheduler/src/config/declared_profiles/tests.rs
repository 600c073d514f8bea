//! Tests of the declared profiles and of the positions in errors.

use super::*;
use crate::framework::{Enablement, Plugin};

const HEAD: &str = "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\n";

fn registry() -> Registry {
    let mut registry = Registry::new();
    for (standing, name) in [(Enablement::Default, "A"), (Enablement::OutOfTree, "B")] {
        registry
            .register_as(standing, name, |_, _| Ok(Plugin::new("unused")))
            .unwrap();
    }
    registry
}

fn declared(text: &str, flags: ProfileFlags) -> Result<DeclaredProfiles, ConfigError> {
    let document = Document::read("file", &format!("{HEAD}{text}"))?;
    let configuration = document.parse()?;
    DeclaredProfiles::from_document(document, configuration, flags)
}

/// Returns the name and the plugins of each profile.
fn profiles(declared: DeclaredProfiles) -> Result<Vec<(String, Vec<String>)>, ConfigError> {
    let profiles = declared.profiles(&registry())?.into_iter().map(|profile| {
        let plugins = profile.plugins.multi_point.enabled;
        let plugins = plugins.into_iter().map(|plugin| plugin.name).collect();
        (profile.scheduler_name.unwrap(), plugins)
    });
    Ok(profiles.collect())
}

fn flags(scheduler_name: Option<&str>, plugins: Option<&[&str]>) -> ProfileFlags {
    ProfileFlags {
        scheduler_name: scheduler_name.map(str::to_owned),
        plugins: plugins.map(|list| list.iter().map(|&one| one.to_owned()).collect()),
    }
}

fn profile(name: &str, plugins: &[&str]) -> (String, Vec<String>) {
    (
        name.to_owned(),
        plugins.iter().map(|&one| one.to_owned()).collect(),
    )
}

#[test]
fn the_default_profile_has_all_plugins() {
    let plain = declared("", ProfileFlags::default()).unwrap();
    assert_eq!(
        profiles(plain).unwrap(),
        [profile("default-scheduler", &["A", "B"])]
    );
    let by_flags = DeclaredProfiles::from_flags(flags(Some("mine"), Some(&["*", "-A"])));
    assert_eq!(profiles(by_flags).unwrap(), [profile("mine", &["B"])]);
}

#[test]
fn flags_override_a_single_profile() {
    let text =
        "profiles:\n- plugins: {multiPoint: {enabled: [{name: B}], disabled: [{name: A}]}}\n";
    let plain = declared(text, ProfileFlags::default()).unwrap();
    assert_eq!(
        profiles(plain).unwrap(),
        [profile("default-scheduler", &["B"])]
    );
    let named = declared(text, flags(Some("mine"), None)).unwrap();
    assert_eq!(profiles(named).unwrap(), [profile("mine", &["B"])]);
    let chosen = declared(text, flags(None, Some(&["A"]))).unwrap();
    assert_eq!(
        profiles(chosen).unwrap(),
        [profile("default-scheduler", &["A"])]
    );
}

#[test]
fn the_enabled_plugins_of_a_profile_follow_its_default_plugins() {
    let text = "profiles:\n- schedulerName: one\n- schedulerName: two\n  plugins: {multiPoint: {enabled: [{name: B}]}}\n";
    let several = declared(text, ProfileFlags::default()).unwrap();
    assert_eq!(
        profiles(several).unwrap(),
        [profile("one", &["A"]), profile("two", &["A", "B"])]
    );
}

#[test]
fn errors_contain_the_line_and_column_of_the_value() {
    for (text, flags, expected) in [
        (
            "profiles:\n- schedulerName: a\n- schedulerName: a\n",
            ProfileFlags::default(),
            "file:5:3: profiles[1].schedulerName: profiles[0] has the name \"a\" already",
        ),
        (
            "profiles:\n- schedulerName: a\n- plugins: {}\n",
            ProfileFlags::default(),
            "file:5:3: profiles[1]: schedulerName is required with several profiles",
        ),
        (
            "profiles:\n- schedulerName: a\n- schedulerName: b\n",
            flags(Some("c"), None),
            "file:3:1: profiles: --scheduler-name applies to a single profile, but there are 2: remove the flag",
        ),
        (
            "profiles:\n- schedulerName: a\n- schedulerName: b\n",
            flags(None, Some(&["*"])),
            "file:3:1: profiles: --plugins applies to a single profile, but there are 2: remove the flag",
        ),
        (
            "profiles:\n- plugins:\n    filter:\n      enabled:\n      - name: A\n      - name: Typo\n",
            ProfileFlags::default(),
            "file:8:9: profiles[0].plugins.filter.enabled[1].name: no plugin is named \"Typo\"; known plugins: A, B",
        ),
        (
            "profiles:\n- plugins:\n    fliter: {}\n",
            ProfileFlags::default(),
            "file:5:5: profiles[0].plugins.fliter: unknown field `fliter`, expected one of",
        ),
        (
            "profiles:\n- plugins:\n    score:\n      enabled: [{name: A, weight: -1}]\n",
            ProfileFlags::default(),
            "file:6:27: profiles[0].plugins.score.enabled[0].weight: invalid value: integer `-1`, expected u32",
        ),
    ] {
        let error = declared(text, flags)
            .and_then(profiles)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let document =
        Document::read("f", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: x\n").unwrap();
    let error = document
        .parse::<SchedulerConfiguration>()
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("f:1:1: apiVersion: unknown variant"),
        "{error}"
    );
}
