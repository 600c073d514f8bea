//! The settings of an attached binding, merged from its independent bindings: conflict resolution and preservation on
//! deletion. A setting is enabled if at least one independent binding enables it.

use super::record::BindingRecord;

/// The value of `spec.conflictResolution` for taking over existing objects in members.
pub(super) const OVERWRITE: &str = "Overwrite";
/// The default of `spec.conflictResolution`.
pub(super) const ABORT: &str = "Abort";

/// The settings of an attached binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strategy {
    /// True if existing objects in members are taken over.
    pub(super) overwrite: bool,
    /// True if objects remain in members after their template is deleted.
    pub(super) preserve: bool,
    /// The settings that differ between the independent bindings.
    pub(super) conflict: Conflict,
}

/// The settings that differ between independent bindings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Conflict {
    resolution: bool,
    preservation: bool,
}

impl Strategy {
    /// Merges the settings of independent bindings. Returns `None` if there are no bindings.
    pub(super) fn of<'a>(independent: impl IntoIterator<Item = &'a BindingRecord>) -> Option<Self> {
        let (mut overwriting, mut preserving) = ((false, false), (false, false));
        let mut any = false;
        let note = |seen: &mut (bool, bool), wanted: bool| {
            seen.0 |= wanted;
            seen.1 |= !wanted;
        };
        for record in independent {
            any = true;
            let resolution = record.conflict_resolution.as_deref();
            note(&mut overwriting, resolution == Some(OVERWRITE));
            note(&mut preserving, record.preserve == Some(true));
        }
        any.then_some(Self {
            overwrite: overwriting.0,
            preserve: preserving.0,
            conflict: Conflict {
                resolution: overwriting.0 && overwriting.1,
                preservation: preserving.0 && preserving.1,
            },
        })
    }

    /// Returns the value of `spec.conflictResolution`.
    pub(super) fn conflict_resolution(self) -> &'static str {
        if self.overwrite { OVERWRITE } else { ABORT }
    }
}

impl Conflict {
    /// Returns Karmada's message about the conflict, or `None` if the settings do not differ.
    pub(super) fn message(self) -> Option<String> {
        let reasons = [
            (
                self.resolution,
                "ConflictResolution conflicted (Overwrite vs Abort)",
            ),
            (
                self.preservation,
                "PreserveResourcesOnDeletion conflicted (true vs false)",
            ),
        ];
        let reasons: Vec<&str> = reasons
            .into_iter()
            .filter_map(|(found, reason)| found.then_some(reason))
            .collect();
        (!reasons.is_empty()).then(|| {
            format!(
                "Dependency policy conflict detected: {}.",
                reasons.join("; ")
            )
        })
    }
}
