//! The trace exporter: its start, and the flush of the last spans.

use std::sync::OnceLock;
use std::time::Duration;

use berth_https_client::tls::TlsError;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;

use crate::collector_client::CollectorClient;
use crate::flags::TracingArgs;

/// Time limit for the export of the last spans when a process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// An error of the start of the trace exporter.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The endpoint is not an HTTP URL.
    #[error(
        "--tracing-endpoint {0:?} is not an http:// or https:// URL, such as http://127.0.0.1:4318"
    )]
    Endpoint(String),
    /// The system's certificate authorities cannot be read.
    #[error("cannot read the certificate authorities for --tracing-endpoint: {}", .0.cause())]
    Authorities(#[from] TlsError),
    /// The exporter rejects its settings.
    #[error("cannot export traces: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// The trace export of the process, or nothing if no endpoint is set. [`Self::finish`] sends the last spans.
#[derive(Debug)]
#[must_use = "`finish` sends the last spans"]
pub struct Export(Option<SdkTracerProvider>);

/// Reports whether spans are recorded in this process.
pub fn is_enabled() -> bool {
    TRACER.get().is_some()
}

pub(crate) fn tracer() -> Option<&'static SdkTracer> {
    TRACER.get()
}

/// Starts the export of spans if an endpoint is set. `service` becomes the resource attribute `service.name`. Only the
/// exporter of the first call with an endpoint receives spans.
///
/// # Errors
/// When the endpoint is not an HTTP URL, or when the HTTP client or the exporter cannot be created.
///
/// # Panics
/// When called with an endpoint outside a tokio runtime.
pub fn start(
    args: &TracingArgs,
    service: &'static str,
    version: &'static str,
) -> Result<Export, ExportError> {
    let Some(endpoint) = args
        .tracing_endpoint
        .as_deref()
        .filter(|url| !url.is_empty())
    else {
        return Ok(Export(None));
    };
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(CollectorClient::new(Handle::current())?)
        .with_endpoint(traces_url(endpoint)?)
        .build()?;
    let rate = f64::from(args.tracing_sampling_rate_per_million) / 1_000_000.0;
    let resource = Resource::builder()
        .with_service_name(service)
        .with_attribute(KeyValue::new("service.version", version))
        .build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
            rate,
        ))))
        .with_resource(resource)
        .build();
    let _ = TRACER.set(provider.tracer("berth"));
    tracing::info!(endpoint, "tracing");
    Ok(Export(Some(provider)))
}

/// Returns the URL to which spans are sent: the base URL followed by `/v1/traces`, as in the OTLP specification.
fn traces_url(endpoint: &str) -> Result<String, ExportError> {
    let invalid = || ExportError::Endpoint(endpoint.to_owned());
    let url: http::Uri = endpoint.parse().map_err(|_| invalid())?;
    match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(_)) => {}
        _ => return Err(invalid()),
    }
    Ok(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
}

impl Export {
    /// Sends the last spans. Waits for at most three seconds.
    pub async fn finish(self) {
        let Some(provider) = self.0 else { return };
        // The shutdown blocks its thread until the exporter's thread has ended.
        let ended =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIMEOUT));
        if let Ok(Err(error)) = ended.await {
            tracing::warn!(%error, "the last spans may be lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_base_url() {
        for (endpoint, expected) in [
            (
                "http://127.0.0.1:4318",
                Some("http://127.0.0.1:4318/v1/traces"),
            ),
            (
                "https://otel.example/",
                Some("https://otel.example/v1/traces"),
            ),
            (
                "https://otel.example/a",
                Some("https://otel.example/a/v1/traces"),
            ),
            ("127.0.0.1:4318", None),
            ("grpc://127.0.0.1:4317", None),
            ("nonsense", None),
        ] {
            assert_eq!(traces_url(endpoint).ok().as_deref(), expected, "{endpoint}");
        }
    }
}
