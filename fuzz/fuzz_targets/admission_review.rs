//! Bodies of requests to `berth webhook`. An input is a body.
//!
//! No body may panic. Every review gets a response with its uid.

#![no_main]

use berth_webhook::{AdmissionReview, Endpoint, NoExecuteTaints, decide};
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|input: &[u8]| -> Corpus {
    let Ok(review) = AdmissionReview::parse(input) else {
        return Corpus::Keep;
    };
    for endpoint in Endpoint::all() {
        let answer = decide(endpoint, NoExecuteTaints::Denied, &review);
        assert!(answer["response"]["uid"].is_string(), "{answer}");
        assert!(answer["response"]["allowed"].is_boolean(), "{answer}");
    }
    Corpus::Keep
});
