//! The watches of devices (dynamic resource allocation). They start when the member serves the kinds and grants the rights
//! to them, because an estimator must also work without.

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

/// Watches the devices of a member from the first time on that the member lists them.
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

/// Waits until the member lists all kinds. Other estimates do not wait: after the first failure, the member counts as
/// listed.
async fn until_served(member: &Member, client: &kube::Client) {
    let mut is_first = true;
    while let Err((plural, error)) = check_served(client).await {
        member.list_completed(DeviceClass::PLURAL);
        let lacks = matches!(&error, kube::Error::Api(status) if [403, 404].contains(&status.code));
        if std::mem::take(&mut is_first) {
            log(plural, &error);
        }
        let pause = if lacks {
            INTERVAL_WITHOUT
        } else {
            LONGEST_PAUSE
        };
        tokio::time::sleep(pause).await;
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
