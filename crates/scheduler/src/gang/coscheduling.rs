//! All members of a gang, or none.
//!
//! A member is held until enough of them exist; its decision waits for those of enough others, and what it
//! takes counts meanwhile. A member that fits nowhere, or whose wait ends, sends those back that wait with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_core::{CycleState, PluginError};
use serde::Deserialize;

use super::books::{Books, Standing};
use super::membership::Membership;
use crate::binding::{Binding, BindingKey};
use crate::framework::{
    Args, Decided, FactoryError, Follow, Gate, Handle, Nomination, Permission, Permit, Permits,
    Plugin, PostFilter, PostFilterContext, PreEnqueue, Reserve, Waiting,
};
use crate::template::Templates;

/// Gangs up to this size are told of each new member; greater ones when there are enough.
const TOLD_OF_EACH: usize = 16;

/// Coscheduling: bindings with the labels `podGroup` and `minAvailable` are placed together or not at all.
#[derive(Debug)]
pub struct Coscheduling {
    scheduler_name: Arc<str>,
    patience: Duration,
    templates: Templates,
    permits: Permits,
    books: Mutex<Books>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct GangArgs {
    /// How long a member waits for the others.
    permit_waiting_time_seconds: u64,
    /// Whether labels of templates count.
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
    /// The plugin's name.
    pub const NAME: &'static str = "Coscheduling";

    pub(crate) fn plugin(args: &Args, handle: &Handle) -> Result<Plugin, FactoryError> {
        let args: GangArgs = args.parse()?;
        let templates = if args.read_templates {
            handle.templates()
        } else {
            Templates::unread()
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
        patience: Duration,
        templates: Templates,
        permits: Permits,
    ) -> Self {
        Self {
            scheduler_name: scheduler_name.into(),
            patience,
            templates,
            permits,
            books: Mutex::default(),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follow for Coscheduling {
    fn present(&self, binding: &Binding) {
        if binding.spec.scheduler() != &*self.scheduler_name || binding.deleting() {
            return self.gone(&binding.key);
        }
        let membership = Membership::of(binding, &self.templates);
        let mut books = self.books();
        match membership {
            Membership::Member(gang, min) => {
                let placed = !binding.spec.clusters.is_empty();
                let gated = books.enter(&binding.key, gang, min, placed);
                let helped = books
                    .gang_of(&binding.key)
                    .is_some_and(|(_, gang, min)| gang.len() >= min || gang.len() <= TOLD_OF_EACH);
                drop(books);
                if helped {
                    self.permits.look_again(gated);
                }
            }
            _ => books.strike(&binding.key),
        }
    }

    fn refresh(&self) -> Vec<BindingKey> {
        self.templates.publish()
    }

    fn gone(&self, key: &BindingKey) {
        self.templates.forget(key);
        self.books().strike(key);
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
                let why = format!("its template {kind} {} is not there", resource.name);
                return Gate::Closed(why);
            }
            Membership::Unreadable(why) => {
                return Gate::Closed(format!("its template cannot be read: {why}"));
            }
            Membership::Member(..) => {}
        }
        let mut books = self.books();
        let Some((name, gang, min)) = books.gang_of(&binding.key) else {
            return Gate::Open;
        };
        let exist = gang.len();
        if exist >= min || books.standing(&binding.key) == Some(Standing::Placed) {
            return Gate::Open;
        }
        let why = format!("{exist} of {min} members of group {:?} exist", name.group);
        books.comes_to(&binding.key, Standing::Gated);
        Gate::Closed(why)
    }
}

impl PostFilter for Coscheduling {
    /// Makes no room: where too few members are left that may fit, those that wait are sent back.
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        _state: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError> {
        let key = &context.binding.key;
        let mut books = self.books();
        books.comes_to(key, Standing::Failed);
        if let Some((name, gang, min)) = books.gang_of(key)
            && gang.obstacle(min).is_some()
        {
            for member in gang.of(&[Standing::Reserved]) {
                self.permits.reject(&member, does_not_fit(key, &name.group));
            }
        }
        Ok(None)
    }
}

impl Reserve for Coscheduling {
    fn reserve(&self, decided: &Decided, _state: &mut CycleState) -> Result<(), PluginError> {
        self.books()
            .comes_to(&decided.binding.key, Standing::Reserved);
        Ok(())
    }

    fn unreserve(&self, decided: &Decided, _state: &mut CycleState) {
        self.books().comes_to(&decided.binding.key, Standing::Idle);
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
        let books = self.books();
        let Some((name, gang, min)) = books.gang_of(key) else {
            return Permission::Allow;
        };
        // What is placed holds nobody up, and nobody holds it up.
        if books.standing(key) == Some(Standing::Placed) {
            return Permission::Allow;
        }
        if gang.decided() >= min {
            let keys: Vec<BindingKey> = waiting
                .iter()
                .map(|decided| decided.binding.key.clone())
                .collect();
            for key in keys {
                if books.gang_of(&key).is_some_and(|(other, ..)| other == name) {
                    waiting.allow(&key);
                }
            }
            return Permission::Allow;
        }
        if let Some(obstacle) = gang.obstacle(min) {
            return Permission::Deny(does_not_fit(&obstacle, &name.group));
        }
        self.permits
            .look_again(gang.of(&[Standing::Idle, Standing::Gated]));
        Permission::Wait(self.patience)
    }

    fn gains(&self, rejected: &Binding, other: &Binding) -> bool {
        let books = self.books();
        let gang = |key| books.gang_of(key).map(|(name, ..)| name);
        gang(&rejected.key).is_none_or(|ours| gang(&other.key) != Some(ours))
    }

    fn rejected(&self, binding: &Binding, waiting: &mut Waiting<'_>) {
        let books = self.books();
        let Some((name, ..)) = books.gang_of(&binding.key) else {
            return;
        };
        let why = format!(
            "{} of group {:?} was sent back while it waited for the others",
            binding.key, name.group
        );
        let keys: Vec<BindingKey> = waiting
            .iter()
            .map(|decided| decided.binding.key.clone())
            .filter(|key| books.gang_of(key).is_some_and(|(other, ..)| other == name))
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
#[path = "coscheduling_tests.rs"]
mod tests;
