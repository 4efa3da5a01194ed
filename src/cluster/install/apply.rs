//! Applies the objects. One of the same name that is not this lab's is refused, never taken over.

use kube::{Client, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::apply::{self, Applied, How, api_of, namespace_of};
use crate::client::{ClientError, Kinds};
use crate::cluster::ClusterError;
use crate::cluster::install::manifests::{self, Parameters, title};
use crate::cluster::install::{LAB_LABEL, failed, refused};
use crate::cluster::steps::Say;

/// An object that was installed, so that exactly it can be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as `DaemonSet`.
    pub kind: String,
    /// Empty for a cluster-scoped one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, once it is there. Another object of the same name has another.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl ObjectRef {
    /// Of an object, with the uid that it has.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ObjectRef {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
            uid: text(&object["metadata"]["uid"]),
        }
    }
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind.to_lowercase();
        if self.namespace.is_empty() { write!(f, "{kind} {}", self.name) } else { write!(f, "{kind} {}/{}", self.namespace, self.name) }
    }
}

/// What applying an object did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Which object.
    pub object: ObjectRef,
    /// What was done.
    pub applied: Applied,
}

/// Applies the objects of a lab ([`manifests::objects`]) in their order. Without parameters: of an embedded lab, whose cluster is all its own.
///
/// # Errors
/// When an object of the same name is not this lab's (nothing is applied then), or the server refuses.
pub async fn install(client: &Client, parameters: Option<&Parameters>) -> Result<Vec<Installed>, ClusterError> {
    let kinds = Kinds::discover(client).await.map_err(|error| failed("learn what the API server serves", error))?;
    install_objects(client, &kinds, parameters.map(|p| p.lab.as_str()), &manifests::objects(parameters)?).await
}

/// Applies objects in their order, for a lab or for an embedded one.
///
/// # Errors
/// As [`install`].
pub async fn install_objects(client: &Client, kinds: &Kinds, lab: Option<&str>, objects: &[Value]) -> Result<Vec<Installed>, ClusterError> {
    if let Some(lab) = lab {
        let there = find(client, kinds, objects).await?;
        refuse_foreign(&there, lab)?;
    }
    let mut done = Vec::new();
    for object in objects {
        let doing = format!("install {}", title(object));
        let how = How { force: true, ..How::default() };
        let (applied, after) = apply::apply_object(client, kinds, object, "default", how).await.map_err(|error| failed(&doing, error))?;
        done.push(Installed { object: ObjectRef { uid: after.uid().unwrap_or_default(), ..ObjectRef::of(object) }, applied });
    }
    Ok(done)
}

/// Those of the objects that are there, as the server has them.
///
/// # Errors
/// When the server cannot be asked, or does not serve a kind.
pub async fn find(client: &Client, kinds: &Kinds, objects: &[Value]) -> Result<Vec<Value>, ClusterError> {
    let look = async {
        let mut there = Vec::new();
        for object in objects {
            let (kind, name) = apply::identify(kinds, object)?;
            if let Some(found) = api_of(client, kind, namespace_of(object, "default")).get_opt(&name).await? {
                there.push(kind.typed(found));
            }
        }
        Ok::<_, ClientError>(there)
    };
    look.await.map_err(|error| failed("look for objects of the same names", error))
}

/// Refuses to take over what is there and not this lab's.
///
/// # Errors
/// When there is such an object; all are named.
pub fn refuse_foreign(there: &[Value], lab: &str) -> Result<(), ClusterError> {
    let foreign: Vec<String> = there
        .iter()
        .filter_map(|object| match object["metadata"]["labels"][LAB_LABEL].as_str() {
            Some(label) if label == lab => None,
            Some(other) => Some(format!("{} (of lab \"{other}\")", title(object))),
            None => Some(format!("{} (not of dralab: no label {LAB_LABEL})", title(object))),
        })
        .collect();
    if foreign.is_empty() {
        return Ok(());
    }
    let message = format!("objects that this lab would make are there already, and are somebody else's: {}", foreign.join(", "));
    Err(refused("DL-INST-02", message, vec![Say::new("install.foreign")]))
}

#[cfg(test)]
mod tests {
    use super::{Parameters, install, refuse_foreign};
    use crate::base::failure::{Failure, Kind};
    use crate::client::apply::Applied;
    use crate::cluster::install::testing::Fake;
    use serde_json::json;

    #[test]
    fn what_is_somebody_elses_is_named() {
        let object = |name: &str, labels: serde_json::Value| json!({"kind": "DeviceClass", "metadata": {"name": name, "labels": labels}});
        assert!(refuse_foreign(&[object("a", json!({"dralab.dev/lab": "x"}))], "x").is_ok());
        let there = [object("a", json!({"dralab.dev/lab": "y"})), object("b", json!({})), object("c", json!({"dralab.dev/lab": "x"}))];
        let failure = Failure::from(refuse_foreign(&there, "x").expect_err("refused"));
        assert_eq!(failure.kind, Kind::Refused);
        assert!(
            failure.message.ends_with("deviceclass a (of lab \"y\"), deviceclass b (not of dralab: no label dralab.dev/lab)"),
            "{}",
            failure.message
        );
    }

    #[tokio::test]
    async fn a_second_install_changes_nothing_and_a_foreign_object_stops_it() {
        let fake = Fake::new();
        let client = fake.client();
        let parameters = Parameters::new("x", "i");
        let first = install(&client, Some(&parameters)).await.expect("installed");
        assert!(first.iter().all(|i| i.applied == Applied::Created && !i.object.uid.is_empty()), "{first:?}");
        let second = install(&client, Some(&parameters)).await.expect("installed");
        assert!(second.iter().all(|i| i.applied == Applied::Unchanged), "{second:?}");
        let before = fake.names();
        let error = install(&client, Some(&Parameters::new("other", "i"))).await.expect_err("refused").to_string();
        assert!(error.contains("daemonset dralab-system/dralab-driver (of lab \"x\")"), "{error}");
        assert_eq!(fake.names(), before);
    }
}
