//! What is worth knowing beside the answer.

use super::detect::{Detector, Unbound};

/// Remarks, and templates without a binding.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    remarks: Vec<String>,
    unselected: Vec<String>,
    idle_policies: Vec<String>,
}

impl Notes {
    /// A remark.
    pub(crate) fn push(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    /// Several remarks.
    pub(crate) fn extend(&mut self, remarks: impl IntoIterator<Item = String>) {
        self.remarks.extend(remarks);
    }

    /// Templates that another policy holds or that have no binding that is up to date, and policies that cannot preempt.
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

    /// A template without a binding.
    fn unbound(&mut self, unbound: Unbound) {
        if unbound.unselected {
            self.unselected.push(unbound.template);
        } else {
            self.remarks
                .push(format!("{}: {}", unbound.template, unbound.reason));
        }
    }

    /// Policies of the manifests that select nothing, a line each.
    pub(crate) fn idle_policies(&mut self, lines: Vec<String>) {
        self.idle_policies.extend(lines);
    }

    /// How many selectors and policies select nothing.
    pub(crate) fn idle(&self) -> usize {
        self.idle_policies.len()
    }

    /// All of it, a line each.
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
