//! Masks for the values of Secrets, as in `kubectl diff`.

use serde_json::{Value, json};

use super::report::{DiffReport, FieldDiff, MemberDiff, Variation, WantedReport};

/// Fields of a Secret that contain its values. The annotation of `kubectl apply` contains the whole Secret.
const FIELDS: [&str; 3] = [
    "data",
    "stringData",
    "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]",
];

/// Replaces the values of a Secret. Equal values of a field get equal masks.
pub(super) fn mask(report: &mut DiffReport) {
    for cluster in &mut report.clusters {
        mask_fields(&mut cluster.template);
        if let MemberDiff::Different { fields } = &mut cluster.member {
            mask_fields(fields);
        }
    }
    mask_variations(&mut report.between_clusters);
}

/// Replaces the values of a Secret in a report about wanted objects.
pub(super) fn mask_wanted(report: &mut WantedReport) {
    for cluster in &mut report.clusters {
        mask_fields(&mut cluster.template);
    }
    mask_variations(&mut report.between_clusters);
}

fn mask_variations(variations: &mut [Variation]) {
    for variation in variations {
        if is_secret(&variation.field) {
            let values = variation.values.iter_mut().enumerate();
            for (index, value) in values.filter(|(_, value)| value.value.is_some()) {
                value.value = Some(json!(format!("*** ({})", index + 1)));
            }
        }
    }
}

/// Replaces the values of a Secret in fields that differ.
pub(super) fn mask_fields(fields: &mut [FieldDiff]) {
    for field in fields.iter_mut().filter(|field| is_secret(&field.field)) {
        let mask = |value: &Option<Value>, text: &str| value.as_ref().map(|_| json!(text));
        field.old = mask(&field.old, "*** (old)");
        field.new = mask(&field.new, "*** (new)");
    }
}

/// Reports whether a field is a value of a Secret, contains values, or is a part of a value.
fn is_secret(field: &str) -> bool {
    let mut fields = FIELDS.iter();
    fields.any(|secret| {
        let rest = field.strip_prefix(secret);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }) || field == "metadata.annotations"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_of_a_secret_are_masked() {
        for (field, expected) in [
            ("data", true),
            ("data.password", true),
            ("data[tls.crt]", true),
            ("stringData.a", true),
            (
                "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]",
                true,
            ),
            ("metadata.annotations", true),
            ("metadata.annotations.team", false),
            ("database", false),
            ("type", false),
        ] {
            let mut fields = [FieldDiff {
                field: field.to_owned(),
                old: Some(json!("a")),
                new: None,
                origin: None,
            }];
            mask_fields(&mut fields);
            let is_masked = fields[0].old == Some(json!("*** (old)"));
            assert_eq!((is_masked, &fields[0].new), (expected, &None), "{field}");
        }
    }
}
