//! Conversion of a label selector in JSON to the text for the query parameter `labelSelector`.

use serde_json::Value;

/// Returns a label selector as text. Its requirements are sorted by key.
pub fn format(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let simple = labels.map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        (key.as_str(), format!("{key}={value}"))
    });
    let expressions = selector["matchExpressions"].as_array();
    let complex = expressions.into_iter().flatten().map(|expression| {
        let key = expression["key"].as_str().unwrap_or_default();
        let array = expression["values"].as_array().into_iter().flatten();
        let mut sorted: Vec<&str> = array.filter_map(Value::as_str).collect();
        sorted.sort_unstable();
        let values = sorted.join(",");
        let term = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        (key, term)
    });
    let mut by_key: Vec<(&str, String)> = simple.chain(complex).collect();
    by_key.sort_by_key(|(key, _)| *key);
    let terms: Vec<String> = by_key.into_iter().map(|(_, term)| term).collect();
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_are_sorted_by_key() {
        let selector = json!({"matchLabels": {"c": "d"}, "matchExpressions": [
            {"key": "b", "operator": "NotIn", "values": ["z", "y"]}, {"key": "a", "operator": "Exists"},
            {"key": "e", "operator": "DoesNotExist"}, {"key": "d", "operator": "In", "values": ["x"]}]});
        assert_eq!(format(&selector), "a,b notin (y,z),c=d,d in (x),!e");
        assert_eq!(format(&Value::Null), "");
    }
}
