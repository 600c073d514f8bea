//! Calls of the plugins that run before and after a decision, in the order of the profile. The traits of the plugins
//! are in [`traits`](super::traits).
//!
//! Panics of plugins are caught, so that the process continues. Except in observers and event hints, a panic becomes an
//! error of the plugin.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use berth_api::Binding;
use berth_engine::{CycleState, PluginError, Point};
use futures::FutureExt;

use super::events::{Event, EventKind, Registration};
use super::traits::{
    Bind, Bound, Decided, Follow, Gate, Nomination, Permission, Permit, PostBind, PostFilter,
    PostFilterContext, PreBind, PreEnqueue, Reserve, Waiting,
};
use crate::metrics::{Metrics, PluginResult};
use crate::writer::Report;

/// A plugin at one extension point.
#[derive(Clone, Debug)]
pub(crate) struct Named<T: ?Sized> {
    pub(crate) name: Arc<str>,
    pub(crate) point: Arc<T>,
}

/// The plugins of a profile that run before and after a decision. The plugins at each extension point are in the order
/// of the profile.
#[derive(Debug, Default)]
pub(crate) struct ExtensionPoints {
    pub(crate) pre_enqueue: Vec<Named<dyn PreEnqueue>>,
    pub(crate) post_filter: Vec<Named<dyn PostFilter>>,
    pub(crate) reserve: Vec<Named<dyn Reserve>>,
    pub(crate) permit: Vec<Named<dyn Permit>>,
    pub(crate) pre_bind: Vec<Named<dyn PreBind>>,
    /// The plugins that may store a decision. The built-in writer stores the decisions that all these plugins skip.
    pub(crate) bind: Vec<Named<dyn Bind>>,
    pub(crate) post_bind: Vec<Named<dyn PostBind>>,
    /// Registered events that requeue waiting bindings, each with the name of the plugin.
    pub(crate) registrations: Vec<(Arc<str>, Registration)>,
    /// Plugins that observe all bindings.
    pub(crate) follow: Vec<Named<dyn Follow>>,
    pub(crate) metrics: Metrics,
}

/// The reason why a PreEnqueue plugin gates a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gated {
    /// The plugin cannot decide yet. The plugin requeues the binding when it can decide.
    NotKnown,
    /// The plugin returned a reason or failed.
    Because(PluginError),
}

impl ExtensionPoints {
    /// Reports whether the profile has a Reserve, Permit, PreBind, Bind or PostBind plugin.
    pub(crate) fn take_part_in_writes(&self) -> bool {
        !(self.reserve.is_empty()
            && self.permit.is_empty()
            && self.pre_bind.is_empty()
            && self.bind.is_empty()
            && self.post_bind.is_empty())
    }

    /// Calls `notify` for every plugin that observes bindings.
    pub(crate) fn follow(&self, notify: impl Fn(&dyn Follow)) {
        for plugin in &self.follow {
            if catch_unwind(AssertUnwindSafe(|| notify(&*plugin.point))).is_err() {
                tracing::error!(
                    plugin = &*plugin.name,
                    "a plugin that observes bindings panicked"
                );
            }
        }
    }

    /// Returns the result of the first PreEnqueue plugin that gates the binding, or `None` if no plugin gates the
    /// binding.
    pub(crate) fn gate(&self, binding: &Binding) -> Option<Gated> {
        if self.pre_enqueue.is_empty() {
            return None;
        }
        let began = Instant::now();
        let gate = self.first_gate(binding);
        let error = match &gate {
            Some(Gated::Because(error)) => Some(error),
            Some(Gated::NotKnown) | None => None,
        };
        self.point_ran(Point::PreEnqueue, began, error);
        gate
    }

    fn first_gate(&self, binding: &Binding) -> Option<Gated> {
        self.pre_enqueue.iter().find_map(|plugin| {
            let gate = self.run(&plugin.name, Point::PreEnqueue, || {
                plugin.point.pre_enqueue(binding)
            });
            match gate {
                Ok(Gate::Open) => None,
                Ok(Gate::NotKnown) => Some(Gated::NotKnown),
                Ok(Gate::Closed(why)) => {
                    let error = PluginError::unschedulable(why);
                    Some(Gated::Because(error.of(&plugin.name, Point::PreEnqueue)))
                }
                Err(error) => Some(Gated::Because(error)),
            }
        })
    }

    /// Calls the PostFilter plugins until a plugin returns a nomination. Plugins that fail are skipped.
    ///
    /// # Errors
    /// When no plugin returns a nomination and a plugin failed. The error is the error of the first failed plugin.
    pub(crate) fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        state: &mut CycleState,
    ) -> Result<Option<(Arc<str>, Nomination)>, PluginError> {
        if self.post_filter.is_empty() {
            return Ok(None);
        }
        let began = Instant::now();
        let nominated = self.first_nomination(context, state);
        self.point_ran(Point::PostFilter, began, nominated.as_ref().err());
        nominated
    }

    fn first_nomination(
        &self,
        context: &mut PostFilterContext<'_>,
        state: &mut CycleState,
    ) -> Result<Option<(Arc<str>, Nomination)>, PluginError> {
        let mut failed = None;
        for plugin in &self.post_filter {
            let nomination = self.try_run(&plugin.name, Point::PostFilter, || {
                plugin.point.post_filter(context, state)
            });
            match nomination {
                Ok(Some(nomination)) => return Ok(Some((Arc::clone(&plugin.name), nomination))),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(binding = %context.binding.key, %error, "preemption failed");
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Calls the Reserve plugins in order, and stops at the first error. If this function or a later step fails, the
    /// caller reverts the reservations with [`Self::unreserve`].
    pub(crate) fn reserve(
        &self,
        decided: &Decided,
        state: &mut CycleState,
    ) -> Result<(), PluginError> {
        if self.reserve.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let reserved = self.reserve.iter().try_for_each(|plugin| {
            self.try_run(&plugin.name, Point::Reserve, || {
                plugin.point.reserve(decided, state)
            })
        });
        self.point_ran(Point::Reserve, began, reserved.as_ref().err());
        reserved
    }

    /// Calls `unreserve` of all Reserve plugins, in reverse order.
    pub(crate) fn unreserve(&self, decided: &Decided, state: &mut CycleState) {
        for plugin in self.reserve.iter().rev() {
            let done = self.run(&plugin.name, Point::Reserve, || {
                plugin.point.unreserve(decided, state);
            });
            if let Err(error) = done {
                tracing::error!(binding = %decided.binding.key, %error, "Unreserve failed");
            }
        }
    }

    /// Calls one Permit plugin.
    pub(crate) fn permit(
        &self,
        plugin: &Named<dyn Permit>,
        decided: &Decided,
        state: &mut CycleState,
        waiting: &mut Waiting<'_>,
    ) -> Result<Permission, PluginError> {
        self.run(&plugin.name, Point::Permit, || {
            plugin.point.permit(decided, state, waiting)
        })
    }

    /// Notifies a Permit plugin that a parked decision is rejected.
    pub(crate) fn rejected(
        &self,
        plugin: &Named<dyn Permit>,
        binding: &Binding,
        waiting: &mut Waiting<'_>,
    ) {
        let notified = self.run(&plugin.name, Point::Permit, || {
            plugin.point.rejected(binding, waiting);
        });
        if let Err(error) = notified {
            tracing::error!(binding = %binding.key, %error, "a plugin failed to handle a rejection");
        }
    }

    /// Calls all PreBind plugins, and then the Bind plugins until a plugin has stored the decision.
    pub(crate) async fn bind(
        &self,
        decided: &Decided,
        state: &mut CycleState,
    ) -> Result<Bound, PluginError> {
        if !self.pre_bind.is_empty() {
            let began = Instant::now();
            let ran = self.every_pre_bind(decided, state).await;
            self.point_ran(Point::PreBind, began, ran.as_ref().err());
            ran?;
        }
        if self.bind.is_empty() {
            return Ok(Bound::Skip);
        }
        let began = Instant::now();
        let bound = self.first_bind(decided, state).await;
        self.point_ran(Point::Bind, began, bound.as_ref().err());
        bound
    }

    async fn every_pre_bind(
        &self,
        decided: &Decided,
        state: &mut CycleState,
    ) -> Result<(), PluginError> {
        for plugin in &self.pre_bind {
            let ran = async { plugin.point.pre_bind(decided, state).await };
            self.run_async(&plugin.name, Point::PreBind, ran).await?;
        }
        Ok(())
    }

    async fn first_bind(
        &self,
        decided: &Decided,
        state: &mut CycleState,
    ) -> Result<Bound, PluginError> {
        for plugin in &self.bind {
            let ran = async { plugin.point.bind(decided, state).await };
            if self.run_async(&plugin.name, Point::Bind, ran).await? == Bound::Stored {
                return Ok(Bound::Stored);
            }
        }
        Ok(Bound::Skip)
    }

    /// Notifies every PostBind plugin that the decision is stored.
    pub(crate) async fn post_bind(
        &self,
        decided: &Decided,
        state: &mut CycleState,
        report: &Report,
    ) {
        if self.post_bind.is_empty() {
            return;
        }
        let began = Instant::now();
        let mut failed = None;
        for plugin in &self.post_bind {
            let ran = async {
                plugin.point.post_bind(decided, state, report).await;
                Ok(())
            };
            if let Err(error) = self.run_async(&plugin.name, Point::PostBind, ran).await {
                tracing::error!(binding = %decided.binding.key, %error, "PostBind failed");
                failed = Some(error);
            }
        }
        self.point_ran(Point::PostBind, began, failed.as_ref());
    }

    /// Reports whether a plugin has registered events of this type.
    pub(crate) fn registered(&self, kind: EventKind) -> bool {
        self.registrations
            .iter()
            .any(|(_, registration)| registration.kind == kind)
    }

    /// Reports whether an event may make a waiting binding schedulable. Returns true if a hint function panics.
    pub(crate) fn may_help(&self, binding: &Binding, event: &Event) -> bool {
        self.registrations.iter().any(|(plugin, registration)| {
            catch_unwind(AssertUnwindSafe(|| registration.helps(binding, event))).unwrap_or_else(
                |panic| {
                    let error = PluginError::panicked(&*panic);
                    tracing::error!(binding = %binding.key, %plugin, %error, "the event hint of a plugin panicked; requeuing the binding");
                    true
                },
            )
        })
    }

    /// Records the duration and the result of an extension point.
    pub(crate) fn point_ran(&self, point: Point, began: Instant, error: Option<&PluginError>) {
        self.metrics
            .extension_point(point, result_of(error), began.elapsed());
    }

    /// Calls a plugin whose method returns no error. A panic is returned as an error.
    fn run<T>(
        &self,
        plugin: &Arc<str>,
        point: Point,
        call: impl FnOnce() -> T,
    ) -> Result<T, PluginError> {
        self.try_run(plugin, point, || Ok(call()))
    }

    fn try_run<T>(
        &self,
        plugin: &Arc<str>,
        point: Point,
        call: impl FnOnce() -> Result<T, PluginError>,
    ) -> Result<T, PluginError> {
        let began = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(call))
            .unwrap_or_else(|panic| Err(PluginError::panicked(&*panic)));
        self.ran(plugin, point, began, result)
    }

    async fn run_async<T>(
        &self,
        plugin: &Arc<str>,
        point: Point,
        call: impl Future<Output = Result<T, PluginError>> + Send,
    ) -> Result<T, PluginError> {
        let began = Instant::now();
        let result = AssertUnwindSafe(call)
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(PluginError::panicked(&*panic)));
        self.ran(plugin, point, began, result)
    }

    /// Records the metrics of a call, and adds the names of the plugin and the extension point to its error.
    fn ran<T>(
        &self,
        plugin: &Arc<str>,
        point: Point,
        began: Instant,
        result: Result<T, PluginError>,
    ) -> Result<T, PluginError> {
        self.metrics.plugin(
            plugin,
            point,
            result_of(result.as_ref().err()),
            began.elapsed(),
        );
        result.map_err(|error| error.of(plugin, point))
    }
}

fn result_of(error: Option<&PluginError>) -> PluginResult {
    match error {
        None => PluginResult::Success,
        Some(error) if error.is_unschedulable() => PluginResult::Unschedulable,
        Some(_) => PluginResult::Error,
    }
}
