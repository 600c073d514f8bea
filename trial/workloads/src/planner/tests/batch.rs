//! Tests of Jobs and CronJobs.

use jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Cluster, default_key, deployment, from, template};
use crate::cache::key;

fn job(cluster: &mut Cluster, name: &str, spec: Value, options: Value) {
    let mut metadata = cluster.metadata(name);
    metadata["annotations"] = options;
    let mut template = template(name, "1", "one");
    template["spec"]["restartPolicy"] = json!("Never");
    let mut all = json!({"template": template});
    all.as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    cluster
        .cache
        .jobs
        .put(from(json!({"metadata": metadata, "spec": all})));
}

fn job_ends(cluster: &Cluster, name: &str) -> (Option<i32>, Option<i32>, Vec<String>) {
    let status = cluster
        .cache
        .jobs
        .get(&default_key(name))
        .unwrap()
        .status
        .clone()
        .unwrap();
    let conditions = status
        .conditions
        .into_iter()
        .flatten()
        .map(|c| c.type_)
        .collect();
    (status.succeeded, status.failed, conditions)
}

#[test]
fn jobs_complete_or_fail() {
    let mut cluster = Cluster::with_nodes(1, "8");
    job(
        &mut cluster,
        "good",
        json!({"completions": 3, "parallelism": 2}),
        json!({}),
    );
    job(
        &mut cluster,
        "bad",
        json!({"completions": 1, "parallelism": 1, "backoffLimit": 1}),
        json!({"simulation.berth/fails": "crash"}),
    );
    cluster.plan_until_idle();
    assert_eq!(
        cluster.pods("good").len(),
        2,
        "parallelism limits the active pods"
    );
    cluster.advance_until_idle();
    let kinds = |list: &[&str]| {
        list.iter()
            .map(|kind| (*kind).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        job_ends(&cluster, "good"),
        (Some(3), None, kinds(&["SuccessCriteriaMet", "Complete"]))
    );
    assert_eq!(
        job_ends(&cluster, "bad"),
        (None, Some(2), kinds(&["FailureTarget", "Failed"]))
    );
    // Finished pods free their capacity.
    deployment(&mut cluster, "web", 1, "8");
    cluster.advance_until_idle();
    assert_eq!(cluster.pods("web"), ["n1 Running ready"]);
}

#[test]
fn each_index_of_an_indexed_job_succeeds_once() {
    let mut cluster = Cluster::with_nodes(1, "8");
    job(
        &mut cluster,
        "parts",
        json!({"completions": 4, "parallelism": 2, "completionMode": "Indexed"}),
        json!({}),
    );
    cluster.plan_until_idle();
    let numbers = |cluster: &Cluster| {
        let pods = cluster.cache.pods.iter();
        let mut numbers: Vec<String> = pods
            .map(|pod| pod.annotations()["batch.kubernetes.io/job-completion-index"].clone())
            .collect();
        numbers.sort();
        numbers
    };
    assert_eq!(numbers(&cluster), ["0", "1"]);
    let pod = cluster.cache.pods.iter().next().unwrap();
    assert!(pod.name_any().starts_with("parts-0-"), "{}", pod.name_any());
    let spec = serde_json::to_value(&pod.spec).unwrap();
    assert_eq!(spec["hostname"], "parts-0");
    assert_eq!(
        spec["containers"][0]["env"][0]["name"],
        "JOB_COMPLETION_INDEX"
    );
    // A failed pod is retried with the same index.
    let mut failed = pod.clone();
    failed.status.get_or_insert_default().phase = Some("Failed".to_owned());
    cluster.cache.pods.put(failed);
    cluster.advance_until_idle();
    assert_eq!(numbers(&cluster), ["0", "0", "1", "2", "3"]);
    let done = cluster.cache.jobs.get(&default_key("parts")).unwrap();
    let status = done.status.as_ref().unwrap();
    assert_eq!(status.completed_indexes.as_deref(), Some("0-3"));
    assert_eq!((status.succeeded, status.failed), (Some(4), Some(1)));
}

/// Creates a CronJob that runs every minute.
fn cron_job(cluster: &mut Cluster, more: Value) {
    let mut metadata = cluster.metadata("tick");
    metadata["creationTimestamp"] = json!(cluster.now.to_string());
    let mut spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {
        "completions": 1, "parallelism": 1,
        "template": {"metadata": {"labels": {"app": "tick"}}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "one"}]}},
    }}});
    let all = spec.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    let object = json!({"metadata": metadata, "spec": spec});
    cluster.cache.cron_jobs.put(from(object));
}

impl Cluster {
    /// Advances the clock to `end`, and plans at each due time until then.
    fn advance_to(&mut self, end: Timestamp) {
        while let Some(next) = self.plan_until_idle()
            && next <= end
        {
            self.now = next;
        }
        self.now = end;
        self.plan_until_idle();
    }

    /// Returns the names of the Jobs, with true for completed Jobs.
    fn jobs(&self) -> Vec<(String, bool)> {
        let jobs = self.cache.jobs.iter();
        jobs.map(|job| {
            let status = job.status.clone().unwrap_or_default();
            (job.name_any(), status.completion_time.is_some())
        })
        .collect()
    }
}

/// Returns the start of a minute. The clock starts within minute 16666.
fn minute(number: i64) -> Timestamp {
    Timestamp::from_second(number * 60).unwrap()
}

fn named(jobs: &[(i64, bool)]) -> Vec<(String, bool)> {
    let named = jobs.iter();
    named
        .map(|(minute, ended)| (format!("tick-{minute}"), *ended))
        .collect()
}

#[test]
fn cron_job_creates_jobs_and_keeps_three_completed_jobs() {
    let mut cluster = Cluster::with_nodes(1, "8");
    cron_job(&mut cluster, json!({}));
    cluster.plan_until_idle();
    assert_eq!(cluster.jobs(), [], "no scheduled time has passed");
    cluster.advance_to(minute(16667));
    assert_eq!(cluster.jobs(), named(&[(16667, false)]));
    let cron = cluster.cache.cron_jobs.get(&default_key("tick")).unwrap();
    let status = serde_json::to_value(&cron.status).unwrap();
    assert_eq!(status["active"][0]["name"], "tick-16667");
    assert_eq!(status["lastScheduleTime"], minute(16667).to_string());
    assert_eq!(status["lastSuccessfulTime"], Value::Null);

    cluster.advance_to(minute(16672));
    let kept = [(16669, true), (16670, true), (16671, true), (16672, false)];
    assert_eq!(cluster.jobs(), named(&kept));
    let cron = cluster.cache.cron_jobs.get(&default_key("tick")).unwrap();
    let status = cron.status.clone().unwrap();
    let success = status.last_successful_time.unwrap().0;
    assert!(
        success > minute(16671) && success < minute(16672),
        "{success}"
    );
}

#[test]
fn missed_schedules_create_one_job() {
    let mut cluster = Cluster::with_nodes(1, "8");
    cron_job(&mut cluster, json!({}));
    cluster.plan_until_idle();
    cluster.now = minute(16700);
    cluster.plan_until_idle();
    assert_eq!(cluster.jobs(), named(&[(16700, false)]));

    let mut cluster = Cluster::with_nodes(1, "8");
    cron_job(&mut cluster, json!({"startingDeadlineSeconds": 20}));
    cluster.plan_until_idle();
    cluster.now = minute(16700)
        .checked_add(std::time::Duration::from_secs(30))
        .unwrap();
    cluster.plan_until_idle();
    assert_eq!(cluster.jobs(), [], "the starting deadline has passed");
}

#[test]
fn concurrency_policies_are_respected() {
    let long = |policy: &str| {
        let mut cluster = Cluster::with_nodes(1, "8");
        cron_job(&mut cluster, json!({"concurrencyPolicy": policy}));
        let mut cron = cluster
            .cache
            .cron_jobs
            .get(&default_key("tick"))
            .unwrap()
            .clone();
        let wish = ("simulation.berth/run-time".to_owned(), "90s".to_owned());
        cron.annotations_mut().extend([wish]);
        let name = key(&cron);
        cluster.cache.cron_jobs.remove(&name);
        cluster.cache.cron_jobs.put(cron);
        cluster.advance_to(minute(16668));
        cluster
    };
    let both = [(16667, false), (16668, false)];
    assert_eq!(long("Allow").jobs(), named(&both));
    assert_eq!(long("Replace").jobs(), named(&both[1..]));
    let mut cluster = long("Forbid");
    assert_eq!(cluster.jobs(), named(&both[..1]));
    // The delayed Job starts when the first Job is finished.
    let later = minute(16668).checked_add(std::time::Duration::from_secs(45));
    cluster.advance_to(later.unwrap());
    assert_eq!(cluster.jobs(), named(&[(16667, true), (16668, false)]));
}

#[test]
fn suspended_cron_job_creates_no_jobs() {
    let mut cluster = Cluster::with_nodes(1, "8");
    cron_job(&mut cluster, json!({"suspend": true}));
    assert_eq!(cluster.plan_until_idle(), None);
    cluster.now = minute(16700);
    cluster.plan_until_idle();
    assert_eq!(cluster.jobs(), []);
}
