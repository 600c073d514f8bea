//! How estimators are reached: the flags, and the checked options that come of them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::well_known::NAMESPACE_SYSTEM;
use clap::Args;

use crate::go_duration::go_duration;

/// How old an answer may be that stands in for one that did not come.
const ANSWERS_MAX_AGE: Duration = Duration::from_mins(5);

/// Flags about accurate estimators.
#[derive(Args, Clone, Debug)]
pub struct EstimatorArgs {
    /// Ask the accurate estimators of the member clusters how many replicas fit
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_scheduler_estimator: bool,

    /// Do not ask the estimators of clusters in pull mode
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub disable_scheduler_estimator_in_pull_mode: bool,

    /// How long the answers of all estimators are waited for
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "3s",
        allow_hyphen_values = true
    )]
    pub scheduler_estimator_timeout: String,

    /// Namespace of the estimators' Services
    #[arg(long, value_name = "NAMESPACE", default_value = NAMESPACE_SYSTEM)]
    pub scheduler_estimator_service_namespace: String,

    /// Names of the estimators' Services, up to the dash before the cluster's name
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "karmada-scheduler-estimator"
    )]
    pub scheduler_estimator_service_prefix: String,

    /// Port of the estimators' Services
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 10352,
        allow_negative_numbers = true
    )]
    pub scheduler_estimator_port: i64,

    /// Certificate that the estimators are shown; used with TLS only
    #[arg(long, value_name = "FILE")]
    pub scheduler_estimator_cert_file: Option<OsString>,

    /// Key of that certificate
    #[arg(long, value_name = "FILE")]
    pub scheduler_estimator_key_file: Option<OsString>,

    /// Authority that signs the estimators' certificates; without it connections are plain text
    #[arg(long, value_name = "FILE")]
    pub scheduler_estimator_ca_file: Option<OsString>,

    /// Use TLS and take any certificate from the estimators
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub insecure_skip_estimator_verify: bool,
}

impl EstimatorArgs {
    /// The options, where estimators are asked at all. The values are checked either way.
    ///
    /// # Errors
    /// When a value is out of its range.
    pub fn options(self) -> Result<Option<EstimatorOptions>, EstimatorOptionsError> {
        let identity = given(self.scheduler_estimator_cert_file)
            .zip(given(self.scheduler_estimator_key_file))
            .map(|(certificate, key)| ClientIdentity { certificate, key });
        let tls = match given(self.scheduler_estimator_ca_file) {
            _ if self.insecure_skip_estimator_verify => Tls::Unverified { identity },
            Some(ca) => Tls::Verified { ca, identity },
            None => Tls::Plain,
        };
        let options = EstimatorOptions {
            timeout: timeout(&self.scheduler_estimator_timeout)?,
            namespace: self.scheduler_estimator_service_namespace,
            prefix: self.scheduler_estimator_service_prefix,
            port: port(self.scheduler_estimator_port)?,
            tls,
            skip_pull_mode: self.disable_scheduler_estimator_in_pull_mode,
            answers_max_age: ANSWERS_MAX_AGE,
        };
        Ok(self.enable_scheduler_estimator.then_some(options))
    }
}

/// How estimators are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimatorOptions {
    /// How long the answers of all clusters are waited for.
    pub timeout: Duration,
    /// The namespace of the Services.
    pub namespace: String,
    /// The name of a Service is this, a dash and the name of the cluster.
    pub prefix: String,
    /// The port of the Services.
    pub port: u16,
    /// How connections are secured.
    pub tls: Tls,
    /// Whether clusters in pull mode are left out.
    pub skip_pull_mode: bool,
    /// How old an answer may be that stands in for one that did not come; 0 for never.
    pub answers_max_age: Duration,
}

impl Default for EstimatorOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(3),
            namespace: NAMESPACE_SYSTEM.to_owned(),
            prefix: "karmada-scheduler-estimator".to_owned(),
            port: 10352,
            tls: Tls::Plain,
            skip_pull_mode: false,
            answers_max_age: ANSWERS_MAX_AGE,
        }
    }
}

/// How connections are secured. Files are read again for every connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Not at all.
    Plain,
    /// With TLS; certificates of servers must be signed by an authority.
    Verified {
        /// The file of the authority.
        ca: PathBuf,
        /// What servers are shown.
        identity: Option<ClientIdentity>,
    },
    /// With TLS; any certificate of a server is taken.
    Unverified {
        /// What servers are shown.
        identity: Option<ClientIdentity>,
    },
}

/// The files of a certificate that servers are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate, with those that lead up to the authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A flag with a value that cannot be used. Texts as in Karmada.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstimatorOptionsError {
    /// No port.
    #[error(
        "Options.SchedulerEstimatorPort: Invalid value: {0}: must be a valid port between 0 and 65535 inclusive"
    )]
    Port(i64),
    /// A negative time.
    #[error(
        "Options.SchedulerEstimatorTimeout: Invalid value: {0:?}: must be greater than or equal to 0"
    )]
    NegativeTimeout(String),
    /// No duration.
    #[error("--scheduler-estimator-timeout {text:?}: {reason}")]
    Timeout {
        /// As given.
        text: String,
        /// What it should be.
        reason: String,
    },
}

/// An empty file name is none, as in Go.
fn given(path: Option<OsString>) -> Option<PathBuf> {
    path.filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn port(number: i64) -> Result<u16, EstimatorOptionsError> {
    u16::try_from(number).map_err(|_| EstimatorOptionsError::Port(number))
}

fn timeout(text: &str) -> Result<Duration, EstimatorOptionsError> {
    let (negative, size) = match text.strip_prefix('-') {
        Some(size) => (true, size),
        None => (false, text),
    };
    let duration = go_duration(size).map_err(|reason| EstimatorOptionsError::Timeout {
        text: text.to_owned(),
        reason,
    })?;
    if negative && !duration.is_zero() {
        return Err(EstimatorOptionsError::NegativeTimeout(text.to_owned()));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        estimator: EstimatorArgs,
    }

    fn options(flags: &[&str]) -> Result<Option<EstimatorOptions>, EstimatorOptionsError> {
        let flags = std::iter::once(&"test").chain(flags);
        Command::try_parse_from(flags).unwrap().estimator.options()
    }

    fn enabled(flags: &[&str]) -> EstimatorOptions {
        let flags = [&["--enable-scheduler-estimator"], flags].concat();
        options(&flags).unwrap().unwrap()
    }

    #[test]
    fn estimators_are_asked_where_enabled_and_defaults_are_karmadas() {
        assert_eq!(options(&[]), Ok(None));
        assert_eq!(options(&["--enable-scheduler-estimator=false"]), Ok(None));
        assert_eq!(enabled(&[]), EstimatorOptions::default());
        let given = enabled(&[
            "--disable-scheduler-estimator-in-pull-mode=true",
            "--scheduler-estimator-timeout=1m30s",
            "--scheduler-estimator-service-namespace=ns",
            "--scheduler-estimator-service-prefix=estimator",
            "--scheduler-estimator-port=1234",
        ]);
        let expected = EstimatorOptions {
            timeout: Duration::from_secs(90),
            namespace: "ns".into(),
            prefix: "estimator".into(),
            port: 1234,
            skip_pull_mode: true,
            ..EstimatorOptions::default()
        };
        assert_eq!(given, expected);
    }

    #[test]
    fn connections_are_plain_without_an_authority_unless_verification_is_skipped() {
        let (cert, key) = (
            "--scheduler-estimator-cert-file=c",
            "--scheduler-estimator-key-file=k",
        );
        let (ca, insecure) = (
            "--scheduler-estimator-ca-file=ca",
            "--insecure-skip-estimator-verify",
        );
        let identity = Some(ClientIdentity {
            certificate: "c".into(),
            key: "k".into(),
        });
        let verified = |identity| Tls::Verified {
            ca: "ca".into(),
            identity,
        };
        for (flags, expected) in [
            (vec![cert, key], Tls::Plain),
            (vec!["--scheduler-estimator-ca-file="], Tls::Plain),
            (vec![ca], verified(None)),
            (vec![ca, cert], verified(None)),
            (vec![ca, cert, key], verified(identity.clone())),
            (vec![insecure], Tls::Unverified { identity: None }),
            (vec![insecure, ca, cert, key], Tls::Unverified { identity }),
        ] {
            assert_eq!(enabled(&flags).tls, expected, "{flags:?}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused_in_karmadas_words() {
        for (flag, expected) in [
            (
                "--scheduler-estimator-port=65536",
                "Options.SchedulerEstimatorPort: Invalid value: 65536: must be a valid port between 0 and 65535 inclusive",
            ),
            (
                "--scheduler-estimator-port=-1",
                "Options.SchedulerEstimatorPort: Invalid value: -1: must be a valid port between 0 and 65535 inclusive",
            ),
            (
                "--scheduler-estimator-timeout=-5s",
                "Options.SchedulerEstimatorTimeout: Invalid value: \"-5s\": must be greater than or equal to 0",
            ),
            (
                "--scheduler-estimator-timeout=soon",
                "--scheduler-estimator-timeout \"soon\": must be a duration such as 300ms, 15s or 1m30s",
            ),
        ] {
            assert_eq!(options(&[flag]).unwrap_err().to_string(), expected);
        }
    }
}
