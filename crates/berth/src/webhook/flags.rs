//! The command-line flags of `berth webhook`. The flags of karmada-webhook keep their names and defaults.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use berth_api::feature_gates::{self, FeatureGates};
use berth_apimachinery::go_bool::go_bool;
use berth_apimachinery::namespaced_name::NamespacedName;
use berth_component_base::program::ignored_common_flags::SharedFlags;
use berth_component_base::program::ignored_flags::AcceptedFlags;
use berth_scheduler::config::BindAddress;
use berth_webhook::{CertificateFiles, CertificateManagerOptions, MinimumTls, NoExecuteTaints};
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, ValueEnum};

/// Flags of `berth webhook`.
#[derive(Args, Clone, Debug)]
pub struct WebhookArgs {
    /// Path to the kubeconfig file of the control plane, for self-managed certificates and for quotas
    ///
    /// If unset: KUBECONFIG, the kubeconfig of `berth up`, ~/.kube/config, then the in-cluster configuration.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,

    /// IP address on which to listen for --secure-port
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,

    /// Port that serves HTTPS
    #[arg(long, value_name = "PORT", default_value_t = 8443)]
    pub secure_port: u16,

    /// Folder with the certificate and its key; changed files are loaded again
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "/tmp/k8s-webhook-server/serving-certs"
    )]
    pub cert_dir: PathBuf,

    /// Name of the file with the certificate in --cert-dir
    #[arg(long, value_name = "NAME", default_value = "tls.crt")]
    pub tls_cert_file_name: String,

    /// Name of the file with the private key in --cert-dir
    #[arg(long, value_name = "NAME", default_value = "tls.key")]
    pub tls_private_key_file_name: String,

    /// Issue and renew the certificate, keep it in --certificate-secret, and write the CA bundle into the webhook
    /// configurations; --cert-dir is not read
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub self_managed_certificates: bool,

    /// Secret on the control plane with the self-managed certificates, which the replicas share
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "karmada-system/berth-webhook-cert"
    )]
    pub certificate_secret: NamespacedName,

    /// Service by which the API server calls the webhooks; the self-managed certificate is valid for it
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "karmada-system/karmada-webhook"
    )]
    pub service: NamespacedName,

    /// MutatingWebhookConfiguration that gets the CA bundle of self-managed certificates
    #[arg(long, value_name = "NAME", default_value = "mutating-config")]
    pub mutating_webhook_configuration: String,

    /// ValidatingWebhookConfiguration that gets the CA bundle of self-managed certificates
    #[arg(long, value_name = "NAME", default_value = "validating-config")]
    pub validating_webhook_configuration: String,

    /// Minimum version of TLS; 1.0 and 1.1 select 1.2
    #[arg(long, value_name = "VERSION", default_value = "1.3")]
    pub tls_min_version: TlsVersion,

    /// Address that serves /metrics; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: BindAddress,

    /// Address that serves /healthz, /livez and /readyz; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":8000")]
    pub health_probe_bind_address: BindAddress,

    /// Allow ClusterTaintPolicies with the effect NoExecute, which can evict workloads
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set,
        value_parser = go_bool)]
    pub allow_no_execute_taint_policy: bool,

    /// Accepted without effect: requests to the control plane are not limited
    #[arg(
        long,
        value_name = "QPS",
        default_value_t = 40.0,
        allow_negative_numbers = true
    )]
    pub kube_api_qps: f32,

    /// Accepted without effect, as --kube-api-qps
    #[arg(
        long,
        value_name = "N",
        default_value_t = 60,
        allow_negative_numbers = true
    )]
    pub kube_api_burst: i32,

    /// Feature gates, as for karmada-webhook; FederatedQuotaEnforcement refuses bindings that exceed a quota
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = feature_gates::parse)]
    pub feature_gates: FeatureGates,

    #[command(flatten)]
    pub(crate) without_effect: AcceptedFlags<SharedFlags>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsVersion {
    /// TLS 1.0.
    #[value(name = "1.0")]
    V1_0,
    /// TLS 1.1.
    #[value(name = "1.1")]
    V1_1,
    /// TLS 1.2.
    #[value(name = "1.2")]
    V1_2,
    /// TLS 1.3.
    #[value(name = "1.3")]
    V1_3,
}

impl WebhookArgs {
    /// Returns the address of the HTTPS server.
    pub(crate) fn listen(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.secure_port)
    }

    /// Returns the files of the serving certificate.
    pub(crate) fn certificate_files(&self) -> CertificateFiles {
        CertificateFiles {
            certificate: self.cert_dir.join(&self.tls_cert_file_name),
            key: self.cert_dir.join(&self.tls_private_key_file_name),
        }
    }

    /// Returns the options of self-managed certificates, or `None` if certificate files are used.
    pub(crate) fn certificate_manager_options(&self) -> Option<CertificateManagerOptions> {
        self.self_managed_certificates
            .then(|| CertificateManagerOptions {
                service: self.service.clone(),
                secret: self.certificate_secret.clone(),
                mutating_configuration: self.mutating_webhook_configuration.clone(),
                validating_configuration: self.validating_webhook_configuration.clone(),
            })
    }

    pub(crate) fn minimum_tls(&self) -> MinimumTls {
        match self.tls_min_version {
            TlsVersion::V1_0 | TlsVersion::V1_1 | TlsVersion::V1_2 => MinimumTls::V1_2,
            TlsVersion::V1_3 => MinimumTls::V1_3,
        }
    }

    pub(crate) fn no_execute(&self) -> NoExecuteTaints {
        if self.allow_no_execute_taint_policy {
            NoExecuteTaints::Allowed
        } else {
            NoExecuteTaints::Denied
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: WebhookArgs,
    }

    fn parse(line: &str) -> Result<WebhookArgs, clap::Error> {
        let words = std::iter::once("webhook").chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.args)
    }

    #[test]
    fn the_defaults_are_the_defaults_of_karmada_webhook() {
        let args = parse("").unwrap();
        assert_eq!(args.listen().to_string(), "0.0.0.0:8443");
        let files = args.certificate_files();
        let folder = "/tmp/k8s-webhook-server/serving-certs";
        assert_eq!(
            files.certificate.to_str().unwrap(),
            format!("{folder}/tls.crt")
        );
        assert_eq!(files.key.to_str().unwrap(), format!("{folder}/tls.key"));
        assert_eq!(args.minimum_tls(), MinimumTls::V1_3);
        assert_eq!(args.no_execute(), NoExecuteTaints::Denied);
        assert_eq!(args.metrics_bind_address.to_string(), "0.0.0.0:8080");
        assert_eq!(args.health_probe_bind_address.to_string(), "0.0.0.0:8000");
        assert!((args.kube_api_qps - 40.0).abs() < f32::EPSILON && args.kube_api_burst == 60);
    }

    #[test]
    fn the_flags_of_a_karmada_deployment_parse() {
        let args = parse(
            "--kubeconfig=/etc/karmada/config/karmada.config --bind-address=10.0.0.7 \
             --metrics-bind-address=10.0.0.7:8080 --health-probe-bind-address=10.0.0.7:8000 \
             --secure-port=9443 --cert-dir=/etc/karmada/pki/server --tls-cert-file-name=a.crt \
             --tls-private-key-file-name=a.key --tls-min-version=1.2 --kube-api-qps=5 --kube-api-burst=10 \
             --feature-gates=AllAlpha=true,AllBeta=true --allow-no-execute-taint-policy=true \
             --enable-pprof --profiling-bind-address=:6060 --log-flush-frequency=5s --vmodule=a=1",
        )
        .unwrap();
        assert_eq!(args.listen().to_string(), "10.0.0.7:9443");
        let files = args.certificate_files();
        assert_eq!(
            files.certificate.to_str(),
            Some("/etc/karmada/pki/server/a.crt")
        );
        assert_eq!(args.minimum_tls(), MinimumTls::V1_2);
        assert_eq!(args.no_execute(), NoExecuteTaints::Allowed);
        assert_eq!(args.without_effect.names().len(), 4);
    }

    #[test]
    fn certificates_are_self_managed_only_on_request() {
        assert!(parse("").unwrap().certificate_manager_options().is_none());
        let line =
            "--self-managed-certificates --service=berth/hooks --certificate-secret=berth/cert";
        let options = parse(line).unwrap().certificate_manager_options().unwrap();
        assert_eq!(options.service.to_string(), "berth/hooks");
        assert_eq!(options.secret.to_string(), "berth/cert");
        assert_eq!(options.mutating_configuration, "mutating-config");
        assert_eq!(options.validating_configuration, "validating-config");
    }

    #[test]
    fn invalid_values_are_refused() {
        for line in [
            "--bind-address=localhost",
            "--secure-port=65536",
            "--tls-min-version=1.4",
            "--feature-gates=Nonsense=true",
            "--service=karmada-webhook",
            "--certificate-secret=a/b/c",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
