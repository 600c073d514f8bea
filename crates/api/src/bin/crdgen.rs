//! A program that generates Karmada's CustomResourceDefinitions. `crdgen DIR` writes the files to the folder `DIR`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: crdgen DIR");
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(count) => {
            println!("wrote {count} definitions to {}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &std::path::Path) -> Result<usize, Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder)?;
    let files = berth_api::crds::files()?;
    for (name, text) in &files {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(files.len())
}
