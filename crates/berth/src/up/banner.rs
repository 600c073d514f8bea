//! The banner that `berth up` prints when the control plane is ready: a table of the servers, and example commands.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use berth_up::kubeconfig::CONTEXT;
use berth_up::members::Member;

use crate::columns;

use super::DisabledComponent;

/// Maximum number of members in the table.
const SHOWN: usize = 5;

/// Content of the banner.
#[derive(Debug)]
pub(super) struct Banner<'a> {
    /// URL of the API server.
    pub(super) url: String,
    /// The simulated members.
    pub(super) members: &'a [Member],
    /// Number of members without a server in this process.
    pub(super) others: usize,
    /// Path of the kubeconfig.
    pub(super) kubeconfig: &'a Path,
    /// Description of the storage.
    pub(super) store: &'a str,
    /// URL of the dashboard, with its token.
    pub(super) dashboard: Option<&'a str>,
    /// Components that `berth up` does not start.
    pub(super) without: &'a [DisabledComponent],
    /// Time that the start took.
    pub(super) took: Duration,
}

impl Banner<'_> {
    /// Writes the banner.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub(super) fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(
            out,
            "berth {} is ready ({:.2} s)\n",
            env!("CARGO_PKG_VERSION"),
            self.took.as_secs_f64()
        )?;
        let header = ["SERVER", "ADDRESS", "CONTEXT", "NODES"];
        let mut rows = vec![
            ["control plane", &self.url, CONTEXT, "-"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(self.members.iter().take(SHOWN).map(|member| {
            vec![
                member.name().to_owned(),
                member.server().url(),
                member.name().to_owned(),
                member.nodes().to_string(),
            ]
        }));
        for line in columns::align(&header, &rows).lines() {
            writeln!(out, "  {line}")?;
        }
        match (self.members.len().saturating_sub(SHOWN), self.others) {
            (0, 0) => {}
            (more, 0) => writeln!(out, "  and {more} more members: `berth status` shows them")?,
            (more, others) => writeln!(
                out,
                "  and {} more members, {others} of them without a server here: `berth status` shows them",
                more + others
            )?,
        }
        let kubeconfig = self.kubeconfig.display();
        writeln!(out, "\n  kubeconfig   {kubeconfig}")?;
        writeln!(out, "  store        {}", self.store)?;
        if let Some(url) = self.dashboard {
            writeln!(out, "  dashboard    {url}")?;
        }
        writeln!(out)?;
        let all = [DisabledComponent::Controllers, DisabledComponent::Scheduler];
        for component in all
            .iter()
            .filter(|component| self.without.contains(component))
        {
            let (name, program) = component.name_and_substitute();
            writeln!(
                out,
                "Not started: {name}. Start `{program} --kubeconfig={}` instead.\n",
                shell_word(&kubeconfig.to_string())
            )?;
        }
        writeln!(out, "In another terminal:\n")?;
        writeln!(
            out,
            "  export KUBECONFIG={}",
            shell_word(&kubeconfig.to_string())
        )?;
        writeln!(out, "  kubectl apply -f examples/nginx.yaml")?;
        writeln!(out, "  kubectl get resourcebindings")?;
        if let Some(member) = self.members.first() {
            writeln!(out, "  kubectl --context {} get nodes", member.name())?;
        }
        writeln!(out, "\nPress Ctrl-C to stop, or type `berth down`.")?;
        out.flush()
    }
}

/// Quotes `text` for a shell where necessary.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_blanks_or_quotes_are_quoted_for_the_shell() {
        assert_eq!(
            shell_word("/home/a/.berth/kubeconfig"),
            "/home/a/.berth/kubeconfig"
        );
        assert_eq!(shell_word("/home/a b"), "'/home/a b'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
