//! OpenTelemetry traces. A trace covers the way from a policy through the scheduling decision to the member clusters.
//!
//! ```text
//! detector: apply_policy ──> scheduler: schedule ──> filter, score, select, assign, write
//!                       └──> binding controller: sync_works ──> execution controller, per cluster: apply_work
//! ```
//!
//! The trace context is stored in the annotation `tracing.berth/traceparent` of bindings and Works, in the format of
//! the W3C header `traceparent`. Without [`TracingArgs::tracing_endpoint`], no spans are recorded and no annotation is
//! written.
//!
//! | module | content |
//! |---|---|
//! | [`flags`](TracingArgs) | the flags of a component |
//! | [`export`](Export) | the exporter (OTLP over HTTP): its start and its end |
//! | [`span`](Span) | spans, and the trace context that links spans |
//!
//! The crate must not know Kubernetes objects and components. Its only state is the exporter of the process.

mod collector_client;
mod export;
mod flags;
mod span;

pub use export::{Export, ExportError, is_enabled, start};
pub use flags::TracingArgs;
pub use span::{Span, TraceContext, TraceContextError, started_before};
