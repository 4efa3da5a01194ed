//! What is applied to a cluster on every backend: the manifests of `manifests/`, server-side, by manager `dralab`.

use include_dir::{Dir, include_dir};
use kube::Client;
use serde_json::{Value, json};

use crate::client::apply::{self, Applied};
use crate::client::{Kinds, manifests};
use crate::cluster::ClusterError;

static MANIFESTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/manifests");

/// The label that names the lab on everything that was installed for it.
pub const LAB_LABEL: &str = "dralab.dev/lab";

/// The objects of the manifests, labelled for a lab on a cluster that others share. An embedded cluster is all the lab's: nothing needs a label there.
///
/// # Errors
/// When a manifest of this build is broken.
pub fn objects(lab: Option<&str>) -> Result<Vec<Value>, ClusterError> {
    let mut objects = Vec::new();
    let mut files: Vec<_> = MANIFESTS.files().collect();
    files.sort_by_key(|f| f.path().to_path_buf());
    for file in files {
        let name = file.path().display().to_string();
        if name == "kustomization.yaml" || !name.ends_with(".yaml") {
            continue;
        }
        let broken = |reason: String| ClusterError::Manifest { name: name.clone(), reason };
        let text = file.contents_utf8().ok_or_else(|| broken("it is not UTF-8".to_owned()))?;
        for mut object in manifests::read(&name, text).map_err(|error| broken(error.to_string()))? {
            if let Some(lab) = lab {
                object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("dralab");
                object["metadata"]["labels"][LAB_LABEL] = json!(lab);
            }
            objects.push(object);
        }
    }
    Ok(objects)
}

/// Applies the manifests. Says what was done to each object.
///
/// # Errors
/// When the server refuses.
pub async fn install(client: &Client, lab: Option<&str>) -> Result<Vec<(String, Applied)>, ClusterError> {
    let refused = |what: &str| {
        let what = what.to_owned();
        move |error: crate::client::ClientError| ClusterError::Start {
            message: format!("cannot install {what}: {error}"),
            id: "DL-INST-01",
            hints: Vec::new(),
        }
    };
    let kinds = Kinds::discover(client).await.map_err(refused("the manifests"))?;
    let mut done = Vec::new();
    for object in objects(lab)? {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        done.push(
            apply::apply(client, &kinds, &object, "default", apply::How { force: true, ..apply::How::default() })
                .await
                .map_err(refused(&name))?,
        );
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_manifests_of_this_build_read() {
        let objects = super::objects(Some("dra-lab")).expect("they read");
        assert!(objects.iter().any(|o| o["kind"] == "DeviceClass" && o["metadata"]["name"] == "gpu.example.com"));
        assert!(objects.iter().all(|o| o["metadata"]["labels"][super::LAB_LABEL] == "dra-lab"));
    }
}
