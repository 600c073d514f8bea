//! Flags of the decision log, and the options that result from them.

use std::num::NonZeroU32;
use std::path::PathBuf;

use berth_api::quantity::Quantity;
use clap::Args;

/// Minimum of `--decision-log-max-bytes`. Each file starts with all clusters, so a smaller file would contain few
/// decisions.
const MIN_BYTES: u64 = 64 * 1024;

/// Flags of the decision log.
#[derive(Args, Clone, Debug)]
pub struct DecisionLogFlags {
    /// Folder for a log of all decisions, which berth replay reads [default: no log]
    #[arg(long, value_name = "DIR")]
    pub decision_log: Option<PathBuf>,

    /// Maximum compressed size of each file of the decision log, such as 64Mi
    #[arg(long, value_name = "BYTES", default_value = "64Mi", value_parser = bytes)]
    pub decision_log_max_bytes: u64,

    /// Maximum files of the decision log; the oldest is deleted first
    #[arg(long, value_name = "N", default_value = "16")]
    pub decision_log_max_files: NonZeroU32,
}

impl DecisionLogFlags {
    /// Returns the options, or `None` if the log is off.
    pub fn options(self) -> Option<DecisionLogOptions> {
        Some(DecisionLogOptions {
            folder: self.decision_log?,
            max_bytes: self.decision_log_max_bytes,
            max_files: self.decision_log_max_files.get(),
        })
    }
}

/// Location and bounds of a decision log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionLogOptions {
    /// The folder. It is created if it does not exist.
    pub folder: PathBuf,
    /// The compressed size at which the next file is started.
    pub max_bytes: u64,
    /// The maximum number of files.
    pub max_files: u32,
}

fn bytes(text: &str) -> Result<u64, String> {
    let quantity = Quantity::parse(text).map_err(|error| error.to_string())?;
    let bytes = u64::try_from(quantity.value()).unwrap_or(0);
    if bytes < MIN_BYTES {
        return Err(format!("must be at least {}Ki", MIN_BYTES / 1024));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_quantities_of_at_least_64_ki() {
        assert_eq!(bytes("64Mi"), Ok(64 * 1024 * 1024));
        assert_eq!(bytes("65536"), Ok(65536));
        for refused in ["1Ki", "-1", "much"] {
            assert!(bytes(refused).is_err(), "{refused}");
        }
    }
}
