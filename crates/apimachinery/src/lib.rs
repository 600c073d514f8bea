//! Types and functions that Kubernetes API servers, clients and controllers share.
//!
//! The crate contains no Karmada types, no scheduling and no runtime. The modules are independent of each other, except
//! that `json_patch` uses `json_size`, `label_selector` uses `dns`, and `conflict_retry` uses `api_error`:
//!
//! | module | contents | feature |
//! |---|---|---|
//! | [`quantity`] | resource quantities such as `500m` and `1Gi`: text, exact number, arithmetic | |
//! | [`label_selector`] | label selectors: the API type, its compiled form, the syntax of labels; the text form with the feature `json` | |
//! | [`log_limit`] | limit on log lines that clients cause | |
//! | [`repeated_failure`] | log lines of a failure that repeats: at once, after growing pauses, and at its end | |
//! | [`dns`] | checks of DNS labels and subdomains | |
//! | [`mod@go_bool`] | booleans in Go's notation, for flags | |
//! | [`go_platform`] | the platform of the program, with Go's names of architectures | |
//! | [`namespaced_name`] | the name of a namespaced object, as `NAMESPACE/NAME` | |
//! | [`timestamp`] | times in whole seconds | |
//! | `jsonpath` | JSONPath as in `kubectl -o jsonpath` and printer columns | `jsonpath` |
//! | `json_fields`, `json_size` | fields of objects as JSON, and the size of JSON values | `json` |
//! | `field_changes` | the fields in which two documents differ | `json` |
//! | `merge_diff` | the JSON merge patch between two documents | `json` |
//! | `json_patch` | JSON patches with bounds | `json-patch` |
//! | `go_regex` | regular expressions in Go's syntax | `go-regex` |
//! | `api_error` | messages for errors of a kube client | `api-error` |
//! | `conflict_retry` | writes of objects that other clients change at the same time | `api-error` |
//! | `dynamic_object` | conversion between typed objects and dynamic objects | `dynamic-object` |

#[cfg(feature = "api-error")]
pub mod api_error;
#[cfg(feature = "api-error")]
pub mod conflict_retry;
pub mod dns;
#[cfg(feature = "dynamic-object")]
pub mod dynamic_object;
#[cfg(feature = "json")]
pub mod field_changes;
pub mod go_bool;
pub mod go_platform;
#[cfg(feature = "go-regex")]
pub mod go_regex;
#[cfg(feature = "json")]
pub mod json_fields;
#[cfg(feature = "json-patch")]
pub mod json_patch;
#[cfg(feature = "json")]
pub mod json_size;
#[cfg(feature = "jsonpath")]
pub mod jsonpath;
pub mod label_selector;
pub mod log_limit;
#[cfg(feature = "json")]
pub mod merge_diff;
pub mod namespaced_name;
pub mod quantity;
pub mod repeated_failure;
pub mod timestamp;
