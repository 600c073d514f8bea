//! Flags of the estimator client, and the validated options that result from them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use berth_api::well_known::NAMESPACE_SYSTEM;
use clap::Args;

use berth_apimachinery::go_bool::go_bool;
use berth_component_base::go_duration::go_duration;

/// The default of [`EstimatorOptions::answers_max_age`].
const ANSWERS_MAX_AGE: Duration = Duration::from_mins(5);

/// Flags of the accurate estimators.
#[derive(Args, Clone, Debug)]
pub struct EstimatorArgs {
    /// Query the accurate estimators of the member clusters for available replicas
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set,
        value_parser = go_bool)]
    pub enable_scheduler_estimator: bool,

    /// Skip the estimators of clusters in pull mode
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set,
        value_parser = go_bool)]
    pub disable_scheduler_estimator_in_pull_mode: bool,

    /// Time limit for the answers of all estimators
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

    /// Prefix of the estimators' Services, which are named PREFIX-CLUSTER
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

    /// Client certificate for the estimators; used only with TLS
    #[arg(long, value_name = "FILE")]
    pub scheduler_estimator_cert_file: Option<OsString>,

    /// Private key of the client certificate
    #[arg(long, value_name = "FILE")]
    pub scheduler_estimator_key_file: Option<OsString>,

    /// Certificate authority of the estimators; without this flag and --insecure-skip-estimator-verify, connections are plain text
    #[arg(long, value_name = "FILE")]
    pub scheduler_estimator_ca_file: Option<OsString>,

    /// Use TLS, but accept any certificate from the estimators
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set,
        value_parser = go_bool)]
    pub insecure_skip_estimator_verify: bool,
}

impl EstimatorArgs {
    /// Returns the options, or `None` if estimators are disabled. The values are validated in both cases.
    ///
    /// # Errors
    /// If a value is invalid.
    pub fn options(self) -> Result<Option<EstimatorOptions>, EstimatorOptionsError> {
        let identity = file(self.scheduler_estimator_cert_file)
            .zip(file(self.scheduler_estimator_key_file))
            .map(|(certificate, key)| ClientIdentity { certificate, key });
        let tls = match file(self.scheduler_estimator_ca_file) {
            _ if self.insecure_skip_estimator_verify => Tls::Unverified { identity },
            Some(ca) => Tls::Verified { ca, identity },
            None => Tls::Plain,
        };
        let options = EstimatorOptions {
            timeout: timeout(&self.scheduler_estimator_timeout)?,
            namespace: self.scheduler_estimator_service_namespace,
            prefix: self.scheduler_estimator_service_prefix,
            port: port(self.scheduler_estimator_port)?,
            without_service: WithoutService::Resolve,
            tls,
            skip_pull_mode: self.disable_scheduler_estimator_in_pull_mode,
            answers_max_age: ANSWERS_MAX_AGE,
        };
        Ok(self.enable_scheduler_estimator.then_some(options))
    }
}

/// Options of the estimator client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimatorOptions {
    /// Time limit for the answers of all clusters.
    pub timeout: Duration,
    /// The namespace of the estimators' Services.
    pub namespace: String,
    /// The prefix of the names of the Services, which have the form `PREFIX-CLUSTER`.
    pub prefix: String,
    /// The port of the Services.
    pub port: u16,
    /// The treatment of a cluster whose estimator has no Service in the control plane.
    pub without_service: WithoutService,
    /// Security of the connections.
    pub tls: Tls,
    /// True if the client skips clusters in pull mode.
    pub skip_pull_mode: bool,
    /// The maximum age of an earlier answer that is used if there is no current answer. 0 means that earlier answers
    /// are never used.
    pub answers_max_age: Duration,
}

impl Default for EstimatorOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(3),
            namespace: NAMESPACE_SYSTEM.to_owned(),
            prefix: "karmada-scheduler-estimator".to_owned(),
            port: 10352,
            without_service: WithoutService::Resolve,
            tls: Tls::Plain,
            skip_pull_mode: false,
            answers_max_age: ANSWERS_MAX_AGE,
        }
    }
}

/// The treatment of a cluster whose estimator has no Service in the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutService {
    /// The DNS names of the Service are resolved, because the cluster that runs the scheduler can have the Service.
    Resolve,
    /// The cluster has no estimator. Its general estimate is used.
    NoEstimator,
}

/// The security of connections. The files are read again for every connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Plain text.
    Plain,
    /// TLS that verifies the server's certificate.
    Verified {
        /// The file of the certificate authority.
        ca: PathBuf,
        /// The client certificate.
        identity: Option<ClientIdentity>,
    },
    /// TLS that accepts any server certificate.
    Unverified {
        /// The client certificate.
        identity: Option<ClientIdentity>,
    },
}

/// The files of a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// An invalid flag value. The messages about values out of range equal Karmada's messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstimatorOptionsError {
    /// A port out of range.
    #[error(
        "Options.SchedulerEstimatorPort: Invalid value: {0}: must be a valid port between 0 and 65535 inclusive"
    )]
    Port(i64),
    /// A negative timeout.
    #[error(
        "Options.SchedulerEstimatorTimeout: Invalid value: {0:?}: must be greater than or equal to 0"
    )]
    NegativeTimeout(String),
    /// A timeout that is not a duration.
    #[error("--scheduler-estimator-timeout {text:?}: {reason}")]
    Timeout {
        /// The value.
        text: String,
        /// The expected form.
        reason: String,
    },
}

/// Treats an empty file name as absent, as Karmada does.
fn file(path: Option<OsString>) -> Option<PathBuf> {
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
    fn options_need_the_enabling_flag_and_have_the_defaults_of_karmada() {
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
    fn tls_needs_an_authority_or_skipped_verification() {
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
    fn invalid_values_are_rejected() {
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
