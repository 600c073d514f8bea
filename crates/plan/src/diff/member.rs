//! The comparison of a wanted object with the object in its member.

use std::time::Duration;

use berth_api::Cluster;
use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_apimachinery::conflict_retry::CONFLICT_ATTEMPTS;
use berth_apimachinery::json_fields::{is_deleting, kind_of, text_at};
use berth_controllers::propagation::difference::{
    certain_changes, changed_fields, is_managed, wanted_object,
};
use berth_controllers::resource_type::ResourceType;
use berth_controllers::rest_mapper::{KindError, RestMapper};
use berth_interpreter::{InterpretError, Interpreter};
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::TypeMeta;
use serde_json::Value;
use tokio::time::Instant;

use crate::member_access::{MemberAccess, MemberAccessError};

use super::report::{FieldDiff, MemberDiff};

/// Time limit for the requests to a member.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(15);

/// The access to the members of a control plane.
pub(super) struct Members<'a> {
    pub(super) access: MemberAccess,
    pub(super) interpreter: &'a Interpreter,
    /// The end of the time for all members.
    pub(super) deadline: Option<Instant>,
}

/// Reason why an object cannot be compared.
#[derive(Debug, thiserror::Error)]
enum MemberError {
    #[error(transparent)]
    Access(#[from] MemberAccessError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    #[error("cannot decode the object: {0}")]
    Decode(#[from] serde_json::Error),
    #[error(transparent)]
    Interpret(#[from] InterpretError),
    #[error("no response within {} s", MEMBER_TIMEOUT.as_secs())]
    Timeout,
    #[error("no response before the end of the time for all members")]
    Deadline,
    #[error("not asked: the time for all members has ended")]
    NotAsked,
}

/// Compares a wanted object with the object in its member. Also returns remarks.
pub(super) async fn compare_member(
    members: &Members<'_>,
    manifest: &Value,
    name: &str,
    cluster: Option<&Cluster>,
) -> (MemberDiff, Vec<String>) {
    match compare_in_time(members, manifest, name, cluster).await {
        Ok(result) => result,
        Err(error) => {
            let reason = error.to_string();
            (MemberDiff::Unreadable { reason }, Vec::new())
        }
    }
}

async fn compare_in_time(
    members: &Members<'_>,
    manifest: &Value,
    name: &str,
    cluster: Option<&Cluster>,
) -> Result<(MemberDiff, Vec<String>), MemberError> {
    let now = Instant::now();
    let end = now + MEMBER_TIMEOUT;
    let (end, late) = match members.deadline {
        // The timeout would send the first request before it looks at the time.
        Some(deadline) if deadline <= now => return Err(MemberError::NotAsked),
        Some(deadline) if deadline < end => (deadline, MemberError::Deadline),
        _ => (end, MemberError::Timeout),
    };
    let compared = tokio::time::timeout_at(end, compare(members, manifest, name, cluster));
    compared.await.unwrap_or(Err(late))
}

async fn compare(
    members: &Members<'_>,
    manifest: &Value,
    name: &str,
    cluster: Option<&Cluster>,
) -> Result<(MemberDiff, Vec<String>), MemberError> {
    let client = members.access.client(name, cluster).await?;
    let (api_version, kind) = kind_of(manifest);
    let resource = RestMapper::new(client.clone())
        .find(api_version, kind)
        .await?;
    let api = resource.api(client, text_at(manifest, "/metadata/namespace"));
    let object_name = text_at(manifest, "/metadata/name");
    let mut attempts = 0;
    loop {
        attempts += 1;
        let Some(observed) = api.get_opt(object_name).await? else {
            return Ok((MemberDiff::Absent, Vec::new()));
        };
        let observed = to_value(&resource, observed)?;
        let mut notes = Vec::new();
        if is_deleting(&observed) {
            notes.push("the object in the member is being deleted".to_owned());
        }
        if !is_managed(&observed) {
            notes.push("the object in the member is not managed by a control plane".to_owned());
        }
        let wanted = wanted_object(manifest, &observed, members.interpreter)?;
        let changes = match dry_run(&api, &resource, object_name, &wanted).await {
            Ok(result) => changed_fields(&result, &observed),
            Err(MemberError::Api(error))
                if has_code(&error, 409) && attempts < CONFLICT_ATTEMPTS =>
            {
                continue;
            }
            Err(MemberError::Api(error)) if matches!(error, kube::Error::Api(_)) => {
                notes.push(format!(
                    "the member refuses a dry run of the update, so fields that may be its defaults are left out: {}",
                    api_error_message(&error)
                ));
                certain_changes(&wanted, &observed)
            }
            Err(error) => return Err(error),
        };
        let fields: Vec<FieldDiff> = changes
            .into_iter()
            .map(|change| FieldDiff::new(change, None))
            .collect();
        let diff = if fields.is_empty() {
            MemberDiff::Equal
        } else {
            MemberDiff::Different { fields }
        };
        return Ok((diff, notes));
    }
}

/// Returns the object that an update would store.
async fn dry_run(
    api: &Api<DynamicObject>,
    resource: &ResourceType,
    name: &str,
    wanted: &Value,
) -> Result<Value, MemberError> {
    let object: DynamicObject = serde_json::from_value(wanted.clone())?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    to_value(resource, api.replace(name, &params, &object).await?)
}

fn to_value(resource: &ResourceType, mut object: DynamicObject) -> Result<Value, MemberError> {
    object.types = Some(TypeMeta {
        api_version: resource.api.api_version.clone(),
        kind: resource.api.kind.clone(),
    });
    Ok(serde_json::to_value(object)?)
}
