//! OpenTelemetry traces: one trace from the policy through the decision into the members.
//!
//! ```text
//! detector: apply_policy ──> scheduler: schedule ──> filter, score, select, assign, write
//!                       └──> binding controller: sync_works ──> execution controller, per cluster: apply_work
//! ```
//!
//! The trace context travels in the annotation `tracing.berth/traceparent` of bindings and Works, in the form of the W3C
//! header `traceparent`. Without [`TracingArgs::tracing_endpoint`] nothing is recorded and no annotation is written.
//!
//! | module | content |
//! |---|---|
//! | [`flags`](TracingArgs) | the flags of a component |
//! | [`export`](Export) | the exporter (OTLP over HTTP) and its end |
//! | [`span`](Span) | spans and their context |
//!
//! The crate knows no Kubernetes object and no component. Its state is the process-wide exporter.

mod collector_client;
mod export;
mod flags;
mod span;

pub use export::{Export, ExportError, is_enabled, start};
pub use flags::TracingArgs;
pub use span::{Span, TraceContext, TraceContextError, started_before};
