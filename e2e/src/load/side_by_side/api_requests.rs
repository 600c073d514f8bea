//! The requests that an API server has counted, by verb and resource.

use std::collections::BTreeMap;

use kube::Client;

use crate::load::LoadError;
use crate::load::requests::get;

/// Numbers of requests by description, such as `PATCH works/status`.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiRequests(BTreeMap<String, f64>);

impl ApiRequests {
    /// Reads the counts from the metrics of an API server.
    pub(super) async fn read(client: &Client) -> Result<Self, LoadError> {
        let metrics = get(client, "/metrics").await?;
        Ok(Self::parse(&String::from_utf8_lossy(&metrics)))
    }

    /// Parses the metrics of an API server.
    pub(super) fn parse(metrics: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in metrics.lines() {
            if let Some((request, count)) = counted(line) {
                *counts.entry(request).or_default() += count;
            }
        }
        Self(counts)
    }

    /// Returns the requests after an earlier reading.
    pub(super) fn since(mut self, earlier: &Self) -> Self {
        for (request, count) in &earlier.0 {
            if let Some(later) = self.0.get_mut(request) {
                *later -= count;
            }
        }
        self
    }

    /// Returns the number of writes, with those that the server refused.
    pub(super) fn writes(&self) -> f64 {
        let writes = self.0.iter().filter(|(request, _)| !is_read(request));
        // The sum of no floating-point numbers is -0.0.
        writes.fold(0.0, |sum, (_, count)| sum + count)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(request, count)| (&**request, *count))
    }
}

fn is_read(request: &str) -> bool {
    request.starts_with("GET ") || request.starts_with("LIST ")
}

/// Returns the description and the count of a line of the metric `apiserver_request_total`. Returns `None` for watches
/// and for Leases, whose number depends on time and not on the load.
fn counted(line: &str) -> Option<(String, f64)> {
    let labels = line.strip_prefix("apiserver_request_total{")?;
    let (labels, count) = labels.rsplit_once("} ")?;
    let label = |name: &str| {
        let mut pairs = labels.trim_end_matches('"').split("\",");
        pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix("=\""))
    };
    let (verb, resource) = (label("verb")?, label("resource")?);
    let is_request = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "GET", "LIST"].contains(&verb);
    if !is_request || resource == "leases" {
        return None;
    }
    let subresource = label("subresource").map_or(String::new(), |name| match name {
        "" => String::new(),
        name => format!("/{name}"),
    });
    let refused = match label("code") {
        Some(code) if code.starts_with('4') => " (refused)",
        _ => "",
    };
    let request = format!("{verb} {resource}{subresource}{refused}");
    Some((request, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let line = |verb: &str, resource: &str, subresource: &str, code: u16, count: u32| {
            format!(
                "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"\",group=\"g\",\
                 resource=\"{resource}\",scope=\"resource\",subresource=\"{subresource}\",verb=\"{verb}\",\
                 version=\"v1\"}} {count}\n"
            )
        };
        let before = ApiRequests::parse(&line("PATCH", "works", "status", 200, 2));
        let metrics = [
            line("PATCH", "works", "status", 200, 5),
            line("PATCH", "works", "status", 409, 1),
            line("POST", "works", "", 201, 4),
            line("GET", "deployments", "", 200, 7),
            line("WATCH", "works", "", 200, 9),
            line("PUT", "leases", "", 200, 8),
        ];
        let after = ApiRequests::parse(&metrics.concat()).since(&before);
        let counts: Vec<(&str, f64)> = after.iter().collect();
        let expected = [
            ("GET deployments", 7.0),
            ("PATCH works/status", 3.0),
            ("PATCH works/status (refused)", 1.0),
            ("POST works", 4.0),
        ];
        assert_eq!(counts, expected);
        assert!((after.writes() - 8.0).abs() < f64::EPSILON);
    }
}
