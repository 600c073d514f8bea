use berth_api::Binding;
use serde_json::{Value, json};

use super::*;
use crate::config::plugin_lists::{check, complete, of_flag};
use crate::framework::{Gate, PreEnqueue, QueueSort};
use crate::queue::Rank;

#[derive(Debug)]
struct Both;

impl PreEnqueue for Both {
    fn pre_enqueue(&self, _: &Binding) -> Gate {
        Gate::Open
    }
}

impl QueueSort for Both {
    fn rank(&self, _: &Binding) -> Rank {
        Rank::default()
    }
}

/// Creates a plugin. A plugin whose name starts with `Sort` implements QueueSort. Every other plugin implements
/// PreEnqueue.
fn make(name: &str, args: &Args) -> Result<Plugin, FactoryError> {
    args.expect_none()?;
    Ok(if name.starts_with("Sort") {
        Plugin::new(name).queue_sort(Arc::new(Both))
    } else {
        Plugin::new(name).pre_enqueue(Arc::new(Both))
    })
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    for (name, standing) in [
        ("SortBase", Enablement::Base),
        ("A", Enablement::Default),
        ("B", Enablement::Default),
        ("C", Enablement::OutOfTree),
        ("D", Enablement::Optional),
        ("SortOther", Enablement::Optional),
    ] {
        registry
            .register_as(standing, name, |_, _| Ok(Plugin::new("unused")))
            .unwrap();
    }
    registry
}

/// Returns the names of the plugins at PreEnqueue and QueueSort. No plugin of these tests implements Select or Assign.
fn selected(profile: Value) -> Result<Vec<String>, ProfileError> {
    let profile: ProfileConfig = serde_json::from_value(profile).unwrap();
    let registry = registry();
    check(&profile, &registry)?;
    let profile = complete(&profile, &registry);
    let mut made = BTreeMap::new();
    for name in enabled_anywhere(&profile.plugins) {
        made.insert(name.to_string(), make(&name, &Args::default()).unwrap());
    }
    let made: BTreeMap<&str, &Plugin> = made.iter().map(|(n, p)| (n.as_str(), p)).collect();
    let mut sort = choose(Point::QueueSort, "queueSort", &profile.plugins, &made)?;
    leave_one("queueSort", &mut sort, &registry)?;
    let gates = choose(Point::PreEnqueue, "preEnqueue", &profile.plugins, &made)?;
    Ok(gates
        .iter()
        .chain(&sort)
        .map(|chosen| match chosen.weight {
            1 => chosen.name.to_string(),
            weight => format!("{}*{weight}", chosen.name),
        })
        .collect())
}

#[test]
fn profiles_are_composed_as_in_kube_scheduler() {
    let refs = |names: &[&str]| {
        names
            .iter()
            .map(|n| json!({ "name": n }))
            .collect::<Value>()
    };
    for (plugins, expected) in [
        (json!({}), vec!["A", "B", "SortBase"]),
        (
            json!({ "multiPoint": { "enabled": refs(&["C"]) } }),
            vec!["A", "B", "C", "SortBase"],
        ),
        (
            json!({ "multiPoint": { "enabled": refs(&["D", "C"]), "disabled": refs(&["A"]) } }),
            vec!["B", "D", "C", "SortBase"],
        ),
        (
            json!({ "multiPoint": { "enabled": [{ "name": "A", "weight": 5 }] } }),
            vec!["A*5", "B", "SortBase"],
        ),
        (
            json!({ "multiPoint": { "enabled": refs(&["B", "SortBase"]), "disabled": refs(&["*"]) } }),
            vec!["B", "SortBase"],
        ),
        // A plugin that is enabled in multiPoint and also at the point comes first. The point sets its order and
        // weight.
        (
            json!({
                "multiPoint": { "enabled": [{ "name": "B", "weight": 7 }] },
                "preEnqueue": { "enabled": refs(&["C", "B"]) },
            }),
            vec!["B", "A", "C", "SortBase"],
        ),
        (
            json!({ "preEnqueue": { "disabled": refs(&["*"]) } }),
            vec!["SortBase"],
        ),
        (
            json!({ "preEnqueue": { "disabled": refs(&["A"]), "enabled": refs(&["D"]) } }),
            vec!["B", "D", "SortBase"],
        ),
        (
            json!({ "preEnqueue": { "disabled": refs(&["*"]), "enabled": refs(&["B", "A"]) } }),
            vec!["B", "A", "SortBase"],
        ),
        // The enabled plugin SortOther replaces the base plugin SortBase.
        (
            json!({ "queueSort": { "enabled": refs(&["SortOther"]) } }),
            vec!["A", "B", "SortOther"],
        ),
    ] {
        let result = selected(json!({ "plugins": plugins.clone() }));
        assert_eq!(result.unwrap(), expected, "{plugins}");
    }
}

#[test]
fn invalid_profiles_are_refused_with_the_path_of_the_error() {
    for (profile, path, words) in [
        (
            json!({ "plugins": { "filter": { "enabled": [{ "name": "E" }] } } }),
            "plugins.filter.enabled[0].name",
            "no plugin is named \"E\"; known plugins: SortBase, A",
        ),
        (
            json!({ "plugins": { "multiPoint": { "disabled": [{ "name": "E" }] } } }),
            "plugins.multiPoint.disabled[0].name",
            "no plugin is named \"E\"",
        ),
        (
            json!({ "plugins": { "filter": { "enabled": [{ "name": "C" }] } }, }),
            "",
            "",
        ),
        (
            json!({ "plugins": { "preEnqueue": { "enabled": [{ "name": "C" }, { "name": "C" }] } } }),
            "plugins.preEnqueue.enabled[1].name",
            "C is named twice",
        ),
        (
            json!({ "plugins": { "queueSort": { "enabled": [{ "name": "C" }] } } }),
            "plugins.queueSort.enabled[0].name",
            "C does not implement this extension point, only PreEnqueue",
        ),
        (
            json!({ "plugins": { "multiPoint": { "disabled": [{ "name": "*" }] } } }),
            "plugins.queueSort",
            "there is none",
        ),
        (
            json!({ "pluginConfig": [{ "name": "A" }, { "name": "A" }] }),
            "pluginConfig[1].name",
            "A has arguments already",
        ),
        (
            json!({ "schedulerName": "" }),
            "schedulerName",
            "must not be empty",
        ),
    ] {
        let result = selected(profile.clone());
        if path.is_empty() {
            // The error is at the point Filter, whose plugins `selected` does not request.
            assert!(result.is_ok(), "{profile}");
            continue;
        }
        let error = result.unwrap_err();
        assert_eq!(error.path, path, "{profile}");
        assert!(error.message.contains(words), "{profile}: {error}");
    }
}

#[test]
fn invalid_arguments_are_refused_with_their_path() {
    let profile = serde_json::from_value(json!({
        "plugins": { "multiPoint": { "enabled": [{ "name": "C" }] } },
        "pluginConfig": [{ "name": "A" }, { "name": "C", "args": { "a": 1 } }],
    }));
    let profile = complete(&profile.unwrap(), &registry());
    let error = Selection::new(&profile, &registry(), make).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pluginConfig[1].args: plugin C: this plugin takes no arguments"
    );
}

#[test]
fn the_plugins_flag_selects_as_in_karmada() {
    for (entries, expected) in [
        (&["*"][..], &["SortBase", "A", "B", "C"][..]),
        (&["*", "-C"], &["SortBase", "A", "B"]),
        (&["*", "--C"], &["SortBase", "A", "B"]),
        (&["*", "-C", "C"], &["SortBase", "A", "B", "C"]),
        (&["-C", "*"], &["SortBase", "A", "B"]),
        (&["A", "D"], &["SortBase", "A", "D"]),
        (&["*", "-SortBase"], &["SortBase", "A", "B", "C"]),
        (&[""], &["SortBase"]),
        (&["*", "-WorkloadAffinity"], &["SortBase", "A", "B", "C"]),
        (&["*", "-Unknown"], &["SortBase", "A", "B", "C"]),
    ] {
        let entries: Vec<String> = entries.iter().map(|&entry| entry.to_owned()).collect();
        let plugins = of_flag(&entries, &registry()).unwrap();
        let names: Vec<&str> = plugins
            .multi_point
            .enabled
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        assert_eq!(names, expected, "{entries:?}");
    }
}

#[test]
fn the_plugins_flag_adds_only_known_plugins() {
    for (entries, expected) in [
        (
            &["Foo"][..],
            "no plugin is named \"Foo\"; known plugins: SortBase, A, B, C, D, SortOther",
        ),
        (
            &["*", "a"],
            "no plugin is named \"a\"; known plugins: SortBase, A, B, C, D, SortOther",
        ),
        (
            &["WorkloadAffinity"],
            "WorkloadAffinity needs --feature-gates=WorkloadAffinity=true",
        ),
    ] {
        let entries: Vec<String> = entries.iter().map(|&entry| entry.to_owned()).collect();
        let refused = of_flag(&entries, &registry()).unwrap_err();
        assert_eq!(refused, expected, "{entries:?}");
    }
}
