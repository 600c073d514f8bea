//! Compact JSON as Go's encoder writes it, with the field order of the types and Go's escapes.

use serde::Serialize;

use crate::placement::Placement;

/// Returns the JSON text of a placement. The text has the same bytes as Karmada's applied-placement annotation.
///
/// # Errors
/// When the placement cannot be serialized. This does not happen in practice.
pub fn placement_json(placement: &Placement) -> Result<String, serde_json::Error> {
    go_json(placement)
}

/// Returns compact JSON. Like Go's encoder, it escapes `<`, `>`, `&`, U+2028 and U+2029.
///
/// # Errors
/// When the value cannot be serialized.
pub fn go_json<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(value)?;
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return Ok(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            other => escaped.push(other),
        }
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_go_order_and_empty_structs_are_kept() {
        let placement: Placement = serde_json::from_value(serde_json::json!({
            "replicaScheduling": {"weightPreference": {"staticWeightList": [{"weight": 1, "targetCluster": {}}]},
                "replicaSchedulingType": "Divided"},
            "spreadConstraints": [{"minGroups": 1, "maxGroups": 2, "spreadByField": "cluster"}],
            "clusterTolerations": [{"effect": "NoSchedule", "key": "a<b", "operator": "Exists"}],
            "clusterAffinity": {"exclude": ["m3"], "clusterNames": ["m1"], "labelSelector": {
                "matchExpressions": [{"operator": "In", "values": ["x"], "key": "k"}], "matchLabels": {"b": "2", "a": "1"}},
                "fieldSelector": {}},
        }))
        .unwrap();
        assert_eq!(
            placement_json(&placement).unwrap(),
            concat!(
                r#"{"clusterAffinity":{"labelSelector":{"matchLabels":{"a":"1","b":"2"},"#,
                r#""matchExpressions":[{"key":"k","operator":"In","values":["x"]}]},"fieldSelector":{},"#,
                r#""clusterNames":["m1"],"exclude":["m3"]},"#,
                r#""clusterTolerations":[{"key":"a\u003cb","operator":"Exists","effect":"NoSchedule"}],"#,
                r#""spreadConstraints":[{"spreadByField":"cluster","maxGroups":2,"minGroups":1}],"#,
                r#""replicaScheduling":{"replicaSchedulingType":"Divided","#,
                r#""weightPreference":{"staticWeightList":[{"targetCluster":{},"weight":1}]}}}"#,
            )
        );
    }
}
