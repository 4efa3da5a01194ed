//! Names of images: `ubuntu`, `ubuntu:24.04`, `registry.example:5000/team/image@sha256:...`.
//!
//! The rules are those of the distribution project's references, as Docker and containerd's CRI plugin apply them: a name without a
//! registry is one of Docker Hub, one without a folder there is in `library`, one without a tag has the tag `latest`.

use std::fmt;

/// The name of an image, in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Registry and repository in full: `docker.io/library/ubuntu`.
    pub repository: String,
    /// `24.04`; `latest` where none is named, `None` where only a digest is.
    pub tag: Option<String>,
    /// `sha256:...`.
    pub digest: Option<String>,
}

impl Reference {
    /// Reads a name. `None` when it is none, such as the bare id of an image.
    #[must_use]
    pub fn parse(name: &str) -> Option<Reference> {
        let (rest, digest) = match name.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.to_owned())),
            None => (name, None),
        };
        // A colon after the last slash begins a tag; one before it, a port.
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag.to_owned())),
            _ => (rest, None),
        };
        if path.is_empty() || is_id(path) || path == "sha256" {
            return None;
        }
        let good = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:".contains(c));
        if !good(path) || !tag.as_deref().is_none_or(good) || !digest.as_deref().is_none_or(good) {
            return None;
        }
        let (host, below) = match path.split_once('/') {
            Some((host, below)) if host.contains(['.', ':']) || host == "localhost" => (host, below.to_owned()),
            _ => ("docker.io", path.to_owned()),
        };
        let host = if host == "index.docker.io" { "docker.io" } else { host };
        let below = if host == "docker.io" && !below.contains('/') { format!("library/{below}") } else { below };
        let tag = tag.or_else(|| digest.is_none().then(|| "latest".to_owned()));
        Some(Reference { repository: format!("{host}/{below}"), tag, digest })
    }
}

/// 12 to 64 hexadecimal digits: the id of an image, in full or shortened.
fn is_id(name: &str) -> bool {
    (12..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_hexdigit())
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Reference;

    #[test]
    fn a_name_is_written_out_as_the_container_runtime_does() {
        for (name, full) in [
            ("ubuntu", Some("docker.io/library/ubuntu:latest")),
            ("ubuntu:24.04", Some("docker.io/library/ubuntu:24.04")),
            ("dralab-test/workload:1", Some("docker.io/dralab-test/workload:1")),
            ("docker.io/library/ubuntu:24.04", Some("docker.io/library/ubuntu:24.04")),
            ("index.docker.io/library/ubuntu", Some("docker.io/library/ubuntu:latest")),
            ("localhost/mine", Some("localhost/mine:latest")),
            ("registry.example:5000/team/image", Some("registry.example:5000/team/image:latest")),
            ("dralab.local/driver:0.1.0-abcdef012345", Some("dralab.local/driver:0.1.0-abcdef012345")),
            ("kindest/node:v1.37.1@sha256:ab", Some("docker.io/kindest/node:v1.37.1@sha256:ab")),
            ("kindest/node@sha256:ab", Some("docker.io/kindest/node@sha256:ab")),
            ("sha256:0123", None),
            ("0123456789ab", None),
            ("", None),
            ("a b", None),
            (":tag", None),
        ] {
            assert_eq!(Reference::parse(name).map(|r| r.to_string()).as_deref(), full, "{name}");
        }
    }
}
