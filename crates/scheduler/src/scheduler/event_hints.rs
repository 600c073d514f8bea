//! Requeueing of the bindings whose cycles plugins stopped: at the request of plugins, and after events for which
//! plugins have registered (EventsToRegister).

use std::cell::RefCell;
use std::time::Instant;

use berth_api::BindingKey;

use super::bindings::Bindings;
use super::configurations::Configurations;
use crate::framework::Event;
use crate::queue::Queue;

/// Activates these bindings and the bindings that Follow plugins return, and updates their ranks. Without a queue, only
/// notifies the Follow plugins of the bindings.
pub(super) fn requeue_for_plugins(
    config: &Configurations,
    bindings: &Bindings,
    mut queue: Option<&mut Queue>,
    keys: &[BindingKey],
    now: Instant,
) {
    let mut all: Vec<BindingKey> = keys.to_vec();
    for framework in config.frameworks.iter() {
        let refreshed = RefCell::new(Vec::new());
        let points = &framework.points;
        points.follow(|follow| refreshed.borrow_mut().extend(follow.refresh()));
        all.append(&mut refreshed.into_inner());
    }
    for key in &all {
        let Some(binding) = bindings.get(key) else {
            continue;
        };
        config.notify_followers(binding);
        if let Some(queue) = queue.as_deref_mut() {
            queue.rerank(key, config.frameworks.rank(binding));
            queue.activate(key, now);
        }
    }
}

/// Activates the bindings that an event may help, according to their plugins. Bindings in processing are included,
/// because their cycles may still fail.
pub(super) fn activate_registered(
    config: &Configurations,
    bindings: &Bindings,
    queue: &mut Queue,
    event: &Event,
    now: Instant,
) {
    let waiting = queue.delayed_keys().chain(queue.keys_in_processing());
    let helped: Vec<BindingKey> = waiting
        .filter(|key| {
            let Some(binding) = bindings.get(key) else {
                return false;
            };
            let framework = config.frameworks.of(binding);
            framework.is_some_and(|framework| framework.points.may_help(binding, event))
        })
        .cloned()
        .collect();
    for key in helped {
        queue.activate(&key, now);
    }
}
