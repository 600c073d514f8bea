//! The command `berth taint`, which adds and removes taints of members. The module `taint_change` parses and applies
//! one change.

use clap::Args;
use k8s_openapi::api::core::v1::Taint;
use kube::api::Api;

use super::taint_change::{self, TaintChange};
use super::{ClustersError, change_taints};
use crate::control_plane::ControlPlaneArgs;
use crate::member_name;
use crate::output;

/// Flags of `berth taint`.
#[derive(Args, Clone, Debug)]
pub struct TaintArgs {
    /// Members, and changes of their taints: `member1 dedicated=gpu:NoSchedule spot:NoExecute-`
    #[arg(value_name = "NAME... TAINT", required = true)]
    pub words: Vec<String>,

    /// Overwrite the values of existing taints
    #[arg(long)]
    pub overwrite: bool,

    /// Report what would be done; nothing is written
    #[arg(long)]
    pub dry_run: bool,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// Reports whether a word of the command line is a change of a taint. Any other word is the name of a member.
fn is_change(word: &str) -> bool {
    word.contains(['=', ':']) || word.ends_with('-')
}

/// Splits the words into members and changes. A leading `cluster` or `clusters` is ignored, as in kubectl.
fn parse_words(words: &[String]) -> Result<(Vec<String>, Vec<TaintChange>), String> {
    let words = match words.split_first() {
        Some((first, rest))
            if rest.len() > 1 && ["cluster", "clusters"].contains(&first.as_str()) =>
        {
            rest
        }
        _ => words,
    };
    let first_change = words.iter().position(|word| is_change(word));
    let (names, rest) = words.split_at(first_change.unwrap_or(words.len()));
    if names.is_empty() {
        return Err("no member is named: write its name before the taints".to_owned());
    }
    if rest.is_empty() {
        return Err(
            "no taint is named: write key=value:NoSchedule, or key- to remove it".to_owned(),
        );
    }
    if let Some(late) = rest.iter().find(|word| !is_change(word)) {
        return Err(format!("{late} comes after a taint: members come first"));
    }
    let names = names.iter().map(|name| member_name::parse(name));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let changes = rest.iter().map(|word| {
        word.parse()
            .map_err(|error| format!("taint {word}: {error}"))
    });
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    taint_change::check(&changes)?;
    Ok((names, changes))
}

/// Changes the taints of members, one member after the other.
///
/// # Errors
/// Returns the error of the first member that cannot be changed. The members after it are not changed.
pub async fn run(args: TaintArgs) -> Result<(), ClustersError> {
    let (names, changes) = parse_words(&args.words).map_err(ClustersError::Usage)?;
    let clusters = Api::all(super::client(&args.control_plane).await?);
    for name in &names {
        let apply = |taints: &[Taint]| {
            let after = taint_change::apply(taints, &changes, args.overwrite)
                .map_err(|error| ClustersError::Taints(format!("{name}: {error}")))?;
            let differs = after.is_some();
            Ok((after, differs))
        };
        let modified = change_taints(&clusters, name, args.dry_run, apply).await?;
        let adds = changes
            .iter()
            .any(|change| matches!(change, TaintChange::Add(_)));
        let result = match (modified, adds) {
            (false, _) => "unchanged",
            (true, true) => "tainted",
            (true, false) => "untainted",
        };
        let note = if args.dry_run { " (dry run)" } else { "" };
        output::print(&format!("cluster/{name} {result}{note}\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Result<(Vec<String>, usize), String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        parse_words(&words).map(|(names, changes)| (names, changes.len()))
    }

    #[test]
    fn members_come_before_taints() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of("clusters m1 m2 a:NoSchedule b-"),
            Ok((names(&["m1", "m2"]), 2))
        );
        assert_eq!(of("m1 a:NoSchedule"), Ok((names(&["m1"]), 1)));
        assert_eq!(of("cluster/m1 a:NoSchedule"), Ok((names(&["m1"]), 1)));
        assert_eq!(of("cluster a-"), Ok((names(&["cluster"]), 1)));
        for (words, expected) in [
            ("a:NoSchedule", "no member is named"),
            ("m1", "no taint is named"),
            ("m1 a- m2", "m2 comes after a taint"),
            ("m1 a:Never", "taint a:Never: \"Never\" is not an effect"),
            ("m1 a- a:NoExecute", "a:NoExecute is named twice"),
        ] {
            let error = of(words).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
