//! A program that generates the Rust code for the protocol of estimators. It compiles
//! `crates/estimator-protocol/proto` into the given folder.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const PACKAGE: &str = "github.com.karmada_io.karmada.pkg.estimator";

fn main() -> Result<(), Box<dyn Error>> {
    let out: PathBuf = env::args_os().nth(1).ok_or("usage: estimator-protocol FOLDER")?.into();
    let files = protox::compile(["service.proto"], ["crates/estimator-protocol/proto"])?;
    tonic_prost_build::configure()
        // Maps are ordered, so that equal messages have equal bytes.
        .btree_map(".")
        .build_transport(false)
        .out_dir(&out)
        .compile_fds(files)?;
    for module in ["pb", "service"] {
        fs::rename(out.join(format!("{PACKAGE}.{module}.rs")), out.join(format!("{module}.rs")))?;
    }
    Ok(())
}
