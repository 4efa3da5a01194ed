//! The image of the lessons' pods, made present on the nodes under the name that the manifests use, so that these stay word for word.

use std::path::Path;

use crate::cluster::engine::reference::Reference;
use crate::cluster::engine::{Engine, EngineError, EngineImage};
use crate::cluster::image::{Archive, ImageError, NodeImages, architecture_of, import, lacking};
use crate::cluster::steps::{Reporter, Say, StepEvent};

/// Makes the image `wanted` (in full, see [`super::LESSON_IMAGE`]) present on the nodes and says what was done.
///
/// On all of them already: nothing. With `instead` (`--workload-image`): that image, of the engine or pulled, under the wanted name. Else
/// the wanted image, of the engine or pulled. What was pulled stays in the engine, for the next time.
///
/// # Errors
/// When the image is nowhere and cannot be pulled, is for another architecture than the nodes, or when the engine or a node fails.
pub async fn ensure(
    engine: &Engine,
    nodes: &[String],
    wanted: &str,
    instead: Option<&str>,
    scratch: &Path,
    report: Reporter<'_>,
) -> Result<Say, ImageError> {
    let missing = lacking(engine, nodes, wanted).await?;
    let there = || Say::new("image.there").with("image", wanted);
    if instead.is_none() && missing.is_empty() {
        return Ok(there());
    }
    let platform = format!("linux/{}", architecture_of(engine, nodes).await?);
    let image = instead.unwrap_or(wanted);
    let (found, pulled) = match local(engine, image, &platform, instead.is_some()).await? {
        Some(found) => (found, false),
        None => (pull(engine, image, &platform, report).await.map_err(|error| told(error, wanted, instead))?, true),
    };
    let to = match instead {
        // The name may be there for another image, of an earlier `up`.
        Some(_) => having_another(engine, nodes, wanted, &missing, &found).await?,
        None => missing,
    };
    if to.is_empty() {
        return Ok(there());
    }
    let (export, inside) = saved_as(image, &found);
    let bytes = |id: &'static str| {
        let what = Say::new(id).with("image", image);
        move |done, total| report(StepEvent::Bytes { what: Some(what.clone()), done, total })
    };
    let archive = Archive::export(engine, &export, Some(&platform), scratch, &bytes("image.exporting")).await?;
    import(engine, &to, &archive, inside.as_deref(), wanted, &bytes("image.loading")).await?;
    let id = match (instead, pulled) {
        (Some(_), _) => "image.loaded-as",
        (None, true) => "image.pulled-and-loaded",
        (None, false) => "image.loaded",
    };
    Ok(Say::new(id).with("image", image).with("name", wanted).with("nodes", &to.len()))
}

/// The engine's image of this name, when it is for the nodes' platform. One that was asked for by name must be.
async fn local(engine: &Engine, image: &str, platform: &str, named: bool) -> Result<Option<EngineImage>, ImageError> {
    let Some(found) = engine.image(image).await? else { return Ok(None) };
    let theirs = format!("{}/{}", found.os, found.architecture);
    if theirs == platform {
        return Ok(Some(found));
    }
    if named {
        return Err(ImageError::Architecture { what: format!("the image {image}"), theirs, nodes: platform.to_owned() });
    }
    Ok(None)
}

async fn pull(engine: &Engine, image: &str, platform: &str, report: Reporter<'_>) -> Result<EngineImage, EngineError> {
    let what = Say::new("image.pulling").with("image", image);
    let progress = |done, total| report(StepEvent::Bytes { what: Some(what.clone()), done, total });
    engine.pull(image, Some(platform), &progress).await?;
    engine.image(image).await?.ok_or_else(|| EngineError::NoImage { image: image.to_owned() })
}

/// That the lessons' own image cannot be had has advice of its own; one that the user named has the pull's.
fn told(error: EngineError, wanted: &str, instead: Option<&str>) -> ImageError {
    match error {
        EngineError::Pull { .. } if instead.is_none() => ImageError::NoLessonImage { wanted: wanted.to_owned(), source: Box::new(error) },
        other => ImageError::Engine(other),
    }
}

/// The nodes that lack the name or have it for another image than this one.
async fn having_another(
    engine: &Engine,
    nodes: &[String],
    name: &str,
    missing: &[String],
    image: &EngineImage,
) -> Result<Vec<String>, ImageError> {
    let mut list = Vec::new();
    for node in nodes {
        if missing.contains(node) || NodeImages::new(engine, node).id(name).await?.as_ref() != Some(&image.id) {
            list.push(node.clone());
        }
    }
    Ok(list)
}

/// Under which name an image of the engine is exported, and which name it has in the archive then: one that was named by its id or
/// digest has the first of its tags, or none.
pub(crate) fn saved_as(image: &str, found: &EngineImage) -> (String, Option<String>) {
    let reference = Reference::parse(image).filter(|reference| reference.digest.is_none());
    let mut tags = found.tags.iter().filter_map(|tag| Some((tag, Reference::parse(tag)?)));
    // Docker leaves Docker Hub out of names; podman puts `localhost` before what has no registry, and the archive has that name.
    let own = reference.as_ref().and_then(|wanted| {
        let below = |full: &Reference| full.tag == wanted.tag && format!("{}:", full.repository).ends_with(&format!("/{}:", short(wanted)));
        tags.clone().find(|(_, full)| full == wanted).or_else(|| tags.clone().find(|(_, full)| below(full)))
    });
    match own.or_else(|| tags.next()) {
        Some((tag, full)) => (tag.clone(), Some(full.to_string())),
        None => (image.to_owned(), reference.map(|reference| reference.to_string())),
    }
}

/// The repository without what stands for a name without a registry.
fn short(reference: &Reference) -> &str {
    let rest = reference.repository.strip_prefix("docker.io/").unwrap_or(&reference.repository);
    rest.strip_prefix("library/").unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::saved_as;
    use crate::cluster::engine::EngineImage;

    #[test]
    fn an_image_is_exported_under_a_name_that_the_archive_keeps() {
        let image = |tags: &[&str]| EngineImage {
            id: "sha256:00".to_owned(),
            architecture: "amd64".to_owned(),
            os: "linux".to_owned(),
            size: 1,
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            digests: Vec::new(),
        };
        for (name, tags, expected) in [
            ("ubuntu:24.04", &[][..], ("ubuntu:24.04", Some("docker.io/library/ubuntu:24.04"))),
            ("dralab-test/workload:1", &[], ("dralab-test/workload:1", Some("docker.io/dralab-test/workload:1"))),
            ("sha256:0123", &["a:1", "b:1"], ("a:1", Some("docker.io/library/a:1"))),
            ("0123456789ab", &[], ("0123456789ab", None)),
            ("w/x:1", &["localhost/other:1", "localhost/w/x:1"], ("localhost/w/x:1", Some("localhost/w/x:1"))),
            ("ubuntu:24.04", &["a:1", "ubuntu:24.04"], ("ubuntu:24.04", Some("docker.io/library/ubuntu:24.04"))),
            ("ubuntu@sha256:0123", &[], ("ubuntu@sha256:0123", None)),
            ("ubuntu:24.04@sha256:0123", &["ubuntu:24.04"], ("ubuntu:24.04", Some("docker.io/library/ubuntu:24.04"))),
        ] {
            let (export, inside) = saved_as(name, &image(tags));
            assert_eq!((export.as_str(), inside.as_deref()), expected, "{name}");
        }
    }
}
