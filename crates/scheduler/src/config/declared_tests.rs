use super::*;
use crate::framework::{Plugin, Standing};

const HEAD: &str = "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\n";

fn registry() -> Registry {
    let mut registry = Registry::new();
    for (standing, name) in [(Standing::Default, "A"), (Standing::OutOfTree, "B")] {
        registry
            .register_as(standing, name, |_, _| Ok(Plugin::new("unused")))
            .unwrap();
    }
    registry
}

fn declared(text: &str, flags: ProfileFlags) -> Result<Declared, ConfigError> {
    let document = Document::read("file", &format!("{HEAD}{text}"))?;
    let configuration = document.parse()?;
    Declared::in_document(document, configuration, flags)
}

/// Names of profiles with their plugins.
fn profiles(declared: Declared) -> Result<Vec<(String, Vec<String>)>, ConfigError> {
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

fn found(name: &str, plugins: &[&str]) -> (String, Vec<String>) {
    (
        name.to_owned(),
        plugins.iter().map(|&one| one.to_owned()).collect(),
    )
}

#[test]
fn without_profiles_there_is_one_with_everything() {
    let plain = declared("", ProfileFlags::default()).unwrap();
    assert_eq!(
        profiles(plain).unwrap(),
        [found("default-scheduler", &["A", "B"])]
    );
    let by_flags = Declared::by_flags(flags(Some("mine"), Some(&["*", "-A"])));
    assert_eq!(profiles(by_flags).unwrap(), [found("mine", &["B"])]);
}

#[test]
fn flags_win_over_a_lone_profile() {
    let text =
        "profiles:\n- plugins: {multiPoint: {enabled: [{name: B}], disabled: [{name: A}]}}\n";
    let plain = declared(text, ProfileFlags::default()).unwrap();
    assert_eq!(
        profiles(plain).unwrap(),
        [found("default-scheduler", &["B"])]
    );
    let named = declared(text, flags(Some("mine"), None)).unwrap();
    assert_eq!(profiles(named).unwrap(), [found("mine", &["B"])]);
    let chosen = declared(text, flags(None, Some(&["A"]))).unwrap();
    assert_eq!(
        profiles(chosen).unwrap(),
        [found("default-scheduler", &["A"])]
    );
}

#[test]
fn profiles_of_a_file_have_the_default_plugins_and_those_they_name() {
    let text = "profiles:\n- schedulerName: one\n- schedulerName: two\n  plugins: {multiPoint: {enabled: [{name: B}]}}\n";
    let several = declared(text, ProfileFlags::default()).unwrap();
    assert_eq!(
        profiles(several).unwrap(),
        [found("one", &["A"]), found("two", &["A", "B"])]
    );
}

#[test]
fn what_is_wrong_is_said_with_line_and_column() {
    for (text, given, expected) in [
        (
            "profiles:\n- schedulerName: a\n- schedulerName: a\n",
            ProfileFlags::default(),
            "file:5:3: profiles[1].schedulerName: profiles[0] is named \"a\" already",
        ),
        (
            "profiles:\n- schedulerName: a\n- plugins: {}\n",
            ProfileFlags::default(),
            "file:5:3: profiles[1]: schedulerName is required where there are several profiles",
        ),
        (
            "profiles:\n- schedulerName: a\n- schedulerName: b\n",
            flags(Some("c"), None),
            "file:3:1: profiles: --scheduler-name is for one profile, and there are 2 here: leave the flag out",
        ),
        (
            "profiles:\n- schedulerName: a\n- schedulerName: b\n",
            flags(None, Some(&["*"])),
            "file:3:1: profiles: --plugins is for one profile, and there are 2 here: leave the flag out",
        ),
        (
            "profiles:\n- plugins:\n    filter:\n      enabled:\n      - name: A\n      - name: Typo\n",
            ProfileFlags::default(),
            "file:8:9: profiles[0].plugins.filter.enabled[1].name: no plugin is named \"Typo\": there are A, B",
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
        let error = declared(text, given)
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
