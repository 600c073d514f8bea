//! Tests that Berth's programs accept the command lines in Karmada's manifests. A user can therefore replace a Karmada
//! program by changing only the image of the Deployment.

use super::command_line::parse;

/// The place of a command line in Karmada's repository or documentation, and the command line.
type CommandLine = (&'static str, &'static str);

const COMMAND_LINES: &[CommandLine] = &[
    (
        "artifacts/deploy",
        "/bin/karmada-scheduler --kubeconfig=/etc/karmada/config/karmada.config \
         --metrics-bind-address=10.0.0.1:8080 --health-probe-bind-address=10.0.0.1:10351 \
         --enable-scheduler-estimator=true \
         --scheduler-estimator-ca-file=/etc/karmada/pki/scheduler-estimator-client/ca.crt \
         --scheduler-estimator-cert-file=/etc/karmada/pki/scheduler-estimator-client/tls.crt \
         --scheduler-estimator-key-file=/etc/karmada/pki/scheduler-estimator-client/tls.key \
         --feature-gates=AllAlpha=true,AllBeta=true --logging-format=json --v=4",
    ),
    (
        "charts/karmada",
        "/bin/karmada-scheduler --kubeconfig=/etc/kubeconfig --metrics-bind-address=10.0.0.1:8080 \
         --health-probe-bind-address=10.0.0.1:10351 --leader-elect-resource-namespace=karmada-system \
         --scheduler-estimator-ca-file=/etc/karmada/pki/server-ca.crt \
         --scheduler-estimator-cert-file=/etc/karmada/pki/karmada.crt \
         --scheduler-estimator-key-file=/etc/karmada/pki/karmada.key --v=4 \
         --enable-scheduler-estimator=true --enable-empty-workload-propagation=true \
         --feature-gates=CustomizedClusterResourceModeling=true",
    ),
    (
        "operator",
        "/bin/karmada-scheduler --kubeconfig=/etc/karmada/config/karmada.config \
         --metrics-bind-address=10.0.0.1:8080 --health-probe-bind-address=10.0.0.1:10351 \
         --enable-scheduler-estimator=true --leader-elect-resource-namespace=karmada-system \
         --scheduler-estimator-ca-file=/etc/karmada/pki/ca.crt \
         --scheduler-estimator-cert-file=/etc/karmada/pki/karmada.crt \
         --scheduler-estimator-key-file=/etc/karmada/pki/karmada.key --v=2",
    ),
    (
        "karmadactl init",
        "/bin/karmada-scheduler --kubeconfig=/etc/karmada/config/karmada.config \
         --metrics-bind-address=10.0.0.1:8080 --health-probe-bind-address=10.0.0.1:10351 \
         --enable-scheduler-estimator=true --leader-elect=true \
         --scheduler-estimator-ca-file=/etc/karmada/pki/ca.crt \
         --scheduler-estimator-cert-file=/etc/karmada/pki/karmada.crt \
         --scheduler-estimator-key-file=/etc/karmada/pki/karmada.key \
         --leader-elect-resource-namespace=karmada-system --v=2",
    ),
    (
        "artifacts/deploy",
        "/bin/karmada-controller-manager --kubeconfig=/etc/karmada/config/karmada.config \
         --cluster-status-update-frequency=10s \
         --controllers=*,hpaScaleTargetMarker,deploymentReplicasSyncer \
         --feature-gates=AllAlpha=true,AllBeta=true --metrics-bind-address=10.0.0.1:8080 \
         --health-probe-bind-address=10.0.0.1:10357 --enable-no-execute-taint-eviction=true \
         --logging-format=json --v=4",
    ),
    (
        "artifacts/deploy",
        "/bin/karmada-webhook --kubeconfig=/etc/karmada/config/karmada.config --bind-address=10.0.0.1 \
         --metrics-bind-address=10.0.0.1:8080 --health-probe-bind-address=10.0.0.1:8000 \
         --secure-port=8443 --cert-dir=/etc/karmada/pki/server \
         --feature-gates=AllAlpha=true,AllBeta=true --allow-no-execute-taint-policy=true \
         --logging-format=json --v=4",
    ),
    (
        "charts/karmada, operator and karmadactl init",
        "/bin/karmada-webhook --kubeconfig=/etc/kubeconfig --bind-address=10.0.0.1 \
         --metrics-bind-address=10.0.0.1:8080 --health-probe-bind-address=10.0.0.1:8000 \
         --secure-port=8443 --cert-dir=/var/serving-cert --v=2",
    ),
    (
        "charts/karmada",
        "/bin/karmada-controller-manager --kubeconfig=/etc/kubeconfig \
         --cluster-status-update-frequency=10s --leader-elect-resource-namespace=karmada-system \
         --metrics-bind-address=10.0.0.1:8080 --health-probe-bind-address=10.0.0.1:10357 --v=4 \
         --controllers=*,-namespace \
         --feature-gates=PropagateDeps=true,Failover=true,GracefulEviction=true,\
         CustomizedClusterResourceModeling=true",
    ),
    (
        "operator",
        "/bin/karmada-controller-manager --kubeconfig=/etc/karmada/config/karmada.config \
         --cluster-status-update-frequency=10s --leader-elect-resource-namespace=karmada-system \
         --metrics-bind-address=10.0.0.1:8080 --health-probe-bind-address=10.0.0.1:10357 --v=2",
    ),
    (
        "karmadactl init",
        "/bin/karmada-controller-manager --kubeconfig=/etc/karmada/config/karmada.config \
         --metrics-bind-address=10.0.0.1:8080 --health-probe-bind-address=10.0.0.1:10357 \
         --cluster-status-update-frequency=10s --leader-elect-resource-namespace=karmada-system --v=2",
    ),
    (
        "guide to custom schedulers",
        "/bin/karmada-scheduler --kubeconfig=/etc/kubeconfig --bind-address=0.0.0.0 \
         --secure-port=10351 --enable-scheduler-estimator=true --plugins=*,-TestFilter --v=4",
    ),
    (
        "guide to custom schedulers",
        "/bin/karmada-scheduler --kubeconfig=/etc/kubeconfig --bind-address=0.0.0.0 \
         --secure-port=10351 --enable-scheduler-estimator=true \
         --leader-elect-resource-name=my-scheduler --scheduler-name=my-scheduler --v=4",
    ),
];

#[test]
fn each_command_line_is_accepted() {
    for (origin, line) in COMMAND_LINES {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (program, words) = words.split_first().unwrap();
        assert_eq!(parse(program, words), Ok(()), "{origin}: {line}");
        let extended = [words, &["--no-such-flag=1"]].concat();
        let error = parse(program, &extended).unwrap_err();
        assert!(error.contains("--no-such-flag"), "{origin}: {error}");
    }
}
