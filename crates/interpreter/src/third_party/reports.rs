//! Combination of the members' reports: sums, latest values, merged conditions, and the observed generation.

use berth_api::well_known::TEMPLATE_GENERATION;
use berth_apimachinery::json_fields::{generation, number, text_at};
use serde_json::{Value, json};

use super::{Aggregation, Fields, picked};

impl<'a> Aggregation<'a> {
    /// Returns the status that the template has before this aggregation.
    pub(super) fn old(&self) -> Fields {
        let status = self.template.get("status").and_then(Value::as_object);
        status.cloned().unwrap_or_default()
    }

    /// Returns the cluster and the status of each member that has reported.
    pub(super) fn reports(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        self.items.iter().filter_map(|item| {
            let status = item.status.as_ref().filter(|status| !status.is_null())?;
            Some((item.cluster_name.as_str(), status))
        })
    }

    /// Returns the statuses of the members that have reported.
    pub(super) fn statuses(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.reports().map(|(_, status)| status)
    }

    /// Returns the values of a field, from the members that report the field.
    pub(super) fn values(&self, field: &str) -> impl Iterator<Item = &'a Value> {
        self.statuses()
            .filter_map(move |status| status.get(field))
            .filter(|value| !value.is_null())
    }

    /// Returns the sum of a counter over the members.
    pub(super) fn sum(&self, field: &str) -> i64 {
        self.statuses()
            .fold(0, |sum, status| sum.saturating_add(number(status, field)))
    }

    /// Returns the value of a field that the last member reports. Missing, null and empty values are skipped.
    pub(super) fn last(&self, field: &str) -> Option<&'a Value> {
        self.values(field).filter(|value| **value != "").last()
    }

    /// Returns the latest time in a field. RFC 3339 times in UTC sort as text.
    pub(super) fn latest(&self, field: &str) -> Option<&'a str> {
        self.texts(field).max()
    }

    /// Returns the earliest time in a field.
    pub(super) fn earliest(&self, field: &str) -> Option<&'a str> {
        self.texts(field).min()
    }

    fn texts(&self, field: &str) -> impl Iterator<Item = &'a str> {
        let texts = self.values(field).filter_map(Value::as_str);
        texts.filter(|text| !text.is_empty())
    }

    /// Returns the report if there is exactly one member.
    pub(super) fn only(&self) -> Option<Fields> {
        let [item] = self.items else { return None };
        let status = item.status.as_ref().and_then(Value::as_object);
        Some(status.cloned().unwrap_or_default())
    }

    /// Concatenates the lists in a field.
    pub(super) fn joined(&self, field: &str) -> Value {
        let lists = self.values(field).filter_map(Value::as_array);
        Value::Array(lists.flatten().cloned().collect())
    }

    /// Sets the observed generation to the template's generation if every member has observed that generation.
    /// Otherwise the old value remains, or becomes 0 if it is missing.
    pub(super) fn set_observed_generation(&self, status: &mut Fields) {
        let current = generation(self.template);
        let is_current = |report: &Value| {
            number(report, "resourceTemplateGeneration") == current
                && number(report, "generation") == number(report, "observedGeneration")
        };
        let none = Value::Null;
        let all = self
            .items
            .iter()
            .all(|item| is_current(item.status.as_ref().unwrap_or(&none)));
        if all {
            status.insert("observedGeneration".to_owned(), json!(current));
        } else {
            status.entry("observedGeneration").or_insert(json!(0));
        }
    }

    /// Merges conditions with the same type, status and reason, over all members. A merged message contains
    /// `cluster=message` for each of them.
    pub(super) fn merged_conditions(&self) -> Value {
        let mut merged: Vec<Value> = Vec::new();
        for (cluster, condition) in self.conditions() {
            let message = format!("{cluster}={}", text_at(condition, "/message"));
            let is_same = |other: &&mut Value| {
                ["type", "status", "reason"]
                    .iter()
                    .all(|field| other.get(field) == condition.get(field))
            };
            if let Some(same) = merged.iter_mut().find(is_same) {
                same["message"] = json!(format!("{}, {message}", text_at(same, "/message")));
            } else {
                let mut condition = condition.clone();
                condition["message"] = json!(message);
                merged.push(condition);
            }
        }
        Value::Array(merged)
    }

    /// Returns the conditions of all members with their clusters.
    pub(super) fn conditions(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        self.reports().flat_map(|(cluster, status)| {
            conditions_of(status).map(move |condition| (cluster, condition))
        })
    }

    /// Returns the time `field` of the template's condition, or of its `status.state`, that has this message. An
    /// unchanged condition or state thus keeps its time. Returns the current time if there is none.
    pub(super) fn transition_time(&self, field: &str, message: &str) -> Value {
        let old = self.template.pointer("/status/conditions");
        let old = old.and_then(Value::as_array).into_iter().flatten();
        let state = self.template.pointer("/status/state");
        let mut same = old
            .chain(state)
            .filter(|condition| condition.get("message") == Some(&json!(message)));
        let time = same.find_map(|condition| condition.get(field));
        time.cloned().unwrap_or_else(|| json!(self.now))
    }
}

/// Returns the conditions of a status.
pub(super) fn conditions_of(status: &Value) -> impl Iterator<Item = &Value> {
    let conditions = status.get("conditions").and_then(Value::as_array);
    let conditions = conditions.into_iter().flatten();
    conditions.filter(|condition| condition.is_object())
}

/// Returns the listed fields of a status, with the generations of the object and of its template.
pub(super) fn with_generations(object: &Value, status: &Value, fields: &[&str]) -> Fields {
    let mut report = picked(status, fields);
    if let Some(generation) = object.pointer("/metadata/generation") {
        report.insert("generation".to_owned(), generation.clone());
    }
    let annotations = object.pointer("/metadata/annotations");
    let template = annotations.and_then(|annotations| annotations.get(TEMPLATE_GENERATION));
    let template: Option<i64> = template.and_then(|text| text.as_str()?.parse().ok());
    if let Some(template) = template {
        report.insert("resourceTemplateGeneration".to_owned(), json!(template));
    }
    report
}
