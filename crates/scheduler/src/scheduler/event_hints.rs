//! Notification of plugins about changes, through EventsToRegister and Follow. The plugins then requeue the bindings
//! whose cycles they stopped.

use std::cell::RefCell;
use std::time::Instant;

use berth_api::{Binding, BindingKey};

use super::Scheduler;
use crate::framework::{Event, EventKind};

impl Scheduler {
    /// Reports whether a plugin has registered for events of this type.
    pub(super) fn is_registered(&self, kind: EventKind) -> bool {
        self.frameworks
            .iter()
            .any(|framework| framework.points.registered(kind))
    }

    /// Activates these bindings and the bindings that Follow plugins return, and updates their ranks.
    pub(super) fn requeue_for_plugins(&mut self, keys: &[BindingKey], now: Instant) {
        let mut all: Vec<BindingKey> = keys.to_vec();
        for framework in self.frameworks.iter() {
            let refreshed = RefCell::new(Vec::new());
            let points = &framework.points;
            points.follow(|follow| refreshed.borrow_mut().extend(follow.refresh()));
            all.append(&mut refreshed.into_inner());
        }
        for key in &all {
            if let Some(binding) = self.bindings.get(key) {
                self.notify_followers(binding);
                self.queue.rerank(key, self.frameworks.rank(binding));
                self.queue.activate(key, now);
            }
        }
    }

    /// Notifies Follow plugins of an added or changed binding.
    pub(super) fn notify_followers(&self, binding: &Binding) {
        for framework in self.frameworks.iter() {
            framework.points.follow(|follow| follow.present(binding));
        }
    }

    /// Notifies Follow plugins of a deleted binding.
    pub(super) fn notify_followers_of_deletion(&self, key: &BindingKey) {
        for framework in self.frameworks.iter() {
            framework.points.follow(|follow| follow.gone(key));
        }
    }

    /// Activates the bindings that an event may help, according to their plugins. Bindings in processing are included,
    /// because their cycles may still fail.
    pub(super) fn activate_registered(&mut self, event: &Event, now: Instant) {
        let waiting = self
            .queue
            .delayed_keys()
            .chain(self.queue.keys_in_processing());
        let helped: Vec<BindingKey> = waiting
            .filter(|key| {
                let Some(binding) = self.bindings.get(key) else {
                    return false;
                };
                let framework = self.frameworks.of(binding);
                framework.is_some_and(|framework| framework.points.may_help(binding, event))
            })
            .cloned()
            .collect();
        for key in helped {
            self.queue.activate(&key, now);
        }
    }
}
