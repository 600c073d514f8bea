//! Families of counters, gauges and histograms, and structs of families.

use std::hash::Hash;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

/// A gauge with a floating-point value.
pub type FloatGauge = Gauge<f64, AtomicU64>;
/// A family of counters.
pub type Counters<L> = Family<L, Counter>;
/// A family of gauges.
pub type Gauges<L> = Family<L, FloatGauge>;
/// A family of histograms of durations.
pub type Histograms<L> = Family<L, Histogram>;

/// The labels of a family whose only series has no labels. Unlike a metric without a family, the series does not exist
/// before its first observation.
pub type NoLabels = [(&'static str, &'static str); 0];

/// A family that records durations.
pub trait Observe<L> {
    /// Adds a duration to the histogram with these labels.
    fn observe(&self, labels: &L, duration: Duration);
}

impl<L: Clone + Eq + Hash> Observe<L> for Histograms<L> {
    fn observe(&self, labels: &L, duration: Duration) {
        let histogram = self.get_or_create(labels);
        histogram.observe(duration.as_secs_f64());
    }
}

/// Declares a struct of metric families, with its `Default` and a method `register`.
///
/// The doc comment of a field is the help text of the family, in one line. The name of the metric follows the type, and
/// the bounds of the buckets of a histogram follow the name.
#[macro_export]
macro_rules! families {
    (@new) => { Default::default() };
    (@new $bounds:expr) => {
        $crate::Family::new_with_constructor(|| $crate::Histogram::new($bounds))
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $(
                #[doc = $help:literal]
                $field_visibility:vis $field:ident: $family:ty = $metric:literal $(, $bounds:expr)?;
            )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        $visibility struct $name {
            $(#[doc = $help] $field_visibility $field: $family,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::families!(@new $($bounds)?),)* }
            }
        }

        impl $name {
            /// Registers the families.
            $visibility fn register(&self, registry: &mut $crate::Registry) {
                $(registry.register($metric, $help.trim_start(), self.$field.clone());)*
            }
        }
    };
}
