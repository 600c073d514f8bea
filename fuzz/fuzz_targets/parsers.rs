//! A fuzz target for the parsers of short texts: quantities, label keys and values, JSONPath templates and trace
//! contexts. An input is such a text.
//!
//! No input may cause a panic. A trace context that is printed and parsed again does not change.

#![no_main]

use berth_apimachinery::jsonpath;
use berth_apimachinery::label_selector::{validate_label_key, validate_label_value};
use berth_apimachinery::quantity::Quantity;
use berth_telemetry::TraceContext;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|text: &str| {
    if let Ok(quantity) = Quantity::parse(text) {
        let _ = (quantity.value(), quantity.milli_value());
        let _ = quantity.times(7).ratio(quantity);
    }
    let _ = validate_label_key(text);
    let _ = validate_label_value(text);
    let document = json!({ "a": [1, { "b": "x" }], "metadata": { "labels": { "k.io/v": "w" } } });
    let _ = jsonpath::render(text, &document);
    if let Ok(context) = text.parse::<TraceContext>() {
        assert_eq!(context.to_string().parse(), Ok(context));
    }
});
