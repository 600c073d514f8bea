//! Spans, and the trace context that links spans of different processes. The text form of the context is the W3C header
//! `traceparent`.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
    Tracer as _,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::Span as SdkSpan;

use crate::export::tracer;

/// The context of a span: the IDs of the trace and of the span, and the flag for a sampled trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceContext(SpanContext);

/// An error of parsing a trace context: the text is not a `traceparent` of version 00.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 00-<32 hexadecimal digits>-<16 hexadecimal digits>-<2 hexadecimal digits>")]
pub struct TraceContextError;

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = &self.0;
        write!(
            f,
            "00-{}-{}-{:02x}",
            context.trace_id(),
            context.span_id(),
            context.trace_flags().to_u8()
        )
    }
}

impl FromStr for TraceContext {
    type Err = TraceContextError;

    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        let is_hex = |part: &str, digits: usize| {
            part.len() == digits
                && part
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let parts: Vec<&str> = text.split('-').collect();
        let ["00", trace, span, flags] = parts.as_slice() else {
            return Err(TraceContextError);
        };
        if !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
            return Err(TraceContextError);
        }
        let (Ok(trace), Ok(span), Ok(flags)) = (
            TraceId::from_hex(trace),
            SpanId::from_hex(span),
            u8::from_str_radix(flags, 16),
        ) else {
            return Err(TraceContextError);
        };
        let flags = TraceFlags::new(flags) & TraceFlags::SAMPLED;
        let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
        if context.is_valid() {
            Ok(Self(context))
        } else {
            Err(TraceContextError)
        }
    }
}

/// Returns the start time of an operation that has run for `elapsed`.
pub fn started_before(elapsed: Duration) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(elapsed).unwrap_or(now)
}

/// A span, which ends when it is dropped. Without an exporter, the span records nothing.
#[derive(Debug, Default)]
pub struct Span(Option<SdkSpan>);

impl Span {
    /// Starts a span with the start time `start`. A span without a parent is the root of a new trace.
    pub fn start(name: &'static str, parent: Option<&TraceContext>, start: SystemTime) -> Self {
        let Some(tracer) = tracer() else {
            return Self(None);
        };
        let context = match parent {
            Some(TraceContext(parent)) => Context::new().with_remote_span_context(parent.clone()),
            None => Context::new(),
        };
        let builder = tracer.span_builder(name).with_start_time(start);
        Self(Some(tracer.build_with_context(builder, &context)))
    }

    /// Returns the context for child spans, or `None` if the trace is not recorded.
    pub fn context(&self) -> Option<TraceContext> {
        let context = self.0.as_ref()?.span_context();
        context.is_sampled().then(|| TraceContext(context.clone()))
    }

    /// Sets an attribute of the span.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(KeyValue::new(key, value.into()));
        }
    }

    /// Marks the span as failed with a message.
    pub fn fail(&mut self, message: impl fmt::Display) {
        if let Some(span) = &mut self.0 {
            span.set_status(Status::error(message.to_string()));
        }
    }

    /// Records a finished child span.
    pub fn record_child(&self, name: &'static str, start: SystemTime, duration: Duration) {
        let Some(context) = self.context() else {
            return;
        };
        if let Some(mut child) = Self::start(name, Some(&context), start).0 {
            child.end_with_timestamp(start + duration);
        }
    }

    /// Records a finished child span that started at `since` and ends now.
    pub fn record_child_since(&self, name: &'static str, since: Instant) {
        let duration = since.elapsed();
        self.record_child(name, started_before(duration), duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_parsed_from_its_text_form() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(text.parse::<TraceContext>().unwrap().to_string(), text);
    }

    #[test]
    fn malformed_contexts_are_refused() {
        for text in [
            "",
            "00",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(
                text.parse::<TraceContext>(),
                Err(TraceContextError),
                "{text}"
            );
        }
    }

    #[test]
    fn without_an_exporter_nothing_is_recorded() {
        let mut span = Span::start("schedule", None, SystemTime::now());
        span.set("binding", "a/b");
        span.fail("x");
        span.record_child_since("filter", Instant::now());
        assert_eq!(span.context(), None);
    }
}
