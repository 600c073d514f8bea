//! Rules of roles: matching of requests, and coverage of a rule by other rules.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::attributes::{Attributes, ResourceTarget, Target};

fn has(list: Option<&Vec<String>>, item: &str) -> bool {
    list.is_some_and(|l| l.iter().any(|v| v == "*" || v == item))
}

/// Reports whether a list of a rule matches a resource. For example, the items `pods/log`, `*` and `*/log` each match
/// `pods/log`.
fn has_resource(list: Option<&Vec<String>>, resource: &str, subresource: &str) -> bool {
    list.is_some_and(|l| {
        l.iter().any(|v| {
            v == "*"
                || if subresource.is_empty() {
                    v == resource
                } else {
                    v.split_once('/')
                        .is_some_and(|(r, s)| s == subresource && (r == "*" || r == resource))
                }
        })
    })
}

fn url_matches(pattern: &str, path: &str) -> bool {
    pattern == "*"
        || pattern == path
        || pattern
            .strip_suffix('*')
            .is_some_and(|prefix| path.starts_with(prefix.trim_end_matches('*')))
}

fn allows_resource(rule: &PolicyRule, target: &ResourceTarget<'_>) -> bool {
    has(rule.api_groups.as_ref(), target.group)
        && has_resource(rule.resources.as_ref(), target.resource, target.subresource)
        && match rule.resource_names.as_deref() {
            None | Some([]) => true,
            Some(names) => names.iter().any(|n| *n == target.name),
        }
}

/// Reports whether a rule allows a request.
pub(crate) fn allows(rule: &PolicyRule, attributes: &Attributes<'_>) -> bool {
    if !rule.verbs.iter().any(|v| v == "*" || v == attributes.verb) {
        return false;
    }
    match &attributes.target {
        Target::Resource(target) => allows_resource(rule, target),
        Target::Path(path) => rule
            .non_resource_urls
            .iter()
            .flatten()
            .any(|p| url_matches(p, path)),
    }
}

/// Splits a rule into rules with one verb, one resource or path, and at most one resource name.
fn atoms(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut all = Vec::new();
    let none = Vec::new();
    let list = |l: &Option<Vec<String>>| l.clone().unwrap_or_default();
    for verb in &rule.verbs {
        for url in rule.non_resource_urls.as_ref().unwrap_or(&none) {
            all.push(PolicyRule {
                verbs: vec![verb.clone()],
                non_resource_urls: Some(vec![url.clone()]),
                ..PolicyRule::default()
            });
        }
        for group in list(&rule.api_groups) {
            for resource in list(&rule.resources) {
                let atom = |names: Option<Vec<String>>| PolicyRule {
                    verbs: vec![verb.clone()],
                    api_groups: Some(vec![group.clone()]),
                    resources: Some(vec![resource.clone()]),
                    resource_names: names,
                    non_resource_urls: None,
                };
                match rule.resource_names.as_deref() {
                    None | Some([]) => all.push(atom(None)),
                    Some(names) => all.extend(names.iter().map(|n| atom(Some(vec![n.clone()])))),
                }
            }
        }
    }
    all
}

fn first(list: Option<&Vec<String>>) -> &str {
    list.and_then(|l| l.first()).map_or("", String::as_str)
}

/// Reports whether the rule `owner` covers `atom`, a rule from [`atoms`].
fn covers(owner: &PolicyRule, atom: &PolicyRule) -> bool {
    let path = first(atom.resources.as_ref());
    let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
    let target = match first(atom.non_resource_urls.as_ref()) {
        "" => Target::Resource(ResourceTarget {
            group: first(atom.api_groups.as_ref()),
            version: "",
            resource,
            subresource,
            namespace: "",
            name: first(atom.resource_names.as_ref()).into(),
        }),
        url => Target::Path(url),
    };
    let verb = atom.verbs.first().map_or("", String::as_str);
    allows(owner, &Attributes { verb, target })
}

/// Splits `required` with [`atoms`], and returns the rules that no rule of `granted` covers.
pub(crate) fn not_covered(granted: &[&PolicyRule], required: &[PolicyRule]) -> Vec<PolicyRule> {
    required
        .iter()
        .flat_map(atoms)
        .filter(|atom| !granted.iter().any(|owner| covers(owner, atom)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &str, resources: &str, names: &str, verbs: &str) -> PolicyRule {
        let list = |s: &str| s.split(' ').map(str::to_owned).collect::<Vec<_>>();
        PolicyRule {
            api_groups: Some(list(groups)),
            resources: Some(list(resources)),
            resource_names: (!names.is_empty()).then(|| list(names)),
            verbs: list(verbs),
            non_resource_urls: None,
        }
    }

    #[test]
    fn a_rule_allows_the_named_verbs_and_resources() {
        let on = |verb, group, resource, name| Attributes::on(verb, group, resource, "n", name);
        let with_log = |mut a: Attributes<'static>| {
            if let Target::Resource(t) = &mut a.target {
                t.subresource = "log";
            }
            a
        };
        let pods = rule("", "pods", "", "get list");
        assert!(allows(&pods, &on("get", "", "pods", "a")));
        assert!(!allows(&pods, &on("watch", "", "pods", "a")));
        assert!(!allows(&pods, &on("get", "apps", "pods", "a")));
        assert!(!allows(&pods, &with_log(on("get", "", "pods", "a"))));
        for resources in ["*", "pods/log", "*/log"] {
            let logs = rule("*", resources, "", "*");
            assert!(allows(&logs, &with_log(on("get", "", "pods", "a"))));
        }
        let named = rule("", "pods", "a", "get list");
        assert!(allows(&named, &on("get", "", "pods", "a")));
        assert!(!allows(&named, &on("list", "", "pods", "")));
        assert!(!allows(&named, &on("get", "", "pods", "b")));
    }

    #[test]
    fn paths_match_by_prefix_only_with_a_star() {
        for (pattern, path, expected) in [
            ("/api", "/api", true),
            ("/api", "/api/v1", false),
            ("/api/*", "/api/v1", true),
            ("/api/*", "/api", false),
            ("*", "/anything", true),
        ] {
            assert_eq!(url_matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn uncovered_parts_of_rules_are_found() {
        let granted = rule("", "pods", "a", "get list");
        let wanted = [
            rule("", "secrets", "", "get list"),
            rule("", "pods", "a b", "get"),
        ];
        assert_eq!(
            not_covered(&[&granted], &wanted),
            [
                rule("", "secrets", "", "get"),
                rule("", "secrets", "", "list"),
                rule("", "pods", "b", "get"),
            ]
        );
        assert!(not_covered(&[&rule("*", "*", "", "*")], &wanted).is_empty());
    }
}
