//! Names of objects, finalizers and a secret type that several parts of the server use.

/// The default service account of a namespace.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";
/// The ConfigMap with the CA certificate of the server, which exists in each namespace.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";
/// Namespace and name of the Service of the API server.
pub(crate) const API_SERVICE: (&str, &str) = ("default", "kubernetes");
/// The type of secrets that contain a service account token.
pub(crate) const TOKEN_SECRET_TYPE: &str = "kubernetes.io/service-account-token";
/// The finalizer of an object whose foreground deletion is in progress.
pub(crate) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents become orphans at the deletion.
pub(crate) const ORPHAN_FINALIZER: &str = "orphan";
/// The finalizer of a CustomResourceDefinition that still has objects.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
