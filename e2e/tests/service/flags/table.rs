//! A table of all flags with the options that they set, and the tests of this table.

use std::time::Duration;

use berth_component_base::kube_client::Rate;
use berth_scheduler::config::{BindAddress, Mode, SchedulerArgs};
use berth_scheduler::estimator::{ClientIdentity, EstimatorOptions, Tls};
use berth_scheduler::{NamespaceWeights, Options, QueueOrder, Turns};
use clap::{CommandFactory as _, Parser};

#[derive(Parser)]
struct Scheduler {
    #[command(flatten)]
    flags: SchedulerArgs,
}

fn options(flags: &str) -> Options {
    let words = ["scheduler"].into_iter().chain(flags.split_whitespace());
    let parsed =
        Scheduler::try_parse_from(words).unwrap_or_else(|error| panic!("{flags}: {error}"));
    Options::try_from(parsed.flags).unwrap_or_else(|error| panic!("{flags}: {error}"))
}

/// Parses an address in the format of the flags.
fn address(text: &str) -> BindAddress {
    text.parse().unwrap()
}

/// Returns the client identity that the certificate flags in the table set.
fn identity() -> ClientIdentity {
    ClientIdentity {
        certificate: "cert".into(),
        key: "key".into(),
    }
}

/// Reports whether the scheduler's only profile enables a plugin.
fn enables(options: &Options, plugin: &str) -> bool {
    let profiles = options
        .declared
        .profiles(&options.all_plugins().unwrap())
        .unwrap();
    let enabled = &profiles[0].plugins.multi_point.enabled;
    enabled.iter().any(|enabled| enabled.name == plugin)
}

type Row = (&'static str, fn(&Options) -> bool);

/// Rows of flags and a condition. The condition is true for the options with these flags, and false for the default
/// options.
const TABLE: &[Row] = &[
    // This row contains the arguments of the Deployment in Karmada's guide to custom schedulers.
    (
        "--kubeconfig=/etc/kubeconfig --bind-address=0.0.0.0 --secure-port=10351 \
         --enable-scheduler-estimator=true --leader-elect-resource-name=my-scheduler \
         --scheduler-name=my-scheduler",
        |o| {
            o.target.kubeconfig.as_deref() == Some("/etc/kubeconfig".as_ref())
                && o.health == address("0.0.0.0:10351")
                && o.metrics == o.health
                && o.estimator == Some(EstimatorOptions::default())
                && o.lease.as_ref().is_some_and(|l| l.name == "my-scheduler")
                && o.declared.first_name() == "my-scheduler"
        },
    ),
    (
        "--enable-scheduler-estimator --disable-scheduler-estimator-in-pull-mode \
         --scheduler-estimator-timeout=7s --scheduler-estimator-service-namespace=n \
         --scheduler-estimator-service-prefix=p --scheduler-estimator-port=9",
        |o| {
            o.estimator.as_ref().is_some_and(|estimator| {
                estimator.skip_pull_mode
                    && estimator.timeout == Duration::from_secs(7)
                    && (estimator.namespace.as_str(), estimator.prefix.as_str()) == ("n", "p")
                    && estimator.port == 9
                    && estimator.tls == Tls::Plain
            })
        },
    ),
    (
        "--enable-scheduler-estimator --scheduler-estimator-ca-file=ca \
         --scheduler-estimator-cert-file=cert --scheduler-estimator-key-file=key",
        |o| {
            let (ca, identity) = ("ca".into(), Some(identity()));
            o.estimator
                .as_ref()
                .is_some_and(|estimator| estimator.tls == Tls::Verified { ca, identity })
        },
    ),
    (
        "--enable-scheduler-estimator --insecure-skip-estimator-verify \
         --scheduler-estimator-cert-file=cert --scheduler-estimator-key-file=key",
        |o| {
            let identity = Some(identity());
            o.estimator
                .as_ref()
                .is_some_and(|estimator| estimator.tls == Tls::Unverified { identity })
        },
    ),
    ("--kubeconfig=/etc/kubeconfig", |o| {
        o.target.kubeconfig.as_deref() == Some("/etc/kubeconfig".as_ref())
    }),
    ("--master=https://a:1", |o| {
        o.target.master.as_deref() == Some("https://a:1")
    }),
    ("--scheduler-name=mine", |o| {
        o.declared.first_name() == "mine"
    }),
    ("--plugins=*,-TaintToleration", |o| {
        !enables(o, "TaintToleration") && enables(o, "ClusterAffinity")
    }),
    ("--plugins=ClusterAffinity --plugins=APIEnablement", |o| {
        enables(o, "ClusterAffinity")
            && enables(o, "APIEnablement")
            && !enables(o, "ClusterEviction")
    }),
    ("--plugins=-ClusterAffinity", |o| {
        berth_engine::IN_TREE.iter().all(|name| !enables(o, name))
    }),
    // The path is relative to the folder of the package, in which the tests run.
    ("--config=../examples/test-filter/config.yaml", |o| {
        o.declared.first_name() == "my-scheduler"
            && o.declared.are_declared_in_file()
            && o.rate == Rate::new(100.0, 150)
            && o.lease.as_ref().is_some_and(|l| l.name == "my-scheduler")
    }),
    ("--config-map=berth/profiles", |o| {
        o.config_map
            .as_ref()
            .is_some_and(|name| name.to_string() == "berth/profiles")
    }),
    ("--feature-gates=WorkloadAffinity=true", |o| {
        o.gates.workload_affinity
    }),
    ("--feature-gates=SchedulingOvercommitProtection=true", |o| {
        o.gates.scheduling_overcommit_protection
    }),
    ("--feature-gates=MultiplePodTemplatesScheduling=true", |o| {
        o.gates.multiple_pod_templates_scheduling
    }),
    (
        "--feature-gates=CustomizedClusterResourceModeling=false",
        |o| !o.gates.customized_cluster_resource_modeling,
    ),
    ("--feature-gates=PriorityBasedScheduling=false", |o| {
        o.order
            == QueueOrder::Arrival {
                base: Duration::from_millis(5),
                max: Duration::from_secs(1000),
                qps: 10,
                burst: 100,
            }
    }),
    ("--namespace-weights=shop=3,team-a=2", |o| {
        let weights = [("shop".to_owned(), 3), ("team-a".to_owned(), 2)];
        o.turns == Turns::ByNamespace(NamespaceWeights::new(weights))
    }),
    (
        "--feature-gates=PriorityBasedScheduling=false --rate-limiter-base-delay=7ms \
         --rate-limiter-max-delay=3s --rate-limiter-qps=4 --rate-limiter-bucket-size=9",
        |o| {
            o.order
                == QueueOrder::Arrival {
                    base: Duration::from_millis(7),
                    max: Duration::from_secs(3),
                    qps: 4,
                    burst: 9,
                }
        },
    ),
    ("--enable-empty-workload-propagation", |o| {
        o.empty_workload_propagation
    }),
    ("--enable-empty-workload-propagation=true", |o| {
        o.empty_workload_propagation
    }),
    ("--leader-elect=false", |o| o.lease.is_none()),
    (
        "--leader-elect --leader-elect-resource-name=n --leader-elect-resource-namespace=s \
         --leader-elect-lease-duration=5s --leader-elect-renew-deadline=4s \
         --leader-elect-retry-period=1s",
        |o| {
            o.lease.as_ref().is_some_and(|lease| {
                (lease.name.as_str(), lease.namespace.as_str()) == ("n", "s")
                    && lease.lease_duration == Duration::from_secs(5)
                    && lease.renew_deadline == Duration::from_secs(4)
                    && lease.retry_period == Duration::from_secs(1)
            })
        },
    ),
    ("--shadow", |o| o.mode == Mode::Shadow),
    (
        "--decision-log=/log --decision-log-max-bytes=1Mi --decision-log-max-files=3",
        |o| {
            o.decision_log.as_ref().is_some_and(|log| {
                log.folder == *"/log" && log.max_bytes == 1024 * 1024 && log.max_files == 3
            })
        },
    ),
    ("--debug-decisions=7", |o| o.debug_decisions == 7),
    ("--metrics-bind-address=127.0.0.1:9", |o| {
        o.metrics == address("127.0.0.1:9") && o.health == address(":10351")
    }),
    ("--metrics-bind-address=0", |o| {
        o.metrics == BindAddress::Off
    }),
    ("--health-probe-bind-address=127.0.0.1:9", |o| {
        o.health == address("127.0.0.1:9") && o.metrics == address(":8080")
    }),
    ("--bind-address=127.0.0.1", |o| {
        o.health == address("127.0.0.1:10351") && o.metrics == o.health
    }),
    ("--bind-address=0.0.0.0 --secure-port=10444", |o| {
        o.health == address(":10444") && o.metrics == o.health
    }),
    ("--kube-api-qps=7 --kube-api-burst=9", |o| {
        o.rate == Rate::new(7.0, 9) && o.rate.is_some()
    }),
    ("--kube-api-qps=0", |o| o.rate.is_none()),
    ("--kube-api-qps=-1", |o| o.rate.is_none()),
    ("--kube-api-burst=-1", |o| o.rate.is_none()),
    (
        "--metrics-secure --tls-cert-file=cert --tls-private-key-file=key \
         --authentication-kubeconfig=/etc/reviewer",
        |o| {
            let access = &o.metrics_access;
            access.metrics_secure
                && access.tls_cert_file.as_deref() == Some("cert".as_ref())
                && access.tls_private_key_file.as_deref() == Some("key".as_ref())
                && access.authentication_kubeconfig.as_deref() == Some("/etc/reviewer".as_ref())
        },
    ),
    ("--enable-pprof=true --profiling-bind-address=:6060", |o| {
        o.ineffective_flags == ["enable-pprof", "profiling-bind-address"]
    }),
    (
        "--log-flush-frequency=5s --vmodule=a=1 --log-json-split-stream --log-json-info-buffer-size=1 \
         --log-text-split-stream --log-text-info-buffer-size=1 --add-dir-header --alsologtostderr \
         --log-backtrace-at=:0 --log-dir=/tmp --log-file=x --log-file-max-size=1 --logtostderr \
         --one-output --skip-headers --skip-log-headers --stderrthreshold=2 \
         --alsologtostderrthreshold=0 --legacy-stderr-threshold-behavior",
        |o| o.ineffective_flags.len() == 19,
    ),
];

/// The condition of each row is true with the flags of the row, and false without flags.
#[test]
fn each_flag_changes_the_options() {
    let without = options("");
    for (flags, condition) in TABLE {
        assert!(!condition(&without), "{flags}: true without the flags");
        assert!(condition(&options(flags)), "{flags}: {:?}", options(flags));
    }
}

/// `--kubeconfig` and `--master` with an empty value have the same effect as absent flags.
#[test]
fn empty_kubeconfig_and_master_count_as_unset() {
    let empty = options("--kubeconfig= --master=");
    assert_eq!(empty.target, options("").target);
}

#[test]
fn every_flag_is_in_the_table() {
    let command = Scheduler::command();
    let missing: Vec<&str> = command
        .get_arguments()
        .filter_map(|argument| argument.get_long())
        // The flags for tracing set no option of the scheduler: the program starts the tracing.
        .filter(|name| *name != "help" && !name.starts_with("tracing-"))
        .filter(|name| {
            let flag = format!("--{name}");
            let named = |row: &Row| {
                row.0
                    .split_whitespace()
                    .any(|w| w.split('=').next() == Some(&flag))
            };
            !TABLE.iter().any(named)
        })
        .collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
}

#[test]
fn defaults_equal_those_of_karmada() {
    let defaults = options("");
    let lease = defaults.lease.as_ref().unwrap();
    assert_eq!(defaults.declared.first_name(), "default-scheduler");
    assert_eq!(
        (lease.name.as_str(), lease.namespace.as_str()),
        ("karmada-scheduler", "karmada-system")
    );
    assert_eq!(
        [
            lease.lease_duration,
            lease.renew_deadline,
            lease.retry_period
        ]
        .map(|d| d.as_secs()),
        [15, 10, 2]
    );
    assert_eq!(
        (defaults.metrics, defaults.health),
        (address(":8080"), address(":10351"))
    );
    assert_eq!(defaults.rate, Rate::new(40.0, 60));
    assert!(!defaults.empty_workload_propagation && defaults.ineffective_flags.is_empty());
    assert_eq!(defaults.order, QueueOrder::Priority);
}
