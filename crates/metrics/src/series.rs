//! Families whose series are known when the families are registered.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// The metrics of a family, each with its labels: metrics with fixed label values, or values that are computed when a
/// client reads `/metrics`.
#[derive(Debug)]
pub struct Series<L, M>(Vec<(L, M)>);

impl<L, M> Series<L, M> {
    /// Returns a family with these series.
    pub fn new(series: impl IntoIterator<Item = (L, M)>) -> Self {
        Self(series.into_iter().collect())
    }
}

impl<L: EncodeLabelSet, M: EncodeMetric + TypedMetric> EncodeMetric for Series<L, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, metric) in &self.0 {
            metric.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
