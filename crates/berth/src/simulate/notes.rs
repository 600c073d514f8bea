//! What is worth knowing beside the answer.

use super::detect::Unbound;

/// Remarks, and templates without a binding.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    remarks: Vec<String>,
    unselected: Vec<String>,
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

    /// A template without a binding.
    pub(crate) fn unbound(&mut self, unbound: Unbound) {
        if unbound.unselected {
            self.unselected.push(unbound.template);
        } else {
            self.remarks
                .push(format!("{}: {}", unbound.template, unbound.reason));
        }
    }

    /// All of it, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.unselected.is_empty() {
            lines.push(format!("no policy selects {}", self.unselected.join(", ")));
        }
        lines.extend(self.remarks.iter().cloned());
        lines
    }
}
