//! EventsToRegister: changes wake the bindings that plugins have stopped and that they may help.

use std::sync::Arc;
use std::time::Instant;

use super::Owner;
use crate::binding::{Binding, BindingKey};
use crate::framework::{Event, EventKind};

impl Owner {
    /// Whether a plugin wants to know of such changes.
    pub(super) fn is_registered(&self, kind: EventKind) -> bool {
        self.frameworks
            .iter()
            .any(|framework| framework.points.registered(kind))
    }

    /// A plugin knows more of these bindings than before.
    pub(super) fn look_again_at(&mut self, keys: &[BindingKey], now: Instant) {
        let mut all: Vec<BindingKey> = keys.to_vec();
        for framework in self.frameworks.iter() {
            let news = std::cell::RefCell::new(Vec::new());
            let points = &framework.points;
            points.follow(|follow| news.borrow_mut().extend(follow.refresh()));
            all.append(&mut news.into_inner());
        }
        for key in &all {
            if let Some(entry) = self.bindings.get(key) {
                let binding = Arc::clone(&entry.binding);
                self.followed(&binding);
                self.queue.rerank(key, self.frameworks.rank(&binding));
                self.queue.wake(key, now);
            }
        }
    }

    /// Tells the plugins that follow bindings of one.
    pub(super) fn followed(&self, binding: &Binding) {
        for framework in self.frameworks.iter() {
            framework.points.follow(|follow| follow.present(binding));
        }
    }

    /// Tells the plugins that follow bindings that one is gone.
    pub(super) fn unfollowed(&self, key: &BindingKey) {
        for framework in self.frameworks.iter() {
            framework.points.follow(|follow| follow.gone(key));
        }
    }

    /// Wakes the bindings that sleep, or are about to, and that a change may help.
    pub(super) fn wake_registered(&mut self, event: &Event, now: Instant) {
        let helped: Vec<_> = self
            .queue
            .sleepers()
            .chain(self.queue.in_processing())
            .filter(|key| {
                let Some(entry) = self.bindings.get(*key) else {
                    return false;
                };
                let points = self
                    .frameworks
                    .of(&entry.binding)
                    .map(|framework| Arc::clone(&framework.points));
                points.is_some_and(|points| points.may_help(&entry.binding, event))
            })
            .cloned()
            .collect();
        for key in helped {
            self.queue.wake(&key, now);
        }
    }
}
