//! What several bindings want of one that follows them all: whether it takes over what is in the way, and whether it
//! stays when it is deleted. Whoever wants it gets it.

use super::record::Record;

/// `spec.conflictResolution` of those that take over what is in the way.
pub(super) const OVERWRITE: &str = "Overwrite";
/// `spec.conflictResolution` of the others.
pub(super) const ABORT: &str = "Abort";

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strategy {
    /// What is in the way is taken over.
    pub(super) overwrite: bool,
    /// What is in the members stays there.
    pub(super) preserve: bool,
    /// Where they are not of one mind.
    pub(super) conflict: Conflict,
}

/// Where several bindings are not of one mind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Conflict {
    resolution: bool,
    preservation: bool,
}

impl Strategy {
    /// What these bindings want; nothing where there are none.
    pub(super) fn of<'a>(followed: impl IntoIterator<Item = &'a Record>) -> Option<Self> {
        let (mut overwriting, mut preserving) = ((false, false), (false, false));
        let mut any = false;
        let note = |seen: &mut (bool, bool), wanted: bool| {
            seen.0 |= wanted;
            seen.1 |= !wanted;
        };
        for record in followed {
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

    /// As it is written.
    pub(super) fn conflict_resolution(self) -> &'static str {
        if self.overwrite { OVERWRITE } else { ABORT }
    }
}

impl Conflict {
    /// What is told of it, in Karmada's words; nothing where all agree.
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
