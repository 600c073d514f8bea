//! A macro that declares the kinds of the API. An object of a kind has `apiVersion`, `kind`, `metadata`, one content
//! field (usually `spec`), and possibly `status`.
//!
//! The derive macro of kube requires a separate spec type for each kind. Karmada has pairs of kinds with equal schemas,
//! such as ResourceBinding and ClusterResourceBinding. With this macro, both kinds of a pair share the types of `spec`
//! and `status`, so most code treats the two kinds alike.

/// Declares the struct of a kind, and implements [`kube::Resource`] for the struct. The doc comment of the kind is also
/// its description in the CustomResourceDefinition.
macro_rules! root_kind {
    (
        $(#[doc = $doc:literal])+
        $name:ident {
            group: $group:literal, version: $version:literal, plural: $plural:literal, scope: $scope:ty,
            $field:ident: $spec:ty $(, status: $status:ty)? $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// Standard object metadata.
            #[serde(default)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// The desired state.
            pub $field: $spec,
            $(
                /// The observed state.
                #[serde(default)]
                pub status: Option<$status>,
            )?
        }

        impl $name {
            /// The description of the kind in the CustomResourceDefinition.
            pub(crate) const DESCRIPTION: &'static str = concat!($($doc),+).trim_ascii();

            /// Creates an object with this name and desired state.
            pub fn new(name: &str, $field: $spec) -> Self {
                Self {
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                        name: Some(name.to_owned()),
                        ..Default::default()
                    },
                    $field,
                    $( status: None::<$status>, )?
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("apiVersion", concat!($group, "/", $version))?;
                map.serialize_entry("kind", stringify!($name))?;
                map.serialize_entry("metadata", &self.metadata)?;
                map.serialize_entry(stringify!($field), &self.$field)?;
                $(
                    if let Some(status) = &self.status {
                        map.serialize_entry::<_, $status>("status", status)?;
                    }
                )?
                map.end()
            }
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = $scope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn api_version(_: &()) -> std::borrow::Cow<'_, str> {
                concat!($group, "/", $version).into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use root_kind;
