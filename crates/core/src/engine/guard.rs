//! Calls of plugins: a panic becomes an error that names the plugin, and observers hear of the call.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::roster::Listed;
use super::trace::Trace;
use crate::error::ScheduleError;
use crate::framework::{PluginError, Point, Status};

/// Calls a plugin.
pub(super) fn call<T: Trace, P, R>(
    trace: &mut T,
    point: Point,
    listed: &Listed<P>,
    call: impl FnOnce(&P) -> Result<R, PluginError>,
) -> Result<R, PluginError> {
    let skips = |_: &R| false;
    call_skipping(trace, point, listed, skips, call)
}

/// Calls a plugin that may have nothing to do.
pub(super) fn call_skipping<T: Trace, P, R>(
    trace: &mut T,
    point: Point,
    listed: &Listed<P>,
    skips: impl Fn(&R) -> bool,
    call: impl FnOnce(&P) -> Result<R, PluginError>,
) -> Result<R, PluginError> {
    if trace.times_plugins() {
        trace.plugin_begins(point, &listed.name);
    }
    // What a plugin leaves half done is its own, or belongs to a cycle that is given up.
    let result = match catch_unwind(AssertUnwindSafe(|| call(&listed.plugin))) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.of(&listed.name, point)),
        Err(payload) => Err(panicked(payload, &listed.name, point)),
    };
    if trace.times_plugins() {
        let status = match &result {
            Ok(answer) if skips(answer) => Status::Skip,
            Ok(_) => Status::Success,
            Err(error) => status_of(error),
        };
        trace.plugin_ends(point, &listed.name, status);
    }
    result
}

#[cold]
pub(super) fn panicked(
    payload: Box<dyn Any + Send>,
    plugin: &Arc<str>,
    point: Point,
) -> PluginError {
    PluginError::panicked(&*payload).of(plugin, point)
}

/// Runs a point, and tells observers when it begins and ends.
pub(super) fn point<T: Trace, R>(
    trace: &mut T,
    point: Point,
    run: impl FnOnce(&mut T) -> Result<R, ScheduleError>,
) -> Result<R, ScheduleError> {
    trace.point_begins(point);
    let result = run(trace);
    let status = match &result {
        Ok(_) => Status::Success,
        Err(ScheduleError::NoFit(_)) => Status::Unschedulable,
        Err(ScheduleError::Plugin(error)) => status_of(error),
    };
    trace.point_ends(point, status);
    result
}

fn status_of(error: &PluginError) -> Status {
    if error.is_unschedulable() {
        Status::Unschedulable
    } else {
        Status::Error
    }
}
