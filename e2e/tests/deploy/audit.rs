//! The audit log of kube-apiserver. Tests read from it the requests that service accounts have sent.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The files of an audit log and of its policy.
pub(crate) struct Audit {
    log: PathBuf,
    policy: PathBuf,
}

/// An entry of the audit log: a request of a service account, and the response.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) user: String,
    pub(crate) group: String,
    /// The plural of the resource, with the subresource if the request has one: `resourcebindings/status`.
    pub(crate) resource: String,
    pub(crate) verb: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) agent: String,
    pub(crate) code: u64,
    /// The message of the response if the server rejected the request.
    pub(crate) message: String,
}

impl Audit {
    /// Writes the audit policy into a folder. The log will be in the same folder.
    pub(crate) fn new(folder: &Path) -> Self {
        let policy = folder.join("audit-policy.json");
        let text = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                { "level": "Metadata", "userGroups": ["system:serviceaccounts"] },
                { "level": "None" },
            ],
        });
        std::fs::write(&policy, text.to_string()).unwrap();
        Self {
            log: folder.join("audit.log"),
            policy,
        }
    }

    /// Returns the flags that make kube-apiserver write the log.
    pub(crate) fn flags(&self) -> Vec<String> {
        vec![
            format!("--audit-policy-file={}", self.policy.display()),
            format!("--audit-log-path={}", self.log.display()),
        ]
    }

    /// Returns all requests of service accounts so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        // Skip a last line that does not end with a newline yet.
        let complete = log.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let entries = complete
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.map(|entry| Request::of(&entry)).collect()
    }
}

impl Request {
    fn of(entry: &Value) -> Self {
        let object = &entry["objectRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = match object["subresource"].as_str() {
            Some(subresource) => format!("{}/{subresource}", text(&object["resource"])),
            None => text(&object["resource"]),
        };
        Self {
            user: text(&entry["user"]["username"]),
            group: text(&object["apiGroup"]),
            resource,
            verb: text(&entry["verb"]),
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            agent: text(&entry["userAgent"]),
            code: entry["responseStatus"]["code"].as_u64().unwrap_or_default(),
            message: text(&entry["responseStatus"]["message"]),
        }
    }

    /// Reports whether the request was forbidden.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.code == 403
    }
}
