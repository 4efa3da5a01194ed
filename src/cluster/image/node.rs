//! Images in a node's container runtime, through `ctr` in the node's container.
//!
//! Not `kind load`: that asks `ctr` for all platforms of an archive, which fails for images of engines that keep only some
//! (`content digest ... not found`), and it reads the node's containerd configuration, which an older kind cannot.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use tokio::sync::OnceCell;

use crate::cluster::engine::{ByteStream, Engine, Executed, Progress, info};
use crate::cluster::image::{Archive, ImageError};

/// How long a node may take for a question.
const ASK: Duration = Duration::from_secs(60);
/// How long a node may take to import an image.
const IMPORT: Duration = Duration::from_secs(600);
/// To how many nodes at a time an archive is streamed.
const AT_ONCE: usize = 4;
/// How often progress is told.
const TELL: Duration = Duration::from_millis(100);

/// The images of one node.
#[derive(Debug)]
pub struct NodeImages<'e> {
    engine: &'e Engine,
    node: String,
    kind: OnceCell<Kind>,
}

/// What must be known of a node before images are brought onto it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    /// As image platforms have it.
    architecture: String,
    /// `ctr images import` has `--local`: containerd 1.7 and newer, whose other way asks for all platforms.
    local: bool,
    /// The snapshotter that pods are started from, where it is not the usual one.
    snapshotter: Option<String>,
}

impl<'e> NodeImages<'e> {
    /// The images of the node whose container has this name.
    #[must_use]
    pub fn new(engine: &'e Engine, node: &str) -> Self {
        NodeImages { engine, node: node.to_owned(), kind: OnceCell::new() }
    }

    /// The node's name.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its architecture, as image platforms have it (`amd64`).
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn architecture(&self) -> Result<&str, ImageError> {
        Ok(&self.kind().await?.architecture)
    }

    /// The image of this name (in full: `docker.io/library/ubuntu:24.04`) is there, and complete.
    ///
    /// # Errors
    /// When the node cannot be asked.
    pub async fn present(&self, name: &str) -> Result<bool, ImageError> {
        let filter = format!("name=={name:?}");
        let mut argv = vec!["images", "check", "-q"];
        let kind = self.kind().await?;
        if let Some(snapshotter) = &kind.snapshotter {
            argv.extend(["--snapshotter", snapshotter]);
        }
        argv.push(&filter);
        let end = self.ctr(&argv, None, ASK).await?;
        self.done(&end, || format!("look for the image {name}"))?;
        Ok(end.text().lines().any(|line| line.trim() == name))
    }

    /// The id under which the node's container runtime knows the image of this name (the digest of its configuration), if it does.
    ///
    /// # Errors
    /// When the node cannot be asked.
    pub async fn id(&self, name: &str) -> Result<Option<String>, ImageError> {
        Ok(self.known(name).await?.map(|(id, _)| id))
    }

    /// The id of the image of this name, and all names that it has.
    pub(crate) async fn known(&self, name: &str) -> Result<Option<(String, Vec<String>)>, ImageError> {
        let end = self.engine.exec(&self.node, &["crictl", "inspecti", "-o", "json", name], None, ASK).await?;
        let answer: serde_json::Value = serde_json::from_slice(&end.stdout).unwrap_or_default();
        let status = &answer["status"];
        let tags = status["repoTags"].as_array().into_iter().flatten().filter_map(|tag| tag.as_str().map(str::to_owned));
        Ok(status["id"].as_str().filter(|_| end.succeeded()).map(|id| (id.to_owned(), tags.collect())))
    }

    /// Imports an archive (of the OCI layout, or of `docker save`), as far as it is for the node's platform. `index` is the name for
    /// an archive that has none.
    ///
    /// # Errors
    /// When the archive cannot be read, or the node refuses it.
    pub async fn import(&self, archive: ByteStream, index: Option<&str>) -> Result<(), ImageError> {
        let kind = self.kind().await?;
        let mut argv = vec!["images", "import"];
        if kind.local {
            argv.push("--local");
        }
        if let Some(snapshotter) = &kind.snapshotter {
            argv.extend(["--snapshotter", snapshotter]);
        }
        if let Some(index) = index {
            argv.extend(["--index-name", index]);
        }
        argv.push("-");
        let end = self.ctr(&argv, Some(archive), IMPORT).await?;
        self.done(&end, || "import an image".to_owned())
    }

    /// Gives an image another name; one that had that name loses it.
    ///
    /// # Errors
    /// When there is no such image.
    pub async fn tag(&self, from: &str, to: &str) -> Result<(), ImageError> {
        let end = self.ctr(&["images", "tag", "--force", from, to], None, ASK).await?;
        self.done(&end, || format!("name the image {from} {to}"))
    }

    /// Removes names of images; what is not there is not missed.
    ///
    /// # Errors
    /// When the node refuses.
    pub async fn remove(&self, names: &[&str]) -> Result<(), ImageError> {
        let there = self.names().await?;
        let names: Vec<&str> = names.iter().copied().filter(|name| there.contains(*name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let end = self.ctr(&[&["images", "rm"], names.as_slice()].concat(), None, ASK).await?;
        self.done(&end, || format!("remove the images {}", names.join(", ")))
    }

    /// The names of all images.
    ///
    /// # Errors
    /// When the node cannot be asked.
    pub async fn names(&self) -> Result<BTreeSet<String>, ImageError> {
        let end = self.ctr(&["images", "ls", "-q"], None, ASK).await?;
        self.done(&end, || "list its images".to_owned())?;
        Ok(end.text().lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
    }

    async fn kind(&self) -> Result<&Kind, ImageError> {
        let asked = async {
            // One question instead of three: each costs the start of a process in the container.
            const SCRIPT: &str = "uname -m; ctr images import --help 2>/dev/null; echo; containerd config dump 2>/dev/null";
            let end = self.engine.exec(&self.node, &["sh", "-c", SCRIPT], None, ASK).await?;
            self.done(&end, || "tell what it is".to_owned())?;
            Ok::<_, ImageError>(read(&end.text()))
        };
        self.kind.get_or_try_init(|| asked).await
    }

    async fn ctr(&self, argv: &[&str], stdin: Option<ByteStream>, limit: Duration) -> Result<Executed, ImageError> {
        Ok(self.engine.exec(&self.node, &[&["ctr", "-n", "k8s.io"], argv].concat(), stdin, limit).await?)
    }

    fn done(&self, end: &Executed, what: impl FnOnce() -> String) -> Result<(), ImageError> {
        if end.succeeded() {
            return Ok(());
        }
        // containerd warns before it fails; what failed is said by ctr, last.
        let said = end.said();
        let said = said.lines().rfind(|line| line.starts_with("ctr: ")).unwrap_or(&said).trim_start_matches("ctr: ").to_owned();
        Err(ImageError::Node { node: self.node.clone(), what: what(), said })
    }
}

/// Reads what the script says: the machine, the help of `ctr images import`, containerd's configuration.
fn read(said: &str) -> Kind {
    let (machine, rest) = said.split_once('\n').unwrap_or((said, ""));
    // All generations of the configuration have a line of this shape; the usual value is what ctr takes by itself.
    let snapshotters = rest.lines().filter_map(|line| line.trim().strip_prefix("snapshotter"));
    let mut values = snapshotters.filter_map(|rest| Some(rest.trim().strip_prefix('=')?.trim().trim_matches(['"', '\''])));
    let snapshotter = values.find(|value| !value.is_empty()).filter(|value| *value != "overlayfs").map(str::to_owned);
    let local = rest.lines().any(|line| line.trim().split([' ', ',']).next() == Some("--local"));
    Kind { architecture: info::architecture(machine.trim()).to_owned(), local, snapshotter }
}

/// The architecture of all these nodes.
///
/// # Errors
/// When they differ, or one cannot be asked.
pub async fn architecture_of(engine: &Engine, nodes: &[String]) -> Result<String, ImageError> {
    let asked = futures::stream::iter(nodes.to_vec()).map(|node| async move {
        let architecture = NodeImages::new(engine, &node).architecture().await?.to_owned();
        Ok::<_, ImageError>((node, architecture))
    });
    let told: Vec<(String, String)> = asked.buffered(AT_ONCE).try_collect().await?;
    let kinds: BTreeSet<&String> = told.iter().map(|(_, architecture)| architecture).collect();
    if kinds.len() > 1 {
        return Err(ImageError::Mixed { list: told.iter().map(|(node, architecture)| format!("{node}: {architecture}")).collect() });
    }
    Ok(kinds.into_iter().next().cloned().unwrap_or_default())
}

/// The nodes of these that lack the image of this name.
///
/// # Errors
/// When a node cannot be asked.
pub async fn lacking(engine: &Engine, nodes: &[String], name: &str) -> Result<Vec<String>, ImageError> {
    let asked = futures::stream::iter(nodes.to_vec()).map(|node| async move {
        let there = NodeImages::new(engine, &node).present(name).await?;
        Ok::<_, ImageError>((!there).then_some(node))
    });
    let told: Vec<Option<String>> = asked.buffered(AT_ONCE).try_collect().await?;
    Ok(told.into_iter().flatten().collect())
}

/// Streams an archive to these nodes, [`AT_ONCE`] at a time, and gives its image the name `name` there. `inside` is the name it has in
/// the archive (`None`: it has none). `progress` hears the bytes that were sent, of those for all nodes.
///
/// # Errors
/// When a node refuses; the others may have it then.
pub async fn import(
    engine: &Engine,
    nodes: &[String],
    archive: &Archive,
    inside: Option<&str>,
    name: &str,
    progress: Progress<'_>,
) -> Result<(), ImageError> {
    let sent = Arc::new(AtomicU64::new(0));
    let total = archive.size() * nodes.len() as u64;
    let each = futures::stream::iter(nodes.to_vec()).map(|node| {
        let sent = sent.clone();
        async move {
            let images = NodeImages::new(engine, &node);
            images.import(archive.stream(sent), inside.is_none().then_some(name)).await?;
            match inside {
                Some(inside) if inside != name => images.tag(inside, name).await,
                _ => Ok(()),
            }
        }
    });
    let all = each.buffer_unordered(AT_ONCE).try_collect::<()>();
    tokio::pin!(all);
    let mut tick = tokio::time::interval(TELL);
    loop {
        tokio::select! {
            end = &mut all => {
                progress(sent.load(Ordering::Relaxed), total);
                return end;
            }
            _ = tick.tick() => progress(sent.load(Ordering::Relaxed), total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_a_node_is_is_read_from_what_it_says() {
        let help = "NAME:\n   ctr images import\n\nOPTIONS:\n   --all-platforms     Imports\n   --local             Run import locally\n";
        for (said, architecture, local, snapshotter) in [
            (format!("x86_64\n{help}\n[plugins]\n    snapshotter = 'overlayfs'\n          snapshotter = ''\n"), "amd64", true, None),
            (format!("aarch64\n{help}\n      snapshotter = \"fuse-overlayfs\"\n"), "arm64", true, Some("fuse-overlayfs")),
            (
                "x86_64\n   --all-platforms  not --local\n\n snapshotter = \"\"\n snapshotter = \"native\"\n".to_owned(),
                "amd64",
                false,
                Some("native"),
            ),
            ("riscv64\n\n".to_owned(), "riscv64", false, None),
        ] {
            let kind = read(&said);
            assert_eq!((kind.architecture.as_str(), kind.local, kind.snapshotter.as_deref()), (architecture, local, snapshotter), "{said}");
        }
    }
}
