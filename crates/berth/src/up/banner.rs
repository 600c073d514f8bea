//! What `berth up` says when it is ready: what runs where, and what to type next.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::columns;
use crate::kubeconfig::CONTEXT;
use crate::members::Member;

use super::Part;

/// How many members have a line of their own.
const SHOWN: usize = 5;

/// What the banner tells of.
#[derive(Debug)]
pub(super) struct Banner<'a> {
    /// The URL of the API server.
    pub(super) url: String,
    /// The simulated members.
    pub(super) members: &'a [Member],
    /// Members without an API server of ours.
    pub(super) others: usize,
    /// The kubeconfig.
    pub(super) kubeconfig: &'a Path,
    /// Where the objects are.
    pub(super) store: &'a str,
    /// What is left to others.
    pub(super) without: &'a [Part],
    /// How long the start took.
    pub(super) took: Duration,
}

impl Banner<'_> {
    /// # Errors
    /// When nobody is reading.
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
        writeln!(out, "  store        {}\n", self.store)?;
        let left_out = [Part::Controllers, Part::Scheduler];
        for part in left_out.iter().filter(|part| self.without.contains(part)) {
            let (part, program) = part.told();
            writeln!(
                out,
                "Without {part}: nobody does that work until you start `{program} --kubeconfig={}`.\n",
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

/// A word that a shell reads as it stands.
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
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(
            shell_word("/home/a/.berth/kubeconfig"),
            "/home/a/.berth/kubeconfig"
        );
        assert_eq!(shell_word("/home/a b"), "'/home/a b'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
