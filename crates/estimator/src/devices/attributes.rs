//! The facts about a device that selectors read, stored compactly: a member may have tens of thousands of devices.

use k8s_openapi::api::resource::v1::{Device, DeviceAttribute};

/// The facts about a device that selectors read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) attributes: Box<[(Box<str>, Attribute)]>,
    /// The quantities by name.
    pub(super) capacity: Box<[(Box<str>, Box<str>)]>,
    pub(super) allows_multiple_allocations: bool,
}

/// The value of an attribute.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Bool(bool),
    Int(i64),
    Text(Box<str>),
    /// A semantic version.
    Version(Box<str>),
    List(Box<[Self]>),
    /// A value of a type that this version does not know.
    Unknown,
}

impl Facts {
    pub(super) fn of(device: &Device) -> Self {
        let attributes = device.attributes.iter().flatten();
        let capacity = device.capacity.iter().flatten();
        Self {
            attributes: attributes
                .map(|(name, attribute)| (name.as_str().into(), Attribute::of(attribute)))
                .collect(),
            capacity: capacity
                .map(|(name, amount)| (name.as_str().into(), amount.value.0.as_str().into()))
                .collect(),
            allows_multiple_allocations: device.allow_multiple_allocations == Some(true),
        }
    }
}

impl Attribute {
    fn of(attribute: &DeviceAttribute) -> Self {
        let text = |text: &String| Self::Text(text.as_str().into());
        let version = |text: &String| Self::Version(text.as_str().into());
        let DeviceAttribute {
            bool,
            bools,
            int,
            ints,
            string,
            strings,
            version: single_version,
            versions,
        } = attribute;
        let number = int.map(Self::Int);
        number
            .or_else(|| bool.map(Self::Bool))
            .or_else(|| string.as_ref().map(text))
            .or_else(|| single_version.as_ref().map(version))
            .or_else(|| Self::list(ints.as_ref(), |value| Self::Int(*value)))
            .or_else(|| Self::list(bools.as_ref(), |value| Self::Bool(*value)))
            .or_else(|| Self::list(strings.as_ref(), text))
            .or_else(|| Self::list(versions.as_ref(), version))
            .unwrap_or(Self::Unknown)
    }

    fn list<T>(values: Option<&Vec<T>>, convert: impl Fn(&T) -> Self) -> Option<Self> {
        Some(Self::List(values?.iter().map(convert).collect()))
    }
}
