//! The commands `berth cordon` and `berth uncordon`. They add or remove the taint that keeps new workloads away from
//! members.

use berth_api::well_known::UNSCHEDULABLE;
use clap::Args;
use k8s_openapi::api::core::v1::Taint;
use kube::api::Api;

use super::{ClustersError, change_taints};
use crate::control_plane::ControlPlaneArgs;
use crate::member_name;
use crate::output;

const NO_SCHEDULE: &str = "NoSchedule";

/// Flags of `berth cordon`. The flags of `berth uncordon` include them.
#[derive(Args, Clone, Debug)]
pub struct CordonArgs {
    /// Names of the members
    #[arg(value_name = "NAME", required = true, value_parser = member_name::parse)]
    pub names: Vec<String>,

    /// Report what would be done; nothing is written
    #[arg(long)]
    pub dry_run: bool,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// Desired state of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CordonState {
    /// The scheduler places no new workloads on the members. Existing workloads stay.
    Cordoned,
    /// The scheduler may place new workloads on the members.
    Uncordoned,
}

fn is_cordon(taint: &Taint) -> bool {
    taint.key == UNSCHEDULABLE && taint.effect == NO_SCHEDULE
}

/// Reports whether a member with these taints is cordoned.
pub(super) fn is_cordoned(taints: &[Taint]) -> bool {
    taints.iter().any(is_cordon)
}

/// Returns the changed taints, or `None` if the member already has the desired state.
fn changed(taints: &[Taint], desired: CordonState) -> Option<Vec<Taint>> {
    let mut changed = taints.to_vec();
    match (desired, is_cordoned(taints)) {
        (CordonState::Cordoned, false) => changed.push(Taint {
            key: UNSCHEDULABLE.to_owned(),
            effect: NO_SCHEDULE.to_owned(),
            ..Taint::default()
        }),
        (CordonState::Uncordoned, true) => changed.retain(|taint| !is_cordon(taint)),
        (CordonState::Cordoned, true) | (CordonState::Uncordoned, false) => return None,
    }
    Some(changed)
}

/// Cordons or uncordons members, one after the other.
///
/// # Errors
/// Returns the error of the first member that cannot be changed. The members after it are not changed.
pub async fn run(args: CordonArgs, desired: CordonState) -> Result<(), ClustersError> {
    let clusters = Api::all(super::client(&args.control_plane).await?);
    let word = match desired {
        CordonState::Cordoned => "cordoned",
        CordonState::Uncordoned => "uncordoned",
    };
    for name in &args.names {
        let change = |taints: &[Taint]| {
            let taints = changed(taints, desired);
            let changes = taints.is_some();
            Ok((taints, changes))
        };
        let changes = change_taints(&clusters, name, args.dry_run, change).await?;
        let result = match (changes, args.dry_run) {
            (false, _) => format!("already {word}"),
            (true, true) => format!("{word} (dry run)"),
            (true, false) => word.to_owned(),
        };
        output::print(&format!("cluster/{name} {result}\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cordoning_and_uncordoning_keep_all_other_taints() {
        let other = Taint {
            key: UNSCHEDULABLE.to_owned(),
            effect: "NoExecute".to_owned(),
            ..Taint::default()
        };
        let cordoned = changed(std::slice::from_ref(&other), CordonState::Cordoned).unwrap();
        assert_eq!(cordoned.len(), 2);
        assert!(is_cordoned(&cordoned));
        assert_eq!(changed(&cordoned, CordonState::Cordoned), None);
        let free = changed(&cordoned, CordonState::Uncordoned).unwrap();
        assert_eq!(free, [other]);
        assert_eq!(changed(&free, CordonState::Uncordoned), None);
    }
}
