//! Idle policies: policies in the manifests that select no template, or that select a kind that does not exist. The
//! messages contain hints at probable mistakes.

use berth_apimachinery::api_error::api_error_message;
use std::collections::BTreeSet;

use berth_controllers::detector::policy::{Policy, PolicyRecord};
use berth_controllers::detector::template::Template;
use berth_controllers::did_you_mean::{kind_hint, nearest};
use berth_controllers::resource_selector::{Objects, Selector};

use super::detect::{self, ApiKind, Detector};
use super::error::SimulateError;
use crate::served_kinds::{KindLookup, ServedKinds};

/// The kinds that exist for the simulation.
pub(crate) struct ExistingKinds {
    /// Kinds of Kubernetes and Karmada, and kinds that the manifests define.
    pub(crate) defined: ServedKinds,
    /// Kinds that the live control plane serves, if `--against` selects one.
    pub(crate) live: Option<ServedKinds>,
}

impl ExistingKinds {
    /// Reports whether a kind does not exist. Without a live control plane, a kind of an unknown API version counts as
    /// existing.
    async fn lacks(&mut self, (api_version, kind): &ApiKind) -> Result<bool, kube::Error> {
        let defined = self.defined.find(api_version, kind).await?;
        Ok(match (&mut self.live, defined) {
            (_, KindLookup::Served(_)) | (None, KindLookup::UnknownApiVersion) => false,
            (None, KindLookup::Missing) => true,
            (Some(live), _) => {
                !matches!(live.find(api_version, kind).await?, KindLookup::Served(_))
            }
        })
    }

    /// Returns a hint that names a similar kind.
    async fn hint(&mut self, (api_version, kind): &ApiKind) -> Result<Option<String>, kube::Error> {
        let served = self.live.as_mut().unwrap_or(&mut self.defined);
        served.read_common().await?;
        Ok(kind_hint(api_version, kind, served.kinds().iter().copied()))
    }
}

/// Returns a message for each policy in the manifests that selects no template, or that selects a kind that does not
/// exist.
///
/// # Errors
/// Fails if the control plane does not respond.
pub(crate) async fn find(
    detector: &Detector,
    mut kinds: ExistingKinds,
) -> Result<Vec<String>, SimulateError> {
    let mut lines = Vec::new();
    for record in detector.applied_policies() {
        // The errors of an invalid policy are already reported.
        let Some(policy) = record.ready() else {
            continue;
        };
        let missing = missing_kinds(detector, record, &mut kinds);
        let missing = missing.await.map_err(|error| SimulateError::Read {
            what: format!("the kinds that {} selects", record.key),
            reason: api_error_message(&error),
            missing: false,
        })?;
        if missing.is_empty() && !detector.templates().any(|t| policy.selects(t)) {
            let key = &policy.key;
            lines.push(match selector_hint(detector, policy) {
                Some(hint) => format!("{key} selects nothing: {hint}"),
                None => format!("{key} selects nothing"),
            });
        }
        lines.extend(missing);
    }
    Ok(lines)
}

async fn missing_kinds(
    detector: &Detector,
    record: &PolicyRecord,
    kinds: &mut ExistingKinds,
) -> Result<Vec<String>, kube::Error> {
    let mut lines = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, kind) in record.kinds.iter().enumerate() {
        let is_of_kind =
            |template: &Template| template.key.resource.is_version_of(&kind.0, &kind.1);
        if !seen.insert(kind)
            || detector.templates().any(|template| is_of_kind(template))
            || !kinds.lacks(kind).await?
        {
            continue;
        }
        let hint = kinds.hint(kind).await?;
        lines.push(format!(
            "{}: spec.resourceSelectors[{index}] selects nothing: there is no {} in {}{}",
            record.key,
            kind.1,
            kind.0,
            hint.map_or_else(String::new, |hint| format!("; {hint}")),
        ));
    }
    Ok(lines)
}

/// Returns a hint for the first selector whose name is equal or similar to the name of a template.
fn selector_hint(detector: &Detector, policy: &Policy) -> Option<String> {
    let hints = policy.selectors.iter();
    let mut hints = hints.filter_map(|selector| match &selector.objects {
        Objects::Named(name) => name_hint(detector, selector, name),
        Objects::All | Objects::Labelled(_) => None,
    });
    hints.next()
}

fn name_hint(detector: &Detector, selector: &Selector, name: &str) -> Option<String> {
    let kind = &selector.kind;
    let of_kind: Vec<&Template> = detector
        .templates()
        .map(|template| &**template)
        .filter(|template| {
            template
                .key
                .resource
                .is_version_of(&selector.api_version, kind)
        })
        .collect();
    let missing = format!("there is no {kind} {name}");
    if let Some(template) = of_kind.iter().find(|template| template.key.name == name) {
        let found = detect::full_name(&template.key);
        return Some(format!("{missing} in its namespace, but there is {found}"));
    }
    let near = of_kind.iter().filter(|template| {
        selector.namespace.is_empty() || template.key.namespace == selector.namespace
    });
    let found = nearest(name, near.map(|template| template.key.name.as_str()))?;
    Some(format!("{missing}; did you mean {found}?"))
}
