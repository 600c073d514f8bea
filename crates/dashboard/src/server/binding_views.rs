//! The requests for the pages of one binding. Each reads the binding from the control plane.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use berth_api::BindingKey;
use berth_explain::{Limits, Report};
use berth_plan::diff::{DiffReport, WantedReport, diff_within, wanted_diff};
use berth_plan::explain::{SchedulerRecord, binding_report};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    Clients, Context, NOT_LISTED_YET, NamePath, Presence, SharedContext, not_found, not_listed_yet,
};
use crate::pages::binding;

/// Maximum time for the comparison with all members of a workload.
const COMPARISON_TIMEOUT: Duration = Duration::from_secs(45);

/// Maximum time to wait for the end of another comparison.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of decisions about changed fleets, per page. The maximum of `berth explain` is higher, but a page has
/// to be fast.
const MAX_DECISIONS: usize = 200;

/// Reason why the page of a binding explains a recomputed decision.
const NO_SCHEDULER: &str =
    "the dashboard knows no scheduler to ask; pass --scheduler-url for the decision that was made";

/// Maximum time to wait for the scheduler's record of a decision.
const RECORD_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn show_binding(
    State(context): SharedContext,
    Path(name): Path<NamePath>,
) -> Response {
    let name = name.into();
    let explained = match context.presence(&name) {
        Presence::Absent => return not_found(&context.data()),
        Presence::Unknown => return not_listed_yet(&context.data()),
        Presence::PresentBeforeSync => Err(NOT_LISTED_YET.to_owned()),
        Presence::Present => context.explain(&name).await,
    };
    binding::page(&context.shared.store.read(), &name, &explained).into_response()
}

pub(super) async fn show_changes(
    State(context): SharedContext,
    Path(name): Path<NamePath>,
) -> Response {
    let name = name.into();
    let explained = match context.presence(&name) {
        Presence::Absent => return not_found(&context.data()),
        Presence::Unknown => return not_listed_yet(&context.data()),
        Presence::PresentBeforeSync => Err(NOT_LISTED_YET.to_owned()),
        Presence::Present => context.search(name.clone()).await,
    };
    binding::changes_page(&context.data(), &name, &explained).into_response()
}

pub(super) async fn show_objects(
    State(context): SharedContext,
    Path(name): Path<NamePath>,
) -> Response {
    let name = name.into();
    if let Some(response) = context.absence(&name) {
        return response;
    }
    let details = binding::Details::read(&context.clients.control_plane, &name).await;
    binding::objects_page(&context.data(), &name, &details).into_response()
}

pub(super) async fn show_differences(
    State(context): SharedContext,
    Path(name): Path<NamePath>,
) -> Response {
    let name = name.into();
    if let Some(response) = context.absence(&name) {
        return response;
    }
    let report = context.compare_wanted(&name).await;
    binding::differences_page(&context.data(), &name, &report).into_response()
}

pub(super) async fn show_members(
    State(context): SharedContext,
    Path(name): Path<NamePath>,
) -> Response {
    let name = name.into();
    if let Some(response) = context.absence(&name) {
        return response;
    }
    let report = context.compare_members(&name).await;
    binding::members_page(&context.data(), &name, &report).into_response()
}

impl Context {
    /// Returns the response about a binding that the store does not have.
    fn absence(&self, name: &BindingKey) -> Option<Response> {
        match self.presence(name) {
            Presence::Absent => Some(not_found(&self.data())),
            Presence::Unknown => Some(not_listed_yet(&self.data())),
            Presence::PresentBeforeSync | Presence::Present => None,
        }
    }

    /// Explains the decision that the scheduler has recorded about a binding, or a decision for the present clusters if there is
    /// no record.
    async fn explain(&self, name: &BindingKey) -> Result<Report, String> {
        let record = match &self.scheduler {
            None => SchedulerRecord::absent(NO_SCHEDULER),
            Some(endpoint) => {
                let read = SchedulerRecord::read(endpoint, name);
                match tokio::time::timeout(RECORD_TIMEOUT, read).await {
                    Ok(Ok(record)) => record,
                    Ok(Err(error)) => SchedulerRecord::absent(error.to_string()),
                    Err(_) => SchedulerRecord::absent("the scheduler does not answer in time"),
                }
            }
        };
        let (client, fleet) = (&self.clients.control_plane, self.shared.fleet());
        let limits = Limits::none();
        binding_report(client, &self.configuration, fleet, name, limits, record).await
    }

    /// Compares the wanted objects with the template and with each other.
    async fn compare_wanted(&self, name: &BindingKey) -> Result<WantedReport, String> {
        let client = &self.clients.control_plane;
        let found = binding::read_binding(client, name).await?;
        let compared = wanted_diff(client, &found).await;
        compared.map_err(|error| error.to_string())
    }

    /// Compares the objects in the members with the wanted objects. One comparison runs at a time.
    async fn compare_members(&self, name: &BindingKey) -> Result<DiffReport, String> {
        let _permit = comparison_permit(&self.comparisons).await?;
        let Clients {
            control_plane,
            forwarding,
        } = &self.clients;
        let found = binding::read_binding(control_plane, name).await?;
        let cluster = |name: &str| self.shared.cluster(name);
        let compared = diff_within(
            COMPARISON_TIMEOUT,
            control_plane,
            forwarding,
            &found,
            cluster,
        );
        compared.await.map_err(|error| error.to_string())
    }

    /// Searches for the smallest changes that would alter the decision. The search continues if the browser
    /// disconnects, and keeps its permit until its end.
    async fn search(&self, name: BindingKey) -> Result<Report, String> {
        let permit = Arc::clone(&self.searches).acquire_owned().await;
        let permit = permit.map_err(|error| error.to_string())?;
        let client = self.clients.control_plane.clone();
        let configuration = self.configuration.clone();
        let fleet = self.shared.fleet();
        let limits = Limits {
            decisions: MAX_DECISIONS,
            ..Limits::default()
        };
        let search = tokio::spawn(async move {
            // The changes apply to the present clusters, so that the record is not needed.
            let record = SchedulerRecord::absent(NO_SCHEDULER);
            let found = binding_report(&client, &configuration, fleet, &name, limits, record).await;
            drop(permit);
            found
        });
        search.await.map_err(|error| error.to_string())?
    }
}

/// Waits a short time for the permit of a comparison.
async fn comparison_permit(comparisons: &Semaphore) -> Result<SemaphorePermit<'_>, String> {
    let acquired = tokio::time::timeout(PERMIT_TIMEOUT, comparisons.acquire()).await;
    let acquired =
        acquired.map_err(|_| "another comparison is running; try again later".to_owned())?;
    acquired.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_comparison_does_not_wait_long_for_another_one() {
        let comparisons = Semaphore::new(1);
        let permit = comparison_permit(&comparisons).await.unwrap();
        let second = tokio::time::timeout(2 * PERMIT_TIMEOUT, comparison_permit(&comparisons));
        let refused = second.await.unwrap().map(drop).unwrap_err();
        assert_eq!(refused, "another comparison is running; try again later");
        drop(permit);
        assert!(comparison_permit(&comparisons).await.is_ok());
    }
}
