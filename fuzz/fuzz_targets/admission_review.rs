//! A fuzz target for requests to `berth webhook`. An input is the body of a request.
//!
//! No input may cause a panic. Each valid review gets a response with its UID and a decision.

#![no_main]

use berth_webhook::{AdmissionReview, Endpoint, NoExecuteTaints, decide};
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|input: &[u8]| -> Corpus {
    let Ok(review) = AdmissionReview::parse(input) else {
        return Corpus::Keep;
    };
    for endpoint in Endpoint::all() {
        let review_response = decide(endpoint, NoExecuteTaints::Denied, &review);
        assert!(
            review_response["response"]["uid"].is_string(),
            "{review_response}"
        );
        assert!(
            review_response["response"]["allowed"].is_boolean(),
            "{review_response}"
        );
    }
    Corpus::Keep
});
