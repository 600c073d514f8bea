//! The lines `note: …` in the output of `berth simulate`. They report ignored objects, objects without effect, and the
//! limits of the simulation.

use super::detect::{Detector, Unbound};

/// The notes of one simulation: remarks, templates without a policy, and policies that select nothing.
#[derive(Debug, Default)]
pub struct Notes {
    remarks: Vec<String>,
    unselected: Vec<String>,
    idle_policies: Vec<String>,
}

impl Notes {
    /// Adds a remark, which is one line.
    pub(crate) fn push(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    /// Adds a remark, unless the notes already contain it.
    pub(crate) fn push_new(&mut self, remark: String) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Adds remarks.
    pub(crate) fn extend(&mut self, remarks: impl IntoIterator<Item = String>) {
        self.remarks.extend(remarks);
    }

    /// Adds the findings of the detector: templates that another policy has claimed, templates without an up-to-date
    /// binding, and policies whose preemption is disabled by a feature gate.
    pub(crate) fn detected(&mut self, detector: &Detector) {
        self.extend(detector.takeovers());
        for unbound in detector.unbound() {
            self.unbound(unbound);
        }
        let preemptors = detector.idle_preemptors();
        if let Some(first) = preemptors.first() {
            let others = match preemptors.len() {
                1 => String::new(),
                all => format!(" and of {} more", all - 1),
            };
            self.push(format!(
                "preemption: Always of {first}{others} has an effect only if the controllers run with the feature gate \
                 PropagationPolicyPreemption; add --feature-gates PropagationPolicyPreemption=true if they do"
            ));
        }
    }

    fn unbound(&mut self, unbound: Unbound) {
        if unbound.unselected {
            self.unselected.push(unbound.template);
        } else {
            self.remarks
                .push(format!("{}: {}", unbound.template, unbound.reason));
        }
    }

    /// Adds one line for each selector or policy of the manifests that selects nothing.
    pub(crate) fn idle_policies(&mut self, lines: Vec<String>) {
        self.idle_policies.extend(lines);
    }

    /// Returns the number of selectors and policies that select nothing.
    pub fn idle(&self) -> usize {
        self.idle_policies.len()
    }

    /// Returns all notes, one line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.unselected.is_empty() {
            lines.push(format!("no policy selects {}", self.unselected.join(", ")));
        }
        lines.extend(self.idle_policies.iter().cloned());
        lines.extend(self.remarks.iter().cloned());
        lines
    }
}
