//! The connection of the dashboard to the control plane: whether the watches work, and how old the data are.

use berth_component_base::list_watch::{Connection, Failure};
use jiff::Timestamp;

/// The watches in the order of [`Connections`].
pub(crate) const WATCHED: [&str; 3] = ["Clusters", "ResourceBindings", "ClusterResourceBindings"];

/// The states of the watches of clusters and of both kinds of bindings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Connections([WatchState; 3]);

/// The state of one watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct WatchState {
    /// The last failure, and the time of the first of the failures in a row.
    failure: Option<(Timestamp, Failure)>,
}

/// The data that the watches bring, in the same order.
const DATA: [&str; 3] = [
    "clusters",
    "namespaced workloads",
    "cluster-scoped workloads",
];

/// The cause for which the data of the pages are outdated or missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// The time since which a watch fails: the age of the data.
    pub(crate) since: Timestamp,
    /// The cause in one sentence.
    pub(crate) reason: String,
    /// The next action.
    pub(crate) advice: &'static str,
    /// The part of the data that is outdated: that of the watches that fail. `None` if all data are outdated.
    pub(crate) part: Option<String>,
}

impl Connections {
    /// Notes the state of a watch. Reports whether something has changed.
    pub(crate) fn note(&mut self, index: usize, connection: &Connection, now: Timestamp) -> bool {
        let Some(state) = self.0.get_mut(index) else {
            return false;
        };
        let failure = match connection {
            Connection::Starting => return false,
            Connection::Works => None,
            Connection::Failed(failure) => {
                let since = state.failure.as_ref().map_or(now, |(since, _)| *since);
                Some((since, failure.clone()))
            }
        };
        let is_new = state.failure != failure;
        state.failure = failure;
        is_new
    }

    /// Returns the outage with the earliest start, or `None` if all watches work.
    pub(crate) fn outage(&self) -> Option<Outage> {
        let states = self.0.iter().zip(WATCHED);
        let failed = states.filter_map(|(state, kind)| {
            let (since, failure) = state.failure.as_ref()?;
            Some((*since, kind, failure))
        });
        let (since, kind, failure) = failed.min_by_key(|(since, ..)| *since)?;
        let parts = self.0.iter().zip(DATA);
        let parts = parts.filter_map(|(state, part)| state.failure.is_some().then_some(part));
        let parts: Vec<&str> = parts.collect();
        let part = (parts.len() < DATA.len()).then(|| parts.join(" and "));
        let message = &failure.message;
        let (reason, advice) = match failure.code {
            Some(401) => (
                format!("the control plane refuses the credentials: {message}"),
                "renew the token or certificate in the kubeconfig, and start the dashboard again",
            ),
            Some(403) => (
                format!("the dashboard must not read {kind}: {message}"),
                "grant the user of the kubeconfig get, list and watch for Clusters, ResourceBindings and \
                 ClusterResourceBindings",
            ),
            Some(404) => (
                format!("the control plane does not serve {kind}: {message}"),
                "install the CustomResourceDefinitions of Karmada, or check which API server the kubeconfig selects",
            ),
            Some(code) => (
                format!("the control plane answers {code} for {kind}: {message}"),
                "look at the log of the API server",
            ),
            None => (
                format!("the control plane cannot be reached: {message}"),
                "check that the API server runs and that its address is right",
            ),
        };
        Some(Outage {
            since,
            reason,
            advice,
            part,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: Option<u16>) -> Connection {
        Connection::Failed(Failure {
            code,
            message: "no".to_owned(),
        })
    }

    #[test]
    fn an_outage_begins_with_the_first_failure_and_ends_with_a_success() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut connections = Connections::default();
        assert_eq!(connections.outage(), None);
        assert!(!connections.note(0, &Connection::Starting, at(1)));
        assert!(connections.note(1, &failed(Some(403)), at(2)));
        assert!(!connections.note(1, &failed(Some(403)), at(3)));
        let part = |connections: &Connections| connections.outage().unwrap().part;
        assert_eq!(part(&connections).as_deref(), Some("namespaced workloads"));
        assert!(connections.note(0, &failed(None), at(4)));
        let both = "clusters and namespaced workloads";
        assert_eq!(part(&connections).as_deref(), Some(both));
        assert!(connections.note(2, &failed(None), at(4)));
        assert_eq!(part(&connections), None);
        assert!(connections.note(2, &Connection::Works, at(4)));
        let outage = connections.outage().unwrap();
        assert_eq!(outage.since, at(2));
        assert_eq!(
            outage.reason,
            "the dashboard must not read ResourceBindings: no"
        );
        assert!(connections.note(1, &Connection::Works, at(5)));
        assert_eq!(connections.outage().unwrap().since, at(4));
        assert!(connections.note(0, &Connection::Works, at(6)));
        assert_eq!(connections.outage(), None);
    }

    #[test]
    fn each_kind_of_failure_has_its_words() {
        for (code, reason) in [
            (Some(401), "the control plane refuses the credentials: no"),
            (Some(403), "the dashboard must not read Clusters: no"),
            (Some(404), "the control plane does not serve Clusters: no"),
            (Some(500), "the control plane answers 500 for Clusters: no"),
            (None, "the control plane cannot be reached: no"),
        ] {
            let mut connections = Connections::default();
            connections.note(0, &failed(code), Timestamp::UNIX_EPOCH);
            assert_eq!(connections.outage().unwrap().reason, reason);
        }
    }
}
