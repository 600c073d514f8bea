//! The decision whether an object in a member must be created, adopted or applied again. [`decide`] compares the object
//! with its manifest, and decides how to correct drift. Drift is a change of the object by another client.

use berth_api::manifest::prune;
use berth_api::well_known::CONFLICT_RESOLUTION;
use berth_interpreter::{InterpretError, Interpreter};
use serde_json::{Value, json};

use super::applied_state::AppliedState;
use super::difference::reports_drift;
use super::ownership::{OtherOwner, is_managed, other_owner, retain_id, write_id};
use berth_apimachinery::json_fields::is_deleting;

/// The action for an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Do nothing, because the object is up to date or is being deleted.
    None,
    /// Create this object.
    Create(Box<Value>),
    /// Replace the object with this object.
    Update(Box<Value>),
    /// Compare the object with the result of an update to this object, and report the difference instead of correcting
    /// it. Without a difference, the marks of the object are updated.
    Compare(Box<Value>),
    /// Report a conflict: no control plane manages the object, and the manifest does not allow overwriting it.
    Reject,
    /// Report a conflict: another control plane owns the object.
    Conflict(OtherOwner),
}

/// Decides the action for an object. `observed` is the object in the member, `applied` is the state after the last
/// write, and `own_id` is the id of the control plane.
///
/// An object of another control plane is overwritten only if this process has not written the object before and the
/// manifest allows overwriting it. Otherwise two control planes would overwrite each other without end.
///
/// # Errors
/// When the interpreter cannot retain the fields that the member owns.
pub(crate) fn decide(
    manifest: &Value,
    observed: Option<&Value>,
    applied: Option<AppliedState>,
    own_id: Option<&str>,
    interpreter: &Interpreter,
) -> Result<Action, InterpretError> {
    let Some(observed) = observed else {
        let mut desired = manifest.clone();
        write_id(&mut desired, own_id);
        return Ok(Action::Create(Box::new(desired)));
    };
    if is_deleting(observed) || applied == Some(AppliedState::of(manifest, observed)) {
        return Ok(Action::None);
    }
    let overwrites = may_overwrite(manifest);
    if !is_managed(observed) && !overwrites {
        return Ok(Action::Reject);
    }
    if let Some(owner) = other_owner(observed, manifest, applied, own_id)
        && (applied.is_some() || !overwrites)
    {
        return Ok(Action::Conflict(owner));
    }
    let mut desired = manifest.clone();
    let retained = interpreter.retain(&mut desired, observed);
    let mut current = observed.clone();
    prune(&mut current);
    // Both results are computed before their errors are checked, so that both webhook requests are sent at the same
    // time.
    let normalized = interpreter.retain(&mut current, observed);
    retained.and(normalized)?;
    // An object that lacks nothing but the id is not written.
    retain_id(&mut desired, observed);
    Ok(if desired == current {
        Action::None
    } else {
        write_id(&mut desired, own_id);
        let desired = Box::new(desired);
        if reports_drift(manifest) {
            Action::Compare(desired)
        } else {
            Action::Update(desired)
        }
    })
}

fn may_overwrite(manifest: &Value) -> bool {
    let annotations = manifest.pointer("/metadata/annotations");
    annotations.and_then(|annotations| annotations.get(CONFLICT_RESOLUTION))
        == Some(&json!("overwrite"))
}

#[cfg(test)]
mod tests {
    use berth_api::well_known::{CONTROL_PLANE, DRIFT_MODE, DRIFT_MODE_REPORT, MANAGED};

    use super::*;

    fn decide(manifest: &Value, observed: Option<&Value>, applied: Option<AppliedState>) -> Action {
        super::decide(
            manifest,
            observed,
            applied,
            Some("this"),
            &Interpreter::default(),
        )
        .unwrap()
    }

    fn manifest() -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c",
            "labels": {(MANAGED): "true"}}, "data": {"a": "1"}})
    }

    fn observed(extra: Value) -> Value {
        let mut object = manifest();
        object["metadata"]["resourceVersion"] = json!("5");
        object["metadata"]["uid"] = json!("u");
        for (key, value) in extra.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    }

    #[test]
    fn missing_objects_are_created_and_drifted_ones_updated() {
        let Action::Create(created) = decide(&manifest(), None, None) else {
            panic!("the object is not created");
        };
        assert_eq!(created["data"], manifest()["data"]);
        assert_eq!(created["metadata"]["annotations"][CONTROL_PLANE], "this");
        assert_eq!(
            decide(&manifest(), Some(&observed(json!({}))), None),
            Action::None
        );
        let drifted = observed(json!({"data": {"a": "2"}}));
        let Action::Update(desired) = decide(&manifest(), Some(&drifted), None) else {
            panic!("drift is not corrected");
        };
        assert_eq!(desired["data"], json!({"a": "1"}));
        assert_eq!(desired["metadata"]["resourceVersion"], "5");
    }

    #[test]
    fn server_defaults_are_no_drift_after_the_first_write() {
        let defaulted = observed(json!({"immutable": false, "status": {"a": 1}}));
        assert!(matches!(
            decide(&manifest(), Some(&defaulted), None),
            Action::Update(_)
        ));
        let applied = Some(AppliedState::of(&manifest(), &defaulted));
        let mut reported = defaulted.clone();
        reported["status"] = json!({"a": 2});
        reported["metadata"]["resourceVersion"] = json!("6");
        assert_eq!(decide(&manifest(), Some(&reported), applied), Action::None);
        reported["data"]["a"] = json!("2");
        assert!(matches!(
            decide(&manifest(), Some(&reported), applied),
            Action::Update(_)
        ));
        let mut changed = manifest();
        changed["data"]["b"] = json!("3");
        assert!(matches!(
            decide(&changed, Some(&defaulted), applied),
            Action::Update(_)
        ));
    }

    #[test]
    fn unmanaged_objects_are_overwritten_only_with_conflict_resolution() {
        let mut unmanaged = observed(json!({}));
        unmanaged["metadata"]["labels"] = json!({"app": "x"});
        assert_eq!(decide(&manifest(), Some(&unmanaged), None), Action::Reject);
        let mut overwriting = manifest();
        overwriting["metadata"]["annotations"] = json!({(CONFLICT_RESOLUTION): "overwrite"});
        let Action::Update(desired) = decide(&overwriting, Some(&unmanaged), None) else {
            panic!("the object is not overwritten");
        };
        assert_eq!(
            desired["metadata"]["labels"],
            json!({"app": "x", (MANAGED): "true"})
        );
    }

    #[test]
    fn the_id_of_the_control_plane_causes_no_write_of_its_own() {
        let mut template_with_id = manifest();
        write_id(&mut template_with_id, Some("copied from a member"));
        for manifest in [manifest(), template_with_id] {
            let mut known = observed(json!({}));
            assert_eq!(decide(&manifest, Some(&known), None), Action::None);
            write_id(&mut known, Some("this"));
            assert_eq!(decide(&manifest, Some(&known), None), Action::None);
            known["data"]["a"] = json!("2");
            write_id(&mut known, None);
            let Action::Update(desired) = decide(&manifest, Some(&known), None) else {
                panic!("drift is not corrected");
            };
            assert_eq!(desired["metadata"]["annotations"][CONTROL_PLANE], "this");
        }
    }

    #[test]
    fn an_object_of_another_control_plane_is_overwritten_once_at_most() {
        let mut theirs = observed(json!({}));
        write_id(&mut theirs, Some("theirs"));
        let conflict = Action::Conflict(OtherOwner::Identified("theirs".to_owned()));
        assert_eq!(decide(&manifest(), Some(&theirs), None), conflict);
        let mut overwriting = manifest();
        overwriting["metadata"]["annotations"] = json!({(CONFLICT_RESOLUTION): "overwrite"});
        let Action::Update(ours) = decide(&overwriting, Some(&theirs), None) else {
            panic!("the object is not overwritten");
        };
        assert_eq!(ours["metadata"]["annotations"][CONTROL_PLANE], "this");
        let applied = Some(AppliedState::of(&overwriting, &ours));
        assert_eq!(decide(&overwriting, Some(&theirs), applied), conflict);
    }

    #[test]
    fn objects_being_deleted_are_left_alone() {
        let mut deleting = observed(json!({"data": {}}));
        deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(decide(&manifest(), Some(&deleting), None), Action::None);
    }

    #[test]
    fn a_manifest_that_reports_drift_is_compared_instead_of_written() {
        let mut reporting = manifest();
        reporting["metadata"]["annotations"] = json!({(DRIFT_MODE): DRIFT_MODE_REPORT});
        let drifted = observed(json!({"data": {"a": "2"}}));
        let Action::Compare(desired) = decide(&reporting, Some(&drifted), None) else {
            panic!("drift is not compared");
        };
        assert_eq!(desired["data"], json!({"a": "1"}));
        assert!(matches!(decide(&reporting, None, None), Action::Create(_)));
        let applied = Some(AppliedState::of(&reporting, &drifted));
        assert_eq!(decide(&reporting, Some(&drifted), applied), Action::None);
        // Other values of the annotation have no meaning.
        reporting["metadata"]["annotations"][DRIFT_MODE] = json!("off");
        assert!(matches!(
            decide(&reporting, Some(&drifted), None),
            Action::Update(_)
        ));
    }
}
