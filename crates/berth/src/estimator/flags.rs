//! The command-line flags of `berth estimator`. The flags of karmada-scheduler-estimator keep their names and defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use berth_api::feature_gates::{self, FeatureGates};
use berth_apimachinery::go_bool::go_bool;
use berth_component_base::certificate_files::CertificateFiles;
use berth_component_base::endpoints::Addresses;
use berth_component_base::program::ignored_common_flags::SharedFlags;
use berth_component_base::program::ignored_flags::AcceptedFlags;
use berth_estimator::{EstimatorOptions, Rules, TlsFiles};
use berth_scheduler::config::BindAddress;
use clap::Args;
use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser as _};

/// Flags of `berth estimator`.
#[derive(Args, Clone, Debug)]
pub struct EstimatorArgs {
    /// Path to the kubeconfig file of the member cluster
    ///
    /// If unset: KUBECONFIG, ~/.kube/config, then the in-cluster configuration.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,

    /// Address of the member's API server; overrides the kubeconfig
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    /// Name of the member cluster; requests about other clusters are refused
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub cluster_name: String,

    /// IP address on which to listen for --server-port
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub bind_address: IpAddr,

    /// Port that serves gRPC
    #[arg(long, value_name = "PORT", default_value_t = 10352)]
    pub server_port: u16,

    /// File with the certificate of the server; without certificate or key, the server uses plain text
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    pub grpc_auth_cert_file: String,

    /// File with the private key of the server; changed files are loaded again
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    pub grpc_auth_key_file: String,

    /// File with the certificates of the authorities of clients; clients then need a certificate
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    pub grpc_client_ca_file: String,

    /// Accept clients without a certificate, even with --grpc-client-ca-file
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set,
        value_parser = go_bool)]
    pub insecure_skip_grpc_client_verify: bool,

    /// Address that serves /metrics; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: BindAddress,

    /// Address that serves /healthz, /livez and /readyz; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":10351")]
    pub health_probe_bind_address: BindAddress,

    /// Accepted without effect: the estimator sends only a few requests
    #[arg(
        long,
        value_name = "QPS",
        default_value_t = 20.0,
        allow_negative_numbers = true
    )]
    pub kube_api_qps: f32,

    /// Accepted without effect, as --kube-api-qps
    #[arg(
        long,
        value_name = "N",
        default_value_t = 30,
        allow_negative_numbers = true
    )]
    pub kube_api_burst: i32,

    /// Accepted without effect: an estimate takes less than a millisecond on one thread
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub parallelism: i32,

    /// Count the resources of pods that the priority class of a request may displace as free
    ///
    /// Karmada's estimator does not count them. Requests contain the priority class only if the controllers have the
    /// feature gate ResourceQuotaEstimate.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set,
        value_parser = go_bool)]
    pub count_preemptible_pods: bool,

    /// Feature gates; ResourceQuotaEstimate and SchedulingOvercommitProtection have an effect
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = feature_gates::parse)]
    pub feature_gates: FeatureGates,

    #[command(flatten)]
    pub(crate) without_effect: AcceptedFlags<SharedFlags>,
}

impl EstimatorArgs {
    /// Returns the configuration of the estimator.
    pub(crate) fn options(&self) -> EstimatorOptions {
        EstimatorOptions {
            cluster: self.cluster_name.clone(),
            listen: SocketAddr::new(self.bind_address, self.server_port),
            tls: self.tls(),
            rules: Rules {
                preemptible_pods: self.count_preemptible_pods,
                ..rules(&self.feature_gates)
            },
            addresses: Addresses {
                probes: self.health_probe_bind_address,
                metrics: self.metrics_bind_address,
            },
        }
    }

    /// Reports whether flags of TLS have no effect, because certificate or key is missing.
    pub(crate) fn tls_is_incomplete(&self) -> bool {
        let files = [
            &self.grpc_auth_cert_file,
            &self.grpc_auth_key_file,
            &self.grpc_client_ca_file,
        ];
        self.tls().is_none() && files.iter().any(|file| !file.is_empty())
    }

    /// Returns the TLS files. As in Karmada, the server uses plain text unless both certificate and key are set.
    fn tls(&self) -> Option<TlsFiles> {
        if self.grpc_auth_cert_file.is_empty() || self.grpc_auth_key_file.is_empty() {
            return None;
        }
        let verifies_clients =
            !self.grpc_client_ca_file.is_empty() && !self.insecure_skip_grpc_client_verify;
        Some(TlsFiles {
            certificate: CertificateFiles {
                certificate: PathBuf::from(&self.grpc_auth_cert_file),
                key: PathBuf::from(&self.grpc_auth_key_file),
            },
            client_authority: verifies_clients.then(|| PathBuf::from(&self.grpc_client_ca_file)),
        })
    }
}

/// Returns the rules that the feature gates switch on.
pub(crate) fn rules(gates: &FeatureGates) -> Rules {
    Rules {
        quotas: gates.controllers.resource_quota_estimate,
        assumed_workloads: gates.engine.scheduling_overcommit_protection,
        preemptible_pods: false,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: EstimatorArgs,
    }

    fn parse(line: &str) -> Result<EstimatorArgs, clap::Error> {
        let words = std::iter::once("estimator").chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.args)
    }

    #[test]
    fn the_defaults_are_the_defaults_of_karmada_scheduler_estimator() {
        let args = parse("--cluster-name=m1").unwrap();
        let options = args.options();
        assert_eq!(options.cluster, "m1");
        assert_eq!(options.listen.to_string(), "0.0.0.0:10352");
        assert!(options.tls.is_none());
        assert_eq!(options.rules, Rules::default());
        assert_eq!(options.addresses.probes.to_string(), "0.0.0.0:10351");
        assert_eq!(options.addresses.metrics.to_string(), "0.0.0.0:8080");
        assert!((args.kube_api_qps - 20.0).abs() < f32::EPSILON && args.kube_api_burst == 30);
    }

    #[test]
    fn the_flags_of_a_karmada_deployment_parse() {
        let line = "--kubeconfig=/etc/m1-kubeconfig --cluster-name=m1 --grpc-auth-cert-file=/pki/tls.crt \
             --grpc-auth-key-file=/pki/tls.key --grpc-client-ca-file=/pki/ca.crt \
             --metrics-bind-address=10.0.0.7:8080 --health-probe-bind-address=10.0.0.7:10351 --parallelism=8 \
             --kube-api-qps=5 --kube-api-burst=10 --server-port=9000 --count-preemptible-pods --enable-pprof --vmodule=a=1 \
             --feature-gates=ResourceQuotaEstimate=true,SchedulingOvercommitProtection=true";
        let args = parse(line).unwrap();
        let options = args.options();
        assert_eq!(options.listen.port(), 9000);
        let rules = Rules {
            quotas: true,
            assumed_workloads: true,
            preemptible_pods: true,
        };
        assert_eq!(options.rules, rules);
        let tls = options.tls.unwrap();
        assert_eq!(tls.certificate.key.to_str(), Some("/pki/tls.key"));
        assert_eq!(tls.client_authority, Some(PathBuf::from("/pki/ca.crt")));
        assert_eq!(args.without_effect.names().len(), 2);
    }

    #[test]
    fn clients_need_a_certificate_only_if_they_are_verified() {
        let files = "--cluster-name=m1 --grpc-auth-cert-file=c --grpc-auth-key-file=k";
        for (line, incomplete) in [
            ("--cluster-name=m1", false),
            (files, false),
            ("--cluster-name=m1 --grpc-auth-cert-file=c", true),
            ("--cluster-name=m1 --grpc-client-ca-file=ca", true),
        ] {
            assert_eq!(
                parse(line).unwrap().tls_is_incomplete(),
                incomplete,
                "{line}"
            );
        }
        for (line, uses_tls, verifies_clients) in [
            (files.to_owned(), true, false),
            (format!("{files} --grpc-client-ca-file=ca"), true, true),
            (
                format!("{files} --grpc-client-ca-file=ca --insecure-skip-grpc-client-verify=true"),
                true,
                false,
            ),
            (
                "--cluster-name=m1 --grpc-auth-cert-file=c".to_owned(),
                false,
                false,
            ),
        ] {
            let tls = parse(&line).unwrap().tls();
            assert_eq!(tls.is_some(), uses_tls, "{line}");
            let verifies = tls.is_some_and(|tls| tls.client_authority.is_some());
            assert_eq!(verifies, verifies_clients, "{line}");
        }
    }

    #[test]
    fn invalid_command_lines_are_refused() {
        for line in [
            "",
            "--cluster-name=",
            "--cluster-name=m1 --server-port=65536",
            "--cluster-name=m1 --feature-gates=Nonsense=true",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
