//! The wrapper of every call of a plugin: it notifies the observer, and converts a panic of the plugin to an error that
//! names the plugin.
//!
//! Panics are caught once for each attempt, because this is cheaper than once for each call. After a panic, the engine
//! discards the whole attempt.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Engine;
use super::plugin_lists::ListedPlugin;
use super::trace::Trace;
use crate::error::ScheduleError;
use crate::framework::{PluginError, Point, Status};

/// The plugin calls of one attempt. The fields record which extension point and which plugin are running.
#[derive(Debug)]
pub(super) struct Calls<'a, T> {
    pub(super) trace: &'a mut T,
    /// The running extension point.
    open: Option<Point>,
    /// The running plugin: its extension point, and its index in the list of the point.
    current: Option<(Point, usize)>,
}

impl<'a, T: Trace> Calls<'a, T> {
    pub(super) fn new(trace: &'a mut T) -> Self {
        Self {
            trace,
            open: None,
            current: None,
        }
    }

    /// Calls a plugin at a point where plugins cannot skip the attempt.
    #[inline]
    pub(super) fn call<P, R>(
        &mut self,
        point: Point,
        index: usize,
        listed: &ListedPlugin<P>,
        call: impl FnOnce(&P) -> Result<R, PluginError>,
    ) -> Result<R, PluginError> {
        self.call_skipping(point, index, listed, |_| false, call)
    }

    /// Calls a plugin. `skips` reports whether a result means that the plugin skips this attempt.
    #[inline]
    pub(super) fn call_skipping<P, R>(
        &mut self,
        point: Point,
        index: usize,
        listed: &ListedPlugin<P>,
        skips: impl Fn(&R) -> bool,
        call: impl FnOnce(&P) -> Result<R, PluginError>,
    ) -> Result<R, PluginError> {
        if self.trace.observes_plugins() {
            self.trace.plugin_begins(point, &listed.name);
        }
        self.begin_call(point, index);
        let result = call(&listed.plugin);
        self.current = None;
        let result = result.map_err(|error| error.of(&listed.name, point));
        if self.trace.observes_plugins() {
            let status = match &result {
                Ok(answer) if skips(answer) => Status::Skip,
                Ok(_) => Status::Success,
                Err(error) => status_of(error),
            };
            self.trace.plugin_ends(point, &listed.name, status);
        }
        result
    }

    /// Records that a plugin is running, so that the engine attributes a panic to this plugin.
    pub(super) fn begin_call(&mut self, point: Point, index: usize) {
        self.current = Some((point, index));
    }

    /// Records that no plugin is running.
    pub(super) fn end_call(&mut self) {
        self.current = None;
    }

    /// Runs an extension point, and notifies the observer of its start and end.
    #[inline]
    pub(super) fn point<R>(
        &mut self,
        point: Point,
        run: impl FnOnce(&mut Self) -> Result<R, ScheduleError>,
    ) -> Result<R, ScheduleError> {
        self.open = Some(point);
        self.trace.point_begins(point);
        let result = run(self);
        let status = match &result {
            Ok(_) => Status::Success,
            Err(ScheduleError::NoFit(_)) => Status::Unschedulable,
            Err(ScheduleError::Plugin(error)) => status_of(error),
        };
        self.trace.point_ends(point, status);
        self.open = None;
        result
    }
}

/// Runs an attempt, and converts a panic of a plugin to an error of this plugin. Other panics propagate.
pub(super) fn catch_panics<T: Trace, R>(
    engine: &mut Engine,
    trace: &mut T,
    run: impl FnOnce(&mut Engine, &mut Calls<'_, T>) -> Result<R, ScheduleError>,
) -> Result<R, ScheduleError> {
    let mut calls = Calls::new(trace);
    // Unwinding is safe: a panic leaves incomplete state only in the plugin and in the attempt, and the attempt is
    // discarded.
    let payload = match catch_unwind(AssertUnwindSafe(|| run(engine, &mut calls))) {
        Ok(result) => return result,
        Err(payload) => payload,
    };
    let Calls {
        trace,
        open,
        current,
    } = calls;
    let Some((point, index)) = current else {
        resume_unwind(payload)
    };
    let error = PluginError::panicked(&*payload);
    let Some(name) = engine.plugins.name(point, index) else {
        return Err(error.into());
    };
    if trace.observes_plugins() {
        trace.plugin_ends(point, name, Status::Error);
    }
    if let Some(open) = open {
        trace.point_ends(open, Status::Error);
    }
    Err(error.of(name, point).into())
}

fn status_of(error: &PluginError) -> Status {
    if error.is_unschedulable() {
        Status::Unschedulable
    } else {
        Status::Error
    }
}
