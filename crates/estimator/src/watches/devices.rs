//! The watches of devices (dynamic resource allocation). They start when the member serves the kinds and grants the
//! rights to them, because an estimator must also work without.

use std::time::Duration;

use berth_apimachinery::api_error::api_error_message;
use berth_apimachinery::log_limit::LogLimit;
use berth_component_base::list_watch::Listing;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kube::Api;
use kube::api::ListParams;
use tokio_util::sync::CancellationToken;

use super::{LONGEST_PAUSE, Member, Watched};
use crate::estimate::ClusterState;

/// Interval between requests for a kind that the member does not serve, or to which the estimator has no right.
const INTERVAL_WITHOUT: Duration = Duration::from_mins(5);
/// Interval between requests to a member that cannot be reached.
const INTERVAL_UNREACHABLE: Duration = Duration::from_secs(1);
/// The limit on log lines about members without devices. A process can have many such members.
static NOT_SERVED: LogLimit = LogLimit::new(1, Duration::from_hours(24));

impl Watched for ResourceSlice {
    const PLURAL: &'static str = "resourceslices";

    fn apply(&self, state: &mut ClusterState) {
        state.devices.apply_slice(self);
    }

    fn remove(&self, state: &mut ClusterState) {
        let name = self.metadata.name.as_deref();
        state.devices.remove_slice(name.unwrap_or_default());
    }

    fn retain(state: &mut ClusterState, listing: &Listing) {
        let devices = &mut state.devices;
        devices.retain_slices(|name| listing.contains("", name));
    }
}

impl Watched for DeviceClass {
    const PLURAL: &'static str = "deviceclasses";

    fn apply(&self, state: &mut ClusterState) {
        state.devices.apply_class(self);
    }

    fn remove(&self, state: &mut ClusterState) {
        let name = self.metadata.name.as_deref();
        state.devices.remove_class(name.unwrap_or_default());
    }

    fn retain(state: &mut ClusterState, listing: &Listing) {
        let devices = &mut state.devices;
        devices.retain_classes(|name| listing.contains("", name));
    }
}

impl Watched for ResourceClaim {
    const PLURAL: &'static str = "resourceclaims";

    fn apply(&self, state: &mut ClusterState) {
        state.devices.apply_claim(self);
    }

    fn remove(&self, state: &mut ClusterState) {
        let (namespace, name) = (&self.metadata.namespace, &self.metadata.name);
        let text = |field: &'_ Option<String>| field.clone().unwrap_or_default();
        let devices = &mut state.devices;
        devices.remove_claim(&text(namespace), &text(name));
    }

    fn retain(state: &mut ClusterState, listing: &Listing) {
        let devices = &mut state.devices;
        devices.retain_claims(|namespace, name| listing.contains(namespace, name));
    }
}

/// Watches the devices of a member after the first request in which the member lists all kinds.
pub(super) fn follow(member: &Member, client: &kube::Client, cancel: &CancellationToken) {
    member.expect_list(DeviceClass::PLURAL);
    let (member, client, watches) = (member.clone(), client.clone(), cancel.clone());
    let starting = async move {
        until_served(&member, &client).await;
        member.watch::<ResourceSlice>(&client, &watches);
        member.watch::<ResourceClaim>(&client, &watches);
        member.watch::<DeviceClass>(&client, &watches);
    };
    tokio::spawn(cancel.clone().run_until_cancelled_owned(starting));
}

/// Waits until the member lists all kinds. Other estimates do not wait for members without devices: after the first
/// refusal, the lists count as complete.
async fn until_served(member: &Member, client: &kube::Client) {
    let mut is_logged = false;
    while let Err((plural, error)) = check_served(client).await {
        let code = match &error {
            kube::Error::Api(status) => Some(status.code),
            // The lists of nodes and pods fail, too, and the failures of these lists are logged.
            _ => None,
        };
        if code.is_some() {
            member.list_completed(DeviceClass::PLURAL);
            if !std::mem::replace(&mut is_logged, true) {
                log(plural, &error);
            }
        }
        tokio::time::sleep(match code {
            Some(403 | 404) => INTERVAL_WITHOUT,
            Some(_) => LONGEST_PAUSE,
            None => INTERVAL_UNREACHABLE,
        })
        .await;
    }
}

fn log(plural: &'static str, error: &kube::Error) {
    if matches!(error, kube::Error::Api(status) if status.code == 404) {
        if NOT_SERVED.allow().is_some() {
            tracing::info!(
                "the member does not serve resource.k8s.io/v1, so devices of device classes are not counted"
            );
        }
    } else {
        let error = api_error_message(error);
        tracing::warn!(
            resource = plural,
            %error,
            "cannot list a resource of resource.k8s.io/v1, so devices of device classes are not counted; check the rights of the estimator"
        );
    }
}

/// Lists an object of each kind.
///
/// # Errors
/// With the first kind that cannot be listed.
async fn check_served(client: &kube::Client) -> Result<(), (&'static str, kube::Error)> {
    check_listed::<DeviceClass>(client).await?;
    check_listed::<ResourceSlice>(client).await?;
    check_listed::<ResourceClaim>(client).await
}

async fn check_listed<K: Watched>(
    client: &kube::Client,
) -> Result<(), (&'static str, kube::Error)> {
    let api = Api::<K>::all(client.clone());
    let listed = api.list(&ListParams::default().limit(1)).await;
    listed.map(drop).map_err(|error| (K::PLURAL, error))
}
