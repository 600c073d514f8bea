//! Rules for the policies of Kyverno.

use berth_apimachinery::json_fields::{number, text_at};
use serde_json::{Value, json};

use super::reports::conditions_of;
use super::{Aggregation, Fields, Kind, picked};

pub(super) static KINDS: [Kind; 2] = [policy("ClusterPolicy"), policy("Policy")];

const fn policy(kind: &'static str) -> Kind {
    Kind {
        reflect: Some(|_, status| picked(status, &["ready", "conditions", "autogen", "rulecount"])),
        aggregate: Some(aggregate),
        health: Some(|policy| Ok(is_healthy(policy.get("status").unwrap_or(&Value::Null)))),
        ..Kind::new("kyverno.io/v1", kind)
    }
}

fn is_healthy(status: &Value) -> bool {
    if let Some(ready) = status.get("ready").and_then(Value::as_bool) {
        return ready;
    }
    conditions_of(status).any(|condition| {
        ["type", "status", "reason"]
            .iter()
            .map(|field| text_at(condition, &format!("/{field}")))
            .eq(["Ready", "True", "Succeeded"])
    })
}

fn aggregate(members: Aggregation<'_>) -> Option<Fields> {
    if members.items.is_empty() {
        return None;
    }
    let mut status = Fields::new();
    for field in ["autogen", "ready"] {
        let last = members.values(field).last().cloned();
        status.insert(field.to_owned(), last.unwrap_or_default());
    }
    let mut rules = json!({});
    for kind in ["validate", "generate", "mutate", "verifyimages"] {
        let counts = members.values("rulecount");
        let sum: i64 = counts.map(|counts| number(counts, kind)).sum();
        rules[kind] = json!(sum);
    }
    status.insert("rulecount".to_owned(), rules);
    status.insert("conditions".to_owned(), members.merged_conditions());
    Some(status)
}
