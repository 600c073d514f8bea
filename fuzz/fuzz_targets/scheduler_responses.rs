//! A fuzz target for the responses that the scheduler decodes: responses of extenders in JSON, and responses of
//! estimators in protobuf. An input is the body of a response. No input may cause a panic.

#![no_main]

use berth_estimator_protocol::wire::pb;
use berth_scheduler::decode_extender_response;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|input: &[u8]| {
    decode_extender_response(input);
    let _ = pb::MaxAvailableReplicasResponse::decode(input);
    let _ = pb::MaxAvailableComponentSetsResponse::decode(input);
    let _ = pb::UnschedulableReplicasResponse::decode(input);
});
