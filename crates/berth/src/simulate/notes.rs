//! The lines `note: …` of `berth simulate`: what was left out, and what had no effect.

use super::detect::{Detector, Unbound};

/// Remarks, templates without a policy, and policies that select nothing.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    remarks: Vec<String>,
    unselected: Vec<String>,
    idle_policies: Vec<String>,
}

impl Notes {
    /// Adds a remark.
    pub(crate) fn push(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    /// Adds remarks.
    pub(crate) fn extend(&mut self, remarks: impl IntoIterator<Item = String>) {
        self.remarks.extend(remarks);
    }

    /// Adds templates that another policy takes over, templates without an up-to-date binding, and policies that cannot
    /// preempt.
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
                "preemption: Always of {first}{others} counts only where the controllers run with the feature gate \
                 PropagationPolicyPreemption; add --feature-gates PropagationPolicyPreemption=true if they do"
            ));
        }
    }

    /// Adds a template without an up-to-date binding.
    fn unbound(&mut self, unbound: Unbound) {
        if unbound.unselected {
            self.unselected.push(unbound.template);
        } else {
            self.remarks
                .push(format!("{}: {}", unbound.template, unbound.reason));
        }
    }

    /// Adds policies of the manifests that select nothing, one line each.
    pub(crate) fn idle_policies(&mut self, lines: Vec<String>) {
        self.idle_policies.extend(lines);
    }

    /// Returns the number of selectors and policies that select nothing.
    pub(crate) fn idle(&self) -> usize {
        self.idle_policies.len()
    }

    /// Returns all notes, one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.unselected.is_empty() {
            lines.push(format!("no policy selects {}", self.unselected.join(", ")));
        }
        lines.extend(self.idle_policies.iter().cloned());
        lines.extend(self.remarks.iter().cloned());
        lines
    }
}
