//! The image overrider. It changes the registry, the repository, and the tag or digest of container images.

use berth_api::override_policy::{ImageComponent, ImageOverrider, OverriderOperator};
use serde_json::{Value, json};

use super::containers::containers_mut;
use super::error::ApplyError;

/// A parsed image name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Image {
    registry: String,
    repository: String,
    version: Version,
}

/// The tag and the digest of an image. The component `Tag` of an overrider is the whole version: the digest of an
/// image belongs to its tag, so an override of the tag also replaces the digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Version {
    /// The tag, for example `1.19`.
    tag: Option<String>,
    /// The digest, for example `sha256:50d8…`.
    digest: Option<String>,
}

impl Version {
    /// Parses a tag, a digest, or `TAG@DIGEST`.
    fn parse(text: &str) -> Option<Self> {
        if is_digest(text) {
            return Some(Self {
                tag: None,
                digest: Some(text.to_owned()),
            });
        }
        let (tag, digest) = match text.split_once('@') {
            Some((tag, digest)) => (tag, Some(digest)),
            None => (text, None),
        };
        (is_tag(tag) && digest.is_none_or(is_digest)).then(|| Self {
            tag: Some(tag.to_owned()),
            digest: digest.map(str::to_owned),
        })
    }

    /// Appends text to the tag, or to the digest of an image without a tag.
    fn with_suffix(&self, suffix: &str) -> Option<Self> {
        let own = self.tag.as_ref().or(self.digest.as_ref());
        Self::parse(&format!("{}{suffix}", own.map_or("", String::as_str)))
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
            version: Version {
                tag: tag.map(str::to_owned),
                digest: digest.map(str::to_owned),
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
                    OverriderOperator::Add => self.version.with_suffix(value),
                    OverriderOperator::Replace => Version::parse(value),
                    OverriderOperator::Remove => Some(Version::default()),
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
        if let Some(tag) = &self.version.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.version.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
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
    #[expect(clippy::too_many_lines, reason = "a table is as long as its rules")]
    fn every_part_of_an_image_can_be_changed() {
        let digest = format!("sha256:{}", "5".repeat(64));
        let by_digest = format!("nginx@{digest}");
        let pinned = format!("b.io:5000/x/nginx:1@{digest}");
        let other = format!("sha256:{}", "6".repeat(64));
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
            // A change of the registry or the repository keeps the tag and the digest.
            (
                &pinned,
                "Registry",
                "replace",
                "a.io:8443",
                &format!("a.io:8443/x/nginx:1@{digest}"),
            ),
            (
                &pinned,
                "Registry",
                "remove",
                "",
                &format!("x/nginx:1@{digest}"),
            ),
            (
                &pinned,
                "Repository",
                "replace",
                "y",
                &format!("b.io:5000/y:1@{digest}"),
            ),
            (
                &by_digest,
                "Registry",
                "add",
                "localhost",
                &format!("localhost/nginx@{digest}"),
            ),
            (
                &by_digest,
                "Repository",
                "add",
                "-alpine",
                &format!("nginx-alpine@{digest}"),
            ),
            // A change of the version replaces both.
            (&pinned, "Tag", "replace", "2", "b.io:5000/x/nginx:2"),
            (
                &pinned,
                "Tag",
                "replace",
                &other,
                &format!("b.io:5000/x/nginx@{other}"),
            ),
            (
                &pinned,
                "Tag",
                "replace",
                &format!("2@{other}"),
                &format!("b.io:5000/x/nginx:2@{other}"),
            ),
            (&pinned, "Tag", "remove", "", "b.io:5000/x/nginx"),
            (
                &pinned,
                "Tag",
                "add",
                "-alpine",
                "b.io:5000/x/nginx:1-alpine",
            ),
            (
                "nginx:1",
                "Tag",
                "add",
                &format!("@{digest}"),
                &format!("nginx:1@{digest}"),
            ),
            (&pinned, "Tag", "replace", "2@sha256:1", &pinned),
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
