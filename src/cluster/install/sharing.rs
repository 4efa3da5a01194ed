//! Learners that share one installation.
//!
//! Everything cluster-scoped, and the driver's namespace, is installed once. Who uses it is written on that namespace, an annotation for each:
//! `learners.dralab.dev/NAME: ID`, where ID belongs to the learner's lab on their machine; a lab without a learner's name is `Everyone`
//! (no learner's name has a capital). Each annotation has a field manager of its own, so that applying one does not take away another.
//! Who takes the last one away writes `dralab.dev/removing` in the same moment (guarded by the resourceVersion), and removes the rest.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Map, Value, json};

use crate::client::apply::{self, How, MANAGER, api_of};
use crate::client::{ClientError, Kinds};
use crate::cluster::ClusterError;
use crate::cluster::install::manifests::{PARAMETERS_ANNOTATION, VERSION_ANNOTATION};
use crate::cluster::install::{NAMESPACE, failed, refused};
use crate::cluster::steps::Say;

const PREFIX: &str = "learners.dralab.dev/";
const EVERYONE: &str = "Everyone";
const REMOVING: &str = "dralab.dev/removing";
/// Names of the images that were put onto each node, as JSON: whoever leaves last removes them.
const IMAGES: &str = "dralab.dev/images";
/// How often the last one's annotation is tried to be taken away while others write the namespace.
const TRIES: usize = 10;

/// One who uses an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// The learner's name; `None`: a lab that is nobody's in particular.
    pub learner: Option<String>,
    /// Of the lab on the learner's machine, so that two of the same name are told apart.
    pub id: String,
}

impl Participant {
    fn annotation(&self) -> String {
        format!("{PREFIX}{}", self.learner.as_deref().unwrap_or(EVERYONE))
    }

    fn manager(&self) -> String {
        format!("{MANAGER}-{}", self.learner.as_deref().unwrap_or("everyone"))
    }
}

/// What is on the driver's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Who uses it: the learner's name (`Everyone` for a lab without one), and the id.
    pub participants: Vec<(String, String)>,
    /// The dralab that installed it.
    pub version: String,
    /// What it was installed with: `image`, `profile`, `gpus`, `nodeSelector`.
    pub parameters: Value,
    /// Images that were put onto its nodes: names by node.
    pub images: BTreeMap<String, BTreeSet<String>>,
    /// The last one is removing it.
    pub removing: bool,
}

impl Shared {
    /// Reads it off the namespace.
    #[must_use]
    pub fn of(namespace: &Value) -> Self {
        let annotations = namespace["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let text = |name: &str| annotations.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let participants = annotations
            .iter()
            .filter_map(|(name, id)| Some((name.strip_prefix(PREFIX)?.to_owned(), id.as_str().unwrap_or_default().to_owned())))
            .collect();
        Shared {
            participants,
            version: text(VERSION_ANNOTATION),
            parameters: serde_json::from_str(&text(PARAMETERS_ANNOTATION)).unwrap_or_default(),
            images: serde_json::from_str(&text(IMAGES)).unwrap_or_default(),
            removing: annotations.contains_key(REMOVING) || !namespace["metadata"]["deletionTimestamp"].is_null(),
        }
    }

    /// Names of those who use it beside this one.
    #[must_use]
    pub fn others(&self, own: &Participant) -> Vec<&str> {
        self.participants.iter().filter(|(_, id)| *id != own.id).map(|(name, _)| name.as_str()).collect()
    }

    /// Whether this one may join.
    ///
    /// # Errors
    /// When another one of the same name is there, when a lab without a learner's name is among several, or when it is being removed.
    pub fn admit(&self, own: &Participant) -> Result<(), ClusterError> {
        let others = self.others(own);
        if self.removing {
            return Err(refused("DL-CTX-09", format!("namespace {NAMESPACE} is being removed"), vec![Say::new("context.removing")]));
        }
        let name = own.learner.as_deref().unwrap_or(EVERYONE);
        if others.contains(&name) {
            let (message, advice) = match &own.learner {
                Some(learner) => (format!("another lab of learner \"{learner}\" is on this cluster"), Say::new("context.learner-taken")),
                None => ("another lab is on this cluster".to_owned(), Say::new("context.needs-learner")),
            };
            return Err(refused("DL-CTX-07", message, vec![advice]));
        }
        if !others.is_empty() && (own.learner.is_none() || others.contains(&EVERYONE)) {
            let message =
                format!("others are on this cluster ({}), and without a learner's name their lessons would meet", others.join(", "));
            return Err(refused("DL-CTX-07", message, vec![Say::new("context.needs-learner")]));
        }
        Ok(())
    }
}

/// The driver's namespace as it is.
///
/// # Errors
/// When the server cannot be asked.
pub async fn look(client: &Client, kinds: &Kinds) -> Result<Option<Shared>, ClusterError> {
    namespace(client, kinds).await.map(|found| found.map(|(namespace, _)| Shared::of(&namespace)))
}

async fn namespace(client: &Client, kinds: &Kinds) -> Result<Option<(Value, String)>, ClusterError> {
    let look = async {
        let kind = kinds.find("namespaces")?;
        let found = api_of(client, kind, "").get_opt(NAMESPACE).await?;
        Ok::<_, ClientError>(found.map(|o| {
            let version = o.resource_version().unwrap_or_default();
            (kind.typed(o), version)
        }))
    };
    look.await.map_err(|error| failed(&format!("look at namespace {NAMESPACE}"), error))
}

/// Notes in the manifest of the driver's namespace who installs it, and which images were put onto the nodes for it.
pub fn sign(objects: &mut [Value], own: &Participant, images: &BTreeMap<String, BTreeSet<String>>) {
    for namespace in objects.iter_mut().filter(|o| o["kind"] == "Namespace" && o["metadata"]["name"] == NAMESPACE) {
        namespace["metadata"]["annotations"][own.annotation()] = json!(own.id);
        if !images.is_empty() {
            namespace["metadata"]["annotations"][IMAGES] = json!(json!(images).to_string());
        }
    }
}

/// Writes on the driver's namespace that this one uses the installation.
///
/// # Errors
/// When the server refuses.
pub async fn join(client: &Client, kinds: &Kinds, own: &Participant) -> Result<(), ClusterError> {
    let mut annotations = Map::new();
    annotations.insert(own.annotation(), json!(own.id));
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "annotations": annotations}});
    let how = How { manager: &own.manager(), force: true, dry_run: false };
    apply::apply(client, kinds, &object, "", how).await.map_err(|error| failed("join the installation", error))?;
    Ok(())
}

/// How it went on when one has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Others use it still.
    Others(Vec<String>),
    /// This was the last one, who removes it now.
    Last,
    /// It is not there.
    Gone,
}

/// Takes this one's annotation away; the last one marks the namespace in the same moment.
///
/// # Errors
/// When the server refuses.
pub async fn leave(client: &Client, kinds: &Kinds, own: &Participant) -> Result<Left, ClusterError> {
    let doing = "leave the installation";
    for _ in 0..TRIES {
        let Some((there, version)) = namespace(client, kinds).await? else { return Ok(Left::Gone) };
        let shared = Shared::of(&there);
        let others: Vec<String> = shared.others(own).into_iter().map(str::to_owned).collect();
        if shared.removing && others.is_empty() {
            return Ok(Left::Last);
        }
        let mut annotations = Map::new();
        // Only the own one: after another lab of the same name it would not be.
        if shared.participants.iter().any(|(_, id)| *id == own.id) {
            annotations.insert(own.annotation(), Value::Null);
        }
        if others.is_empty() {
            annotations.insert(REMOVING.to_owned(), json!(own.id));
        }
        let patch = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
        let api = kinds.find("namespaces").map(|kind| api_of(client, kind, "")).map_err(|error| failed(doing, error))?;
        let params = PatchParams { field_manager: Some(own.manager()), ..PatchParams::default() };
        match api.patch(NAMESPACE, &params, &Patch::Merge(patch)).await.map_err(ClientError::from) {
            Ok(_) if others.is_empty() => return Ok(Left::Last),
            Ok(_) => return Ok(Left::Others(others)),
            // Somebody else wrote it: look again.
            Err(error) if error.is_conflict() => {}
            Err(error) if error.is_not_found() => return Ok(Left::Gone),
            Err(error) => return Err(failed(doing, error)),
        }
    }
    Err(failed(
        doing,
        ClientError::Answer { what: format!("namespace {NAMESPACE}"), reason: format!("it was changed {TRIES} times meanwhile") },
    ))
}

#[cfg(test)]
mod tests {
    use super::{Left, Participant, Shared, join, leave, look};
    use crate::base::failure::{Failure, Kind};
    use crate::client::Kinds;
    use crate::cluster::install::testing::Fake;
    use crate::cluster::install::{Parameters, install};
    use serde_json::json;

    fn participant(learner: Option<&str>, id: &str) -> Participant {
        Participant { learner: learner.map(str::to_owned), id: id.to_owned() }
    }

    #[test]
    fn who_may_join() {
        let shared = |names: &[(&str, &str)]| {
            let mut annotations = serde_json::Map::new();
            for (name, id) in names {
                annotations.insert(format!("learners.dralab.dev/{name}"), json!(id));
            }
            Shared::of(&json!({"metadata": {"annotations": annotations}}))
        };
        for (there, learner, id, expected) in [
            (shared(&[]), None, "1", None),
            (shared(&[]), Some("ann"), "1", None),
            (shared(&[("Everyone", "1")]), None, "1", None),
            (shared(&[("Everyone", "1")]), None, "2", Some("another lab is on this cluster")),
            (shared(&[("Everyone", "1")]), Some("ann"), "2", Some("others are on this cluster (Everyone)")),
            (shared(&[("ann", "1")]), Some("ann"), "1", None),
            (shared(&[("ann", "1")]), Some("ann"), "2", Some("another lab of learner \"ann\"")),
            (shared(&[("ann", "1")]), Some("bob"), "2", None),
            (shared(&[("ann", "1"), ("bob", "2")]), None, "3", Some("others are on this cluster (ann, bob)")),
        ] {
            let refused = there.admit(&participant(learner, id)).err().map(Failure::from);
            match expected {
                None => assert!(refused.is_none(), "{learner:?} {id}: {refused:?}"),
                Some(text) => {
                    let refused = refused.expect(text);
                    assert!(refused.kind == Kind::Refused && refused.message.contains(text), "{refused:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn the_last_one_removes_it_and_nobody_joins_then() {
        let fake = Fake::new();
        let client = fake.client();
        let parameters = Parameters::new("x", "i");
        install(&client, Some(&parameters)).await.expect("installed");
        let kinds = Kinds::discover(&client).await.expect("kinds");
        let (ann, bob) = (participant(Some("ann"), "1"), participant(Some("bob"), "2"));
        join(&client, &kinds, &ann).await.expect("joined");
        join(&client, &kinds, &bob).await.expect("joined");
        // Installing again leaves the annotations of others alone.
        install(&client, Some(&parameters)).await.expect("installed");
        let shared = look(&client, &kinds).await.expect("an answer").expect("it is there");
        assert_eq!(shared.others(&ann), ["bob"]);
        assert_eq!((shared.version.as_str(), &shared.parameters["image"]), (env!("CARGO_PKG_VERSION"), &json!("i")));
        assert_eq!(leave(&client, &kinds, &ann).await.expect("left"), Left::Others(vec!["bob".to_owned()]));
        assert_eq!(leave(&client, &kinds, &bob).await.expect("left"), Left::Last);
        let shared = look(&client, &kinds).await.expect("an answer").expect("it is there");
        assert!(shared.removing && shared.admit(&ann).is_err());
        assert_eq!(leave(&client, &kinds, &bob).await.expect("once more, after being broken off"), Left::Last);
    }
}
