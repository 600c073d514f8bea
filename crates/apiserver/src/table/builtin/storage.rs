//! The columns of volumes, claims and storage classes.

use serde_json::json;

use super::cell::{AGE, joined, or, string, text, wide};
use crate::table::BuiltinColumn;

/// Returns the columns of a kind after its name.
pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("", "persistentvolumes") => {
            const {
                &[
                    text("Capacity", |o| o["spec"]["capacity"]["storage"].clone()),
                    text("Access Modes", |o| {
                        joined(&o["spec"]["accessModes"], string, "")
                    }),
                    text("Reclaim Policy", |o| {
                        o["spec"]["persistentVolumeReclaimPolicy"].clone()
                    }),
                    text("Status", |o| o["status"]["phase"].clone()),
                    text("Claim", |o| {
                        let claim = &o["spec"]["claimRef"];
                        json!(match claim["name"].as_str() {
                            Some(name) => format!("{}/{name}", string(&claim["namespace"])),
                            None => String::new(),
                        })
                    }),
                    text("StorageClass", |o| or(&o["spec"]["storageClassName"], "")),
                    text("VolumeAttributesClass", |o| {
                        or(&o["spec"]["volumeAttributesClassName"], "<unset>")
                    }),
                    text("Reason", |o| or(&o["status"]["reason"], "")),
                    AGE,
                    wide("VolumeMode", |o| or(&o["spec"]["volumeMode"], "<unset>")),
                ]
            }
        }
        ("", "persistentvolumeclaims") => {
            const {
                &[
                    text("Status", |o| o["status"]["phase"].clone()),
                    text("Volume", |o| or(&o["spec"]["volumeName"], "")),
                    text("Capacity", |o| or(&o["status"]["capacity"]["storage"], "")),
                    text("Access Modes", |o| {
                        joined(&o["status"]["accessModes"], string, "")
                    }),
                    text("StorageClass", |o| or(&o["spec"]["storageClassName"], "")),
                    text("VolumeAttributesClass", |o| {
                        or(&o["spec"]["volumeAttributesClassName"], "<unset>")
                    }),
                    AGE,
                    wide("VolumeMode", |o| or(&o["spec"]["volumeMode"], "<unset>")),
                ]
            }
        }
        ("storage.k8s.io", "storageclasses") => {
            const {
                &[
                    text("Provisioner", |o| o["provisioner"].clone()),
                    text("ReclaimPolicy", |o| or(&o["reclaimPolicy"], "Delete")),
                    text("VolumeBindingMode", |o| {
                        or(&o["volumeBindingMode"], "Immediate")
                    }),
                    text("AllowVolumeExpansion", |o| {
                        json!(o["allowVolumeExpansion"] == true)
                    }),
                    AGE,
                ]
            }
        }
        _ => return None,
    })
}
