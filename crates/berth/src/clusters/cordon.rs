//! `berth cordon` and `berth uncordon`: whether new workloads may go to a member.

use berth_api::well_known::UNSCHEDULABLE;
use clap::Args;
use k8s_openapi::api::core::v1::Taint;
use kube::api::Api;

use super::{ClustersError, change_taints};
use crate::answer;
use crate::control_plane::ControlPlaneArgs;

const NO_SCHEDULE: &str = "NoSchedule";

/// Flags of `berth cordon` and `berth uncordon`.
#[derive(Args, Clone, Debug)]
pub struct CordonArgs {
    /// The members
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    /// Say what would be done; nothing is written
    #[arg(long)]
    pub dry_run: bool,

    /// Where the members are kept.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// New workloads stay away; those that are there stay.
    Cordoned,
    /// New workloads may come.
    Uncordoned,
}

fn is_cordon(taint: &Taint) -> bool {
    taint.key == UNSCHEDULABLE && taint.effect == NO_SCHEDULE
}

/// Whether a member with these taints is cordoned.
pub(super) fn is_cordoned(taints: &[Taint]) -> bool {
    taints.iter().any(is_cordon)
}

/// The taints as wanted; None where they are.
fn changed(taints: &[Taint], wanted: Wanted) -> Option<Vec<Taint>> {
    let mut changed = taints.to_vec();
    match (wanted, is_cordoned(taints)) {
        (Wanted::Cordoned, false) => changed.push(Taint {
            key: UNSCHEDULABLE.to_owned(),
            effect: NO_SCHEDULE.to_owned(),
            ..Taint::default()
        }),
        (Wanted::Uncordoned, true) => changed.retain(|taint| !is_cordon(taint)),
        (Wanted::Cordoned, true) | (Wanted::Uncordoned, false) => return None,
    }
    Some(changed)
}

/// Cordons or uncordons members, one after the other.
///
/// # Errors
/// With the first that cannot be changed.
pub async fn run(args: CordonArgs, wanted: Wanted) -> Result<(), ClustersError> {
    let clusters = Api::all(args.control_plane.client().await?);
    let word = match wanted {
        Wanted::Cordoned => "cordoned",
        Wanted::Uncordoned => "uncordoned",
    };
    for name in &args.names {
        let change = |taints: &[Taint]| {
            let taints = changed(taints, wanted);
            let changes = taints.is_some();
            Ok((taints, changes))
        };
        let changes = change_taints(&clusters, name, args.dry_run, change).await?;
        let how = match (changes, args.dry_run) {
            (false, _) => format!("already {word}"),
            (true, true) => format!("{word} (dry run)"),
            (true, false) => word.to_owned(),
        };
        answer::print(&format!("cluster/{name} {how}\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_taints_stay() {
        let other = Taint {
            key: UNSCHEDULABLE.to_owned(),
            effect: "NoExecute".to_owned(),
            ..Taint::default()
        };
        let cordoned = changed(std::slice::from_ref(&other), Wanted::Cordoned).unwrap();
        assert_eq!(cordoned.len(), 2);
        assert!(is_cordoned(&cordoned));
        assert_eq!(changed(&cordoned, Wanted::Cordoned), None);
        let free = changed(&cordoned, Wanted::Uncordoned).unwrap();
        assert_eq!(free, [other]);
        assert_eq!(changed(&free, Wanted::Uncordoned), None);
    }
}
