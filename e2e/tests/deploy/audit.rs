//! What service accounts have asked of the server, by its audit log.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The audit log of a server.
pub(crate) struct Audit {
    log: PathBuf,
    policy: PathBuf,
}

/// A request as it was authorized and answered.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) group: String,
    /// With the subresource: `resourcebindings/status`.
    pub(crate) resource: String,
    pub(crate) verb: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) code: u64,
    /// What the server said to a refusal.
    pub(crate) message: String,
}

impl Audit {
    /// Prepares the log in a folder.
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

    /// The flags that make kube-apiserver write the log.
    pub(crate) fn flags(&self) -> Vec<String> {
        vec![
            format!("--audit-policy-file={}", self.policy.display()),
            format!("--audit-log-path={}", self.log.display()),
        ]
    }

    /// All that service accounts have asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        // The last line may be on its way.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let entries = whole
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
            Some(part) => format!("{}/{part}", text(&object["resource"])),
            None => text(&object["resource"]),
        };
        Self {
            group: text(&object["apiGroup"]),
            resource,
            verb: text(&entry["verb"]),
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            code: entry["responseStatus"]["code"].as_u64().unwrap_or_default(),
            message: text(&entry["responseStatus"]["message"]),
        }
    }

    /// Whether the account lacks the right.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.code == 403
    }
}
