//! The schemas of built-in kinds. They are generated from k8s-openapi at the first use, and all servers of the process
//! share them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use parking_lot::Mutex;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value};

use super::compile::{Resolve, compile};
use super::{Schema, Type, merge_keys, null_lists};

static DEFINITIONS: LazyLock<Map<String, Value>> = LazyLock::new(generate);

static COMPILED: LazyLock<Mutex<HashMap<String, Arc<Schema>>>> = LazyLock::new(Mutex::default);

/// Returns the OpenAPI definitions by name, such as `io.k8s.api.apps.v1.Deployment`.
pub(crate) fn definitions() -> &'static Map<String, Value> {
    &DEFINITIONS
}

/// Returns the compiled schema of a definition. The result is the open schema, which accepts every value, if the
/// definition is unknown.
pub(crate) fn compiled(name: &str) -> Arc<Schema> {
    if let Some(schema) = COMPILED.lock().get(name) {
        return schema.clone();
    }
    let mut memo = Memo {
        compiled: COMPILED.lock().clone(),
        in_progress: Vec::new(),
    };
    let schema = memo.resolve(name, 0).unwrap_or_else(Schema::open);
    COMPILED.lock().extend(memo.compiled);
    schema
}

/// Returns the schema of `metadata`.
pub(crate) fn object_meta() -> Arc<Schema> {
    compiled("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

fn generate() -> Map<String, Value> {
    let mut generator: SchemaGenerator = SchemaSettings::openapi3().into_generator();
    macro_rules! add {
        ($($kind:ty),* $(,)?) => { $( generator.subschema_for::<$kind>(); )* };
    }
    add!(
        meta::ObjectMeta,
        meta::DeleteOptions,
        meta::Status,
        meta::ListMeta,
        api::admissionregistration::v1::MutatingWebhookConfiguration,
        api::admissionregistration::v1::ValidatingWebhookConfiguration,
        api::core::v1::Namespace,
        api::core::v1::ConfigMap,
        api::core::v1::Secret,
        api::core::v1::Service,
        api::core::v1::ServiceAccount,
        api::core::v1::Pod,
        api::core::v1::PodTemplate,
        api::core::v1::Node,
        api::core::v1::Event,
        api::core::v1::PersistentVolume,
        api::core::v1::PersistentVolumeClaim,
        api::core::v1::ResourceQuota,
        api::core::v1::LimitRange,
        api::core::v1::ReplicationController,
        api::core::v1::Endpoints,
        api::apps::v1::Deployment,
        api::apps::v1::ReplicaSet,
        api::apps::v1::StatefulSet,
        api::apps::v1::DaemonSet,
        api::apps::v1::ControllerRevision,
        api::batch::v1::Job,
        api::batch::v1::CronJob,
        api::autoscaling::v1::Scale,
        api::autoscaling::v1::HorizontalPodAutoscaler,
        api::autoscaling::v2::HorizontalPodAutoscaler,
        api::networking::v1::Ingress,
        api::networking::v1::NetworkPolicy,
        api::networking::v1::IngressClass,
        api::policy::v1::Eviction,
        api::policy::v1::PodDisruptionBudget,
        api::rbac::v1::Role,
        api::rbac::v1::RoleBinding,
        api::rbac::v1::ClusterRole,
        api::rbac::v1::ClusterRoleBinding,
        api::certificates::v1::CertificateSigningRequest,
        api::coordination::v1::Lease,
        api::events::v1::Event,
        api::scheduling::v1::PriorityClass,
        api::storage::v1::StorageClass,
        api::discovery::v1::EndpointSlice,
        api::authorization::v1::SelfSubjectAccessReview,
        api::authorization::v1::SelfSubjectRulesReview,
        api::authorization::v1::SubjectAccessReview,
        api::authorization::v1::LocalSubjectAccessReview,
        api::authentication::v1::TokenRequest,
        api::authentication::v1::TokenReview,
        api::authentication::v1::SelfSubjectReview,
        CustomResourceDefinition,
    );
    generator.take_definitions(true)
}

/// A resolver that compiles each definition once.
struct Memo {
    compiled: HashMap<String, Arc<Schema>>,
    /// The definitions that are being compiled. A reference to one of these definitions is a cycle.
    in_progress: Vec<String>,
}

impl Resolve for Memo {
    fn object_meta(&self) -> Arc<Schema> {
        object_meta()
    }

    fn resolve(&mut self, name: &str, depth: usize) -> Option<Arc<Schema>> {
        if let Some(schema) = self.compiled.get(name) {
            return Some(schema.clone());
        }
        let Some(json) = DEFINITIONS.get(name) else {
            return Some(Schema::open());
        };
        // Only `JSONSchemaProps` refers to itself. Its schema is open, and only unknown keywords in it are pruned.
        if name.ends_with(".JSONSchemaProps") {
            return Some(Arc::new(Schema {
                of_schemas: true,
                ..(*Schema::open()).clone()
            }));
        }
        if self.in_progress.iter().any(|other| other == name) {
            return Some(Schema::open());
        }
        self.in_progress.push(name.to_owned());
        let mut schema = compile(json, self, name, depth)?;
        self.in_progress.pop();
        merge_keys::annotate(name, "", &mut schema);
        if name.ends_with(".Quantity") {
            schema.kind = Type::Quantity;
        }
        // A type without properties is free-form, for example `FieldsV1`, `RawExtension` and `JSON`.
        if schema.properties.is_empty()
            && schema.items.is_none()
            && matches!(schema.kind, Type::Object | Type::Any)
        {
            schema.preserve_unknown = true;
        }
        schema.nullable = true;
        let schema = Arc::new(schema);
        self.compiled.insert(name.to_owned(), schema.clone());
        Some(schema)
    }

    fn annotate(&self, definition: &str, property: &str, schema: &mut Schema) {
        merge_keys::annotate(definition, property, schema);
        null_lists::annotate(definition, property, schema);
    }
}
