//! Configurations of fake extenders, and the clusters in the requests that they receive.

use serde_json::Value;

use crate::extender::ExtenderConfig;

/// Returns a configuration of the extender at this URL with these fields.
pub(crate) fn config(url: &str, mut fields: Value) -> ExtenderConfig {
    fields["urlPrefix"] = url.into();
    serde_json::from_value(fields).unwrap()
}

/// Returns the names of the clusters in a request that contains either names or Cluster objects.
pub(crate) fn sent(body: &Value) -> Vec<String> {
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match (
        body["clusterNames"].as_array(),
        body["clusters"]["items"].as_array(),
    ) {
        (Some(names), None) => names.iter().map(name).collect(),
        (None, Some(items)) => items
            .iter()
            .map(|item| name(&item["metadata"]["name"]))
            .collect(),
        _ => panic!("the request must contain either names or objects: {body}"),
    }
}
