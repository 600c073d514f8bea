//! The plugin Coscheduling, which places the members of a gang together or not at all.
//!
//! The label `minAvailable` is the minimum number of members. A member is gated until this number of members exists.
//! Then the decision about a member is parked until this number of members is decided or placed. Parked decisions
//! reduce the free capacity of clusters. The plugin rejects the parked decisions of a gang if too few members fit, or
//! if one of these decisions is rejected, for example after a timeout.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::{Binding, BindingKey};
use berth_engine::{CycleState, PluginError};
use serde::Deserialize;

use super::gang_state::{GangState, MemberState};
use super::membership::Membership;
use crate::framework::{
    Args, Decided, FactoryError, Follow, Gate, Handle, Nomination, Permission, Permit, Permits,
    Plugin, PostFilter, PostFilterContext, PreEnqueue, Reserve, Waiting,
};
use crate::template::Templates;

/// Maximum size of a gang in which each new member requeues the gated members, so that their messages show the new
/// number of members. The members of a larger gang are requeued when the gang has enough members.
const SMALL_GANG: usize = 16;

/// The plugin Coscheduling, which places bindings with the labels `podGroup` and `minAvailable` together or not at all.
#[derive(Debug)]
pub(crate) struct Coscheduling {
    scheduler_name: Arc<str>,
    timeout: Duration,
    templates: Templates,
    permits: Permits,
    state: Mutex<GangState>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct GangArgs {
    /// Maximum time for which the decision about a member waits for the other members.
    permit_waiting_time_seconds: u64,
    /// True if the plugin reads the labels of templates.
    read_templates: bool,
}

impl Default for GangArgs {
    fn default() -> Self {
        Self {
            permit_waiting_time_seconds: 60,
            read_templates: true,
        }
    }
}

impl Coscheduling {
    /// Name of the plugin.
    pub(crate) const NAME: &'static str = "Coscheduling";

    pub(crate) fn plugin(args: &Args, handle: &Handle) -> Result<Plugin, FactoryError> {
        let args: GangArgs = args.parse()?;
        let templates = if args.read_templates {
            handle.templates()
        } else {
            Templates::disabled()
        };
        let gangs = Arc::new(Self::new(
            handle.scheduler_name(),
            Duration::from_secs(args.permit_waiting_time_seconds),
            templates,
            handle.permits(Self::NAME),
        ));
        Ok(Plugin::new(Self::NAME)
            .pre_enqueue(gangs.clone())
            .post_filter(gangs.clone())
            .reserve(gangs.clone())
            .permit(gangs.clone())
            .follow(gangs)
            .assumes_capacity())
    }

    fn new(
        scheduler_name: &str,
        timeout: Duration,
        templates: Templates,
        permits: Permits,
    ) -> Self {
        Self {
            scheduler_name: scheduler_name.into(),
            timeout,
            templates,
            permits,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, GangState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follow for Coscheduling {
    fn present(&self, binding: &Binding) {
        if binding.spec.scheduler() != &*self.scheduler_name || binding.deleting() {
            return self.gone(&binding.key);
        }
        let membership = Membership::of(binding, &self.templates);
        let mut gangs = self.state();
        match membership {
            Membership::Member(gang, min) => {
                let placed = !binding.spec.clusters.is_empty();
                let gated = gangs.add(&binding.key, gang, min, placed);
                let helped = gangs
                    .gang_of(&binding.key)
                    .is_some_and(|(_, gang, min)| gang.len() >= min || gang.len() <= SMALL_GANG);
                drop(gangs);
                if helped {
                    self.permits.requeue(gated);
                }
            }
            _ => gangs.remove(&binding.key),
        }
    }

    fn refresh(&self) -> Vec<BindingKey> {
        self.templates.apply_updates()
    }

    fn gone(&self, key: &BindingKey) {
        self.templates.forget(key);
        self.state().remove(key);
    }
}

impl PreEnqueue for Coscheduling {
    fn pre_enqueue(&self, binding: &Binding) -> Gate {
        match Membership::of(binding, &self.templates) {
            Membership::Alone => return Gate::Open,
            Membership::NotKnown => return Gate::NotKnown,
            Membership::Wrong(why) => return Gate::Closed(why),
            Membership::NoTemplate => {
                let resource = &binding.spec.resource;
                let kind = &resource.kind;
                let why = format!("its template {kind} {} does not exist", resource.name);
                return Gate::Closed(why);
            }
            Membership::Unreadable(why) => {
                return Gate::Closed(format!("its template cannot be read: {why}"));
            }
            Membership::Member(..) => {}
        }
        let mut gangs = self.state();
        let Some((name, gang, min)) = gangs.gang_of(&binding.key) else {
            return Gate::Open;
        };
        let exist = gang.len();
        if exist >= min || gangs.state_of(&binding.key) == Some(MemberState::Placed) {
            return Gate::Open;
        }
        let why = format!("{exist} of {min} members of group {:?} exist", name.group);
        gangs.set_state(&binding.key, MemberState::Gated);
        Gate::Closed(why)
    }
}

impl PostFilter for Coscheduling {
    /// Nominates no victims. Rejects the parked decisions of the gang if too few members can still fit.
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        _state: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError> {
        let key = &context.binding.key;
        let mut gangs = self.state();
        gangs.set_state(key, MemberState::Failed);
        if let Some((name, gang, min)) = gangs.gang_of(key)
            && gang.blocking_member(min).is_some()
        {
            for member in gang.of(&[MemberState::Reserved]) {
                self.permits.reject(&member, does_not_fit(key, &name.group));
            }
        }
        Ok(None)
    }
}

impl Reserve for Coscheduling {
    fn reserve(&self, decided: &Decided, _state: &mut CycleState) -> Result<(), PluginError> {
        self.state()
            .set_state(&decided.binding.key, MemberState::Reserved);
        Ok(())
    }

    fn unreserve(&self, decided: &Decided, _state: &mut CycleState) {
        self.state()
            .set_state(&decided.binding.key, MemberState::Idle);
    }
}

impl Permit for Coscheduling {
    fn permit(
        &self,
        decided: &Decided,
        _state: &mut CycleState,
        waiting: &mut Waiting<'_>,
    ) -> Permission {
        let key = &decided.binding.key;
        let gangs = self.state();
        let Some((name, gang, min)) = gangs.gang_of(key) else {
            return Permission::Allow;
        };
        // A member that is already placed does not wait for the gang.
        if gangs.state_of(key) == Some(MemberState::Placed) {
            return Permission::Allow;
        }
        if gang.decided() >= min {
            let keys: Vec<BindingKey> = waiting
                .iter()
                .map(|decided| decided.binding.key.clone())
                .collect();
            for key in keys {
                if gangs.gang_of(&key).is_some_and(|(other, ..)| other == name) {
                    waiting.allow(&key);
                }
            }
            return Permission::Allow;
        }
        if let Some(member) = gang.blocking_member(min) {
            return Permission::Deny(does_not_fit(&member, &name.group));
        }
        self.permits
            .requeue(gang.of(&[MemberState::Idle, MemberState::Gated]));
        Permission::Wait(self.timeout)
    }

    fn gains(&self, rejected: &Binding, other: &Binding) -> bool {
        let gangs = self.state();
        let gang = |key| gangs.gang_of(key).map(|(name, ..)| name);
        gang(&rejected.key).is_none_or(|ours| gang(&other.key) != Some(ours))
    }

    fn rejected(&self, binding: &Binding, waiting: &mut Waiting<'_>) {
        let gangs = self.state();
        let Some((name, ..)) = gangs.gang_of(&binding.key) else {
            return;
        };
        let why = format!(
            "{} of group {:?} was rejected while it waited for the other members",
            binding.key, name.group
        );
        let keys: Vec<BindingKey> = waiting
            .iter()
            .map(|decided| decided.binding.key.clone())
            .filter(|key| gangs.gang_of(key).is_some_and(|(other, ..)| other == name))
            .collect();
        for key in keys {
            waiting.reject(&key, why.clone());
        }
    }
}

fn does_not_fit(member: &BindingKey, group: &str) -> String {
    format!("{member} of group {group:?} does not fit")
}

#[cfg(test)]
mod tests;
