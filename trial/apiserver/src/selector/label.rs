//! The parser of label selectors in requests, such as `app in (web, db),!legacy`.

use std::sync::LazyLock;

use berth_apimachinery::label_selector::{CompiledSelector, LabelRequirement, Relation};
use regex::Regex;

use crate::error::ApiError;
use crate::text_rules;

/// The pattern of a requirement: an optional `!`, the key, and an optional operator with one value, or with values in
/// parentheses.
static REQUIREMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let word = r"[^\s=!<>(),]";
    let text =
        format!(r"^(!?)\s*({word}+)\s*(?:(==|=|!=|>|<)\s*({word}*)|(in|notin)\s*\(([^()]*)\))?$");
    Regex::new(&text).ok()
});

/// Parses the label selector of a request.
pub(crate) fn parse(text: &str) -> Result<CompiledSelector, ApiError> {
    if text.trim().is_empty() {
        return Ok(CompiledSelector::default());
    }
    let mut within = false;
    let parts = text.split(|c| {
        within = c == '(' || within && c != ')';
        c == ',' && !within
    });
    let requirements: Result<Vec<LabelRequirement>, String> =
        parts.map(|part| requirement(part.trim())).collect();
    let refused =
        |message| ApiError::bad_request(format!("unable to parse requirement: {message}"));
    Ok(requirements.map_err(refused)?.into_iter().collect())
}

fn requirement(text: &str) -> Result<LabelRequirement, String> {
    let parts = REQUIREMENT.as_ref().and_then(|regex| regex.captures(text));
    let parts = parts.ok_or_else(|| format!("cannot understand '{text}'"))?;
    let part = |at: usize| parts.get(at).map(|part| part.as_str().trim());
    let key = part(2).unwrap_or_default().to_owned();
    check("<nil>", &key, text_rules::qualified_name(&key))?;
    let operator = match (part(1), part(3).or_else(|| part(5))) {
        (Some("!"), Some(operator)) => {
            return Err(format!("found '{operator}' after '!{key}'"));
        }
        (Some("!"), None) => {
            return Ok(LabelRequirement::unvalidated(key, Relation::DoesNotExist));
        }
        (_, None) => return Ok(LabelRequirement::unvalidated(key, Relation::Exists)),
        (_, Some(operator)) => operator,
    };
    let mut values: Vec<String> = match (part(4), part(6)) {
        (Some(value), _) => vec![value.to_owned()],
        (_, None | Some("")) => Vec::new(),
        (_, Some(list)) => list.split(',').map(|v| v.trim().to_owned()).collect(),
    };
    values.sort_unstable();
    values.dedup();
    let first = values.first().map(String::as_str).unwrap_or_default();
    let number = first.parse();
    if matches!(operator, ">" | "<") && number.is_err() {
        return Err(format!(
            "values[0]: Invalid value: \"{first}\": must be an integer"
        ));
    }
    for (i, value) in values.iter().enumerate() {
        let field = format!("values[{i}][{key}]");
        check(&field, value, text_rules::label_value(value))?;
    }
    let relation = match (operator, number) {
        ("in" | "=" | "==", _) => Relation::In(values),
        (">", Ok(number)) => Relation::GreaterThan(number),
        ("<", Ok(number)) => Relation::LessThan(number),
        _ => Relation::NotIn(values),
    };
    Ok(LabelRequirement::unvalidated(key, relation))
}

/// Returns an error if `problem` contains the problem of a text. `field` is the path of the text.
fn check(field: &str, text: &str, problem: Option<String>) -> Result<(), String> {
    problem.map_or(Ok(()), |problem| {
        Err(format!("{field}: Invalid value: \"{text}\": {problem}"))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn parsed_selectors_match_labels() {
        let labels: BTreeMap<_, _> = [("app", "web"), ("tier", "2"), ("bare", "")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        for (text, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier", true),
            ("app!=web", false),
            ("app in (web, db),tier notin (3)", true),
            ("app in ()", false),
            ("bare in (x,)", true),
            ("bare in (x)", false),
            ("bare=", true),
            ("in notin (x)", true),
            ("!missing", true),
            ("missing!=x", true),
            ("tier>1", true),
            ("tier<2", false),
        ] {
            assert_eq!(parse(text).unwrap().matches(&labels), expected, "{text}");
        }
        assert!(parse("a b").is_err());
    }
}
