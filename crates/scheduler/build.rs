//! Compiles the protocol of the estimator. No `protoc` is needed: protox parses, prost generates.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["service.proto"], ["proto"])?;
    tonic_prost_build::configure()
        // Ordered maps, so that the same question always has the same bytes.
        .btree_map(".")
        .build_transport(false)
        .compile_fds(files)?;
    Ok(())
}
