//! The configuration at start: found, made into frameworks, logged and shown.

use super::config_map;
use super::effective::Effective;
use crate::framework::assembly::{Assembly, Lineup};
use crate::options::Options;
use crate::service::ServiceError;

/// Makes what is declared, by flags, a file or a ConfigMap; the text of the ConfigMap comes with it.
///
/// # Errors
/// When the ConfigMap cannot be read, or anything that is declared is wrong.
pub(crate) async fn begin(
    options: &Options,
    assembly: &Assembly,
    effective: &Effective,
) -> Result<(Lineup, Option<String>), ServiceError> {
    let (declared, text) = match &options.config_map {
        Some(name) => config_map::read(&assembly.client, name, options.declared.flags()).await?,
        None => (options.declared.clone(), None),
    };
    let lineup = assembly.assemble(&declared)?;
    effective.set(lineup.profiles.clone(), declared.extenders().to_vec());
    tracing::info!("Using component config\n{}", effective.yaml());
    Ok((lineup, text))
}
