//! The image overrider. It changes the registry, the repository, and the tag or digest of container images.

use berth_api::override_policy::{ImageComponent, ImageOverrider, OverriderOperator};
use serde_json::{Value, json};

use super::containers::containers_mut;
use super::error::ApplyError;

/// A parsed image name. If the name has both a tag and a digest, the digest is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    registry: String,
    repository: String,
    version: Version,
}

/// The tag or digest of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    /// The image has no tag and no digest.
    None,
    /// A tag, for example `1.19`.
    Tag(String),
    /// A digest, for example `sha256:50d8…`.
    Digest(String),
}

impl Version {
    fn as_str(&self) -> &str {
        match self {
            Self::None => "",
            Self::Tag(text) | Self::Digest(text) => text,
        }
    }

    /// Parses a tag or digest.
    fn parse(text: &str) -> Option<Self> {
        if is_tag(text) {
            Some(Self::Tag(text.to_owned()))
        } else if is_digest(text) {
            Some(Self::Digest(text.to_owned()))
        } else {
            None
        }
    }
}

impl Image {
    fn parse(text: &str) -> Result<Self, ApplyError> {
        let malformed = || ApplyError::Image(text.to_owned());
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) if is_digest(digest) => (rest, Some(digest)),
            Some(_) => return Err(malformed()),
            None => (text, None),
        };
        let (path, tag) = match rest.rsplit_once(':') {
            // A colon before a slash begins a port.
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (rest, None),
        };
        if !tag.is_none_or(is_tag) {
            return Err(malformed());
        }
        let (registry, repository) = match path.split_once('/') {
            Some((first, others)) if first.contains(['.', ':']) || first == "localhost" => {
                (first, others)
            }
            _ => ("", path),
        };
        if !is_repository(repository) {
            return Err(malformed());
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            version: match (tag, digest) {
                (Some(tag), _) => Version::Tag(tag.to_owned()),
                (None, Some(digest)) => Version::Digest(digest.to_owned()),
                (None, None) => Version::None,
            },
        })
    }

    fn change(&mut self, overrider: &ImageOverrider) {
        let value = &overrider.value;
        match overrider.component {
            ImageComponent::Registry => change_text(&mut self.registry, overrider),
            ImageComponent::Repository => change_text(&mut self.repository, overrider),
            ImageComponent::Tag => {
                let version = match overrider.operator {
                    OverriderOperator::Add => {
                        Version::parse(&format!("{}{value}", self.version.as_str()))
                    }
                    OverriderOperator::Replace => Version::parse(value),
                    OverriderOperator::Remove => Some(Version::None),
                    OverriderOperator::Other(_) => None,
                };
                // A value that is neither tag nor digest changes nothing.
                if let Some(version) = version {
                    self.version = version;
                }
            }
            ImageComponent::Other(_) => {}
        }
    }
}

impl std::fmt::Display for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.registry.is_empty() {
            write!(f, "{}/", self.registry)?;
        }
        f.write_str(&self.repository)?;
        match &self.version {
            Version::None => Ok(()),
            Version::Tag(tag) => write!(f, ":{tag}"),
            Version::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

fn change_text(part: &mut String, overrider: &ImageOverrider) {
    match overrider.operator {
        OverriderOperator::Add => part.push_str(&overrider.value),
        OverriderOperator::Replace => part.clone_from(&overrider.value),
        OverriderOperator::Remove => part.clear(),
        OverriderOperator::Other(_) => {}
    }
}

fn is_repository(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/".contains(c);
    !text.is_empty()
        && text.chars().all(allowed)
        && text
            .split('/')
            .all(|part| part.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=128).contains(&text.len())
        && text.starts_with(word)
        && text.chars().all(|c| word(c) || c == '.' || c == '-')
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
            && hex.len() >= 32
            && hex.chars().all(|c| c.is_ascii_hexdigit())
    })
}

/// Changes the image at the path of the predicate. Without a predicate, changes the images of all containers.
pub(super) fn apply(resource: &mut Value, overrider: &ImageOverrider) -> Result<(), ApplyError> {
    if let Some(predicate) = &overrider.predicate {
        let Some(Value::String(text)) = resource.pointer_mut(&predicate.path) else {
            return Err(ApplyError::NotText(predicate.path.clone()));
        };
        *text = changed(text, overrider)?;
        return Ok(());
    }
    for container in containers_mut(resource) {
        let image = container.get("image").and_then(Value::as_str);
        let image = changed(image.unwrap_or_default(), overrider)?;
        if let Some(container) = container.as_object_mut() {
            container.insert("image".to_owned(), json!(image));
        }
    }
    Ok(())
}

fn changed(text: &str, overrider: &ImageOverrider) -> Result<String, ApplyError> {
    let mut image = Image::parse(text)?;
    image.change(overrider);
    Ok(image.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_an_image_can_be_changed() {
        let digest = format!("sha256:{}", "5".repeat(64));
        let by_digest = format!("nginx@{digest}");
        for (image, component, operator, value, expected) in [
            ("nginx", "Registry", "add", "a.io", "a.io/nginx"),
            (
                "b.io:5000/x/nginx:1",
                "Registry",
                "replace",
                "a.io",
                "a.io/x/nginx:1",
            ),
            ("localhost/nginx", "Registry", "remove", "", "nginx"),
            ("b.io/nginx", "Registry", "add", ".cn", "b.io.cn/nginx"),
            (
                "lib/nginx:1",
                "Repository",
                "replace",
                "busybox",
                "busybox:1",
            ),
            ("nginx", "Tag", "add", "1.0", "nginx:1.0"),
            ("nginx:1", "Tag", "add", "-alpine", "nginx:1-alpine"),
            ("nginx:1", "Tag", "remove", "", "nginx"),
            ("nginx:1", "Tag", "replace", &digest, &by_digest),
            (&by_digest, "Tag", "replace", "2", "nginx:2"),
            ("nginx:1", "Tag", "replace", "no tag", "nginx:1"),
        ] {
            let overrider = serde_json::from_value(
                json!({"component": component, "operator": operator, "value": value}),
            )
            .unwrap();
            assert_eq!(
                changed(image, &overrider).unwrap(),
                expected,
                "{image} {component} {operator} {value}"
            );
        }
        for bad in ["", "Nginx", "a.io/", "nginx:no tag", "nginx@sha256:1"] {
            assert!(Image::parse(bad).is_err(), "{bad}");
        }
    }
}
