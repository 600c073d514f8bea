//! The command `berth man`, which writes the manual pages.

use std::path::PathBuf;
use std::{fs, io};

use clap::{Args, Command};

use crate::output;

/// Flags of `berth man`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// Folder to write the pages to; it is created if it is missing
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  berth man man1 && man --local-file man1/berth-up.1    reads one page
  sudo berth man /usr/local/share/man/man1              installs the pages for every user";

/// Writes a manual page for the program and for each of its commands.
///
/// # Errors
/// Fails if the folder or a page cannot be written.
pub fn run(args: ManArgs, program: Command) -> io::Result<()> {
    fs::create_dir_all(&args.folder)?;
    clap_mangen::generate_to(program, &args.folder)?;
    let folder = args.folder.display();
    output::print(&format!("wrote the manual pages to {folder}\n"))
}
