//! Responses of extenders, in JSON, and of estimators, in protobuf.

#![no_main]

use berth_scheduler::estimator::wire::pb;
use berth_scheduler::extender::fuzzing::decode_response;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|input: &[u8]| {
    decode_response(input);
    let _ = pb::MaxAvailableReplicasResponse::decode(input);
    let _ = pb::MaxAvailableComponentSetsResponse::decode(input);
    let _ = pb::UnschedulableReplicasResponse::decode(input);
});
