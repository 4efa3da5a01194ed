//! Which node image: by name, or by Kubernetes version.

use crate::model::features::{NEWEST, OLDEST};

/// Node images of kind v0.33.0, newest first: minor and patch version, digest. All four are listed in the release notes of kind v0.33.0
/// (github.com/kubernetes-sigs/kind, tag v0.33.0); the first is also its built-in default (`pkg/apis/config/defaults/image.go`).
const KNOWN: &[(u32, u32, &str)] = &[
    (37, 0, "sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5"),
    (36, 4, "sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed"),
    (35, 8, "sha256:07b2536e30b803ed61d1677a79df6115f798ce64c80f9e22f6ed45afd09323c0"),
    (34, 11, "sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d"),
];

/// Versions whose kubelet deadlocks with DRA (kubernetes/kubernetes#133920, fixed in 1.34.2).
const DEADLOCK: &[(u32, u32)] = &[(34, 0), (34, 1)];

/// The repository of kind's own node images.
const REPOSITORY: &str = "kindest/node";

/// A Kubernetes version 1.`minor`, with the patch where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kubernetes {
    /// The minor version.
    pub minor: u32,
    /// The patch version.
    pub patch: Option<u32>,
}

impl Kubernetes {
    /// Reads `1.37`, `1.37.2` or `v1.37.2`; what follows a `-` or `+` is not looked at.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let core = text.split(['-', '+', '_']).next().unwrap_or_default();
        let mut parts = core.split('.');
        if parts.next() != Some("1") {
            return None;
        }
        let minor = parts.next()?.parse().ok()?;
        let patch = parts.next().map(str::parse).transpose().ok()?;
        parts.next().is_none().then_some(Kubernetes { minor, patch })
    }

    /// Refuses what cannot carry a lab.
    ///
    /// # Errors
    /// A version without DRA's v1 API, one that this build does not know, or one with a known fault.
    pub fn check(self) -> Result<(), NodeImageError> {
        if self.minor < OLDEST || self.minor > NEWEST {
            return Err(NodeImageError::Outside { version: self });
        }
        if self.patch.is_some_and(|patch| DEADLOCK.contains(&(self.minor, patch))) {
            return Err(NodeImageError::Deadlock { version: self });
        }
        Ok(())
    }
}

impl std::fmt::Display for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "1.{}", self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

/// A node image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImage {
    /// Its name, with the digest where one is known.
    pub name: String,
    /// The version that it is taken to have; what it really has is read from the cluster.
    pub version: Kubernetes,
    /// The name has a digest.
    pub pinned: bool,
    /// The user named it.
    pub named: bool,
}

/// Why there is no node image to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeImageError {
    /// Not a Kubernetes version.
    #[error("{text:?} is not a Kubernetes version such as 1.37 or 1.37.2")]
    NotAVersion {
        /// What was given.
        text: String,
    },
    /// Not one of the versions that a lab can have.
    #[error("a lab needs Kubernetes 1.{OLDEST} to 1.{NEWEST}, and this is {version}")]
    Outside {
        /// What was asked for.
        version: Kubernetes,
    },
    /// The kubelet of this version deadlocks.
    #[error("the kubelet of Kubernetes {version} deadlocks when a pod with claims ends (kubernetes/kubernetes#133920); 1.34.2 has the fix")]
    Deadlock {
        /// What was asked for.
        version: Kubernetes,
    },
    /// The image's name does not say its version.
    #[error("the name of node image {image} does not tell its Kubernetes version")]
    Unversioned {
        /// The image.
        image: String,
    },
    /// The two flags contradict each other.
    #[error("node image {image} is Kubernetes {of_image} by its name, and {asked} was asked for")]
    Contradiction {
        /// The image.
        image: String,
        /// The version in its name.
        of_image: Kubernetes,
        /// The version asked for.
        asked: Kubernetes,
    },
}

/// Chooses the node image: the one named, else kind's own of the version asked for, else of the newest version. A version that is not
/// among the known images goes by tag, without a digest.
///
/// # Errors
/// When the version is not one that a lab can have, or cannot be told.
pub fn choose(image: Option<&str>, kubernetes: Option<&str>) -> Result<NodeImage, NodeImageError> {
    let asked =
        kubernetes.map(|text| Kubernetes::parse(text).ok_or_else(|| NodeImageError::NotAVersion { text: text.to_owned() })).transpose()?;
    if let Some(asked) = asked {
        asked.check()?;
    }
    if let Some(image) = image {
        return named(image, asked);
    }
    let row = KNOWN.iter().find(|row| asked.is_none_or(|a| a.minor == row.0 && a.patch.is_none_or(|patch| patch == row.1)));
    Ok(match (row, asked) {
        (Some((minor, patch, digest)), _) => NodeImage {
            name: format!("{REPOSITORY}:v1.{minor}.{patch}@{digest}"),
            version: Kubernetes { minor: *minor, patch: Some(*patch) },
            pinned: true,
            named: false,
        },
        (None, asked) => {
            let version = asked.unwrap_or(Kubernetes { minor: NEWEST, patch: None });
            NodeImage { name: format!("{REPOSITORY}:v{version}"), version, pinned: false, named: false }
        }
    })
}

fn named(image: &str, asked: Option<Kubernetes>) -> Result<NodeImage, NodeImageError> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    // A colon before the last slash belongs to a registry's port.
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    let of_image = tag.and_then(Kubernetes::parse);
    let version = match (of_image, asked) {
        (Some(of_image), Some(asked)) => {
            let differs = of_image.minor != asked.minor || matches!((of_image.patch, asked.patch), (Some(a), Some(b)) if a != b);
            if differs {
                return Err(NodeImageError::Contradiction { image: image.to_owned(), of_image, asked });
            }
            of_image.max(asked)
        }
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return Err(NodeImageError::Unversioned { image: image.to_owned() }),
    };
    version.check()?;
    Ok(NodeImage { name: image.to_owned(), version, pinned: digest.is_some(), named: true })
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, Kubernetes, choose};

    #[test]
    fn versions_read() {
        let version = |minor, patch| Some(Kubernetes { minor, patch });
        for (text, expected) in [
            ("1.37", version(37, None)),
            ("v1.37.2", version(37, Some(2))),
            ("1.36.0-rc.1", version(36, Some(0))),
            ("v1.35.4+k3s1", version(35, Some(4))),
            ("2.0", None),
            ("1", None),
            ("1.x", None),
            ("1.37.2.1", None),
            ("latest", None),
            ("", None),
        ] {
            assert_eq!(Kubernetes::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn an_image_is_found_or_refused_with_the_reason() {
        let pinned = |row: usize| format!("kindest/node:v1.{}.{}@{}", KNOWN[row].0, KNOWN[row].1, KNOWN[row].2);
        for (image, kubernetes, expected) in [
            (None, None, Ok((pinned(0), true))),
            (None, Some("1.37"), Ok((pinned(0), true))),
            (None, Some("1.36"), Ok((pinned(1), true))),
            (None, Some("1.35"), Ok((pinned(2), true))),
            (None, Some("v1.34"), Ok((pinned(3), true))),
            (None, Some("1.34.11"), Ok((pinned(3), true))),
            (None, Some("1.36.1"), Ok(("kindest/node:v1.36.1".to_owned(), false))),
            (None, Some("1.34.0"), Err("the kubelet of Kubernetes 1.34.0 deadlocks")),
            (None, Some("1.34.1"), Err("kubernetes/kubernetes#133920")),
            (None, Some("1.33"), Err("a lab needs Kubernetes 1.34 to 1.37, and this is 1.33")),
            (None, Some("1.38"), Err("a lab needs Kubernetes 1.34 to 1.37, and this is 1.38")),
            (None, Some("new"), Err("\"new\" is not a Kubernetes version")),
            (Some("dralab-test/node:v1.37.2"), None, Ok(("dralab-test/node:v1.37.2".to_owned(), false))),
            (Some("r:5000/n:v1.36.2@sha256:ab"), Some("1.36"), Ok(("r:5000/n:v1.36.2@sha256:ab".to_owned(), true))),
            (Some("r:5000/n"), None, Err("does not tell its Kubernetes version")),
            (Some("mine:latest"), Some("1.35"), Ok(("mine:latest".to_owned(), false))),
            (Some("mine:v1.36.1"), Some("1.37"), Err("is Kubernetes 1.36.1 by its name, and 1.37 was asked for")),
            (Some("kindest/node:v1.34.0"), None, Err("deadlocks")),
            (Some("kindest/node:v1.32.0"), None, Err("a lab needs Kubernetes 1.34 to 1.37")),
        ] {
            match (choose(image, kubernetes), expected) {
                (Ok(found), Ok((name, pinned))) => assert_eq!((found.name, found.pinned), (name, pinned)),
                (Err(error), Err(said)) => assert!(error.to_string().contains(said), "{error}"),
                (found, expected) => panic!("{image:?} {kubernetes:?}: {found:?}, and not {expected:?}"),
            }
        }
    }
}
