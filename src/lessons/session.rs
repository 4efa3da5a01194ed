//! A learner's way through a lesson: begin a step, write the files to edit, reset.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde_json::json;

use crate::base::shell;
use crate::client::apply::{self, api_of};
use crate::client::{Kinds, labels, wait};
use crate::lessons::format::Step;
use crate::lessons::library::Entry;
use crate::lessons::needs::{self, Lack};
use crate::lessons::progress::Progress;
use crate::lessons::template::{Names, Place};
use crate::lessons::{LessonError, actions, view};
use crate::timeline::state;

pub use crate::client::labels::LESSON as LESSON_LABEL;

/// What is needed to work on a lesson.
#[derive(Clone)]
pub struct Session<'a> {
    /// The cluster.
    pub client: Client,
    /// Its kinds.
    pub kinds: Kinds,
    /// The lesson.
    pub entry: &'a Entry,
    /// Where it plays.
    pub place: Place,
    /// The names of this session.
    pub names: Names,
    /// The learner's folder for this lesson.
    pub work: PathBuf,
    /// The field manager of what is applied for the learner.
    pub manager: &'static str,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("lesson", &self.entry.lesson.id).field("names", &self.names).finish_non_exhaustive()
    }
}

impl<'a> Session<'a> {
    /// Puts a session together. `kubectl` is the command that lists objects on this machine: `kubectl`, or `dralab`.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn new(client: Client, entry: &'a Entry, work: PathBuf, kubectl: &str, place: Place) -> Result<Self, LessonError> {
        let kinds = Kinds::discover(&client).await?;
        let names = Names::new(&place, &entry.lesson.namespace(), &shell::quote(&work), kubectl);
        Ok(Session { client, kinds, entry, place, names, work, manager: apply::MANAGER })
    }

    /// Kinds beyond the usual ones that the lesson's checks look at.
    #[must_use]
    pub fn extra_kinds(&self) -> Vec<String> {
        let mut extra: Vec<String> = Vec::new();
        for check in self.entry.lesson.steps.iter().flat_map(|s| &s.checks) {
            let kind = check.items.clone().or_else(|| check.object.as_ref().and_then(|o| o.split_once('/').map(|(k, _)| k.to_owned())));
            let Some(plural) = kind.and_then(|k| self.kinds.find(&k).ok().map(|k| k.plural.clone())) else { continue };
            if !extra.contains(&plural) {
                extra.push(plural);
            }
        }
        extra
    }

    /// Says what the cluster lacks for this lesson; `None` when it has all.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn lacks(&self) -> Result<Option<Lack>, LessonError> {
        let slices = wait::list(&api_of(&self.client, self.kinds.find("resourceslices")?, "")).await?;
        let claims = self.kinds.find("resourceclaims")?;
        let claims = wait::list(&kube::Api::all_with(self.client.clone(), &claims.api_resource())).await?;
        Ok(needs::lack(&self.entry.lesson.needs, &slices, &claims, self.names.namespace()))
    }

    /// Makes the lesson's namespace, applies what the step starts from, writes the files to edit, and records where the watch begins.
    ///
    /// # Errors
    /// When the server refuses, or a file cannot be written.
    pub async fn begin(&self, step: &Step, progress: &mut Progress, now: Timestamp) -> Result<(), LessonError> {
        self.own_namespace().await?;
        for file in &step.start {
            actions::apply_file(&self.client, &self.kinds, self.entry, &format!("start/{file}"), &self.names, self.manager).await?;
        }
        self.write_files(step, false)?;
        let (objects, revision) = view::list(&self.client, &self.kinds, self.names.namespace(), &[]).await?;
        let baseline = objects.iter().filter(|(key, _)| key.starts_with("resourceclaim/") || key.starts_with("pod/"));
        let lesson = progress.lessons.entry(self.entry.lesson.id.clone()).or_default();
        lesson.baseline = baseline.map(|(key, object)| (key.clone(), state::of(object))).collect();
        lesson.since = revision.to_string();
        step.id.clone_into(&mut lesson.step);
        lesson.hints_shown = 0;
        lesson.skipped = false;
        lesson.first_seen.get_or_insert(now);
        progress.current = Some(self.entry.lesson.id.clone());
        Ok(())
    }

    /// Deletes what the lesson made and begins it again.
    ///
    /// # Errors
    /// When the namespace is not the lesson's, or does not go.
    pub async fn reset(&self, progress: &mut Progress, now: Timestamp) -> Result<(), LessonError> {
        self.clean().await?;
        let step = self.first()?;
        for step in &self.entry.lesson.steps {
            self.write_files(step, true)?;
        }
        self.begin(step, progress, now).await
    }

    /// The first step.
    ///
    /// # Errors
    /// When the lesson has none.
    pub fn first(&self) -> Result<&'a Step, LessonError> {
        self.entry
            .lesson
            .steps
            .first()
            .ok_or_else(|| LessonError::Broken { file: self.entry.folder.clone(), reason: "it has no steps".to_owned() })
    }

    /// Deletes the lesson's namespace, with pods first, and waits until it is gone.
    ///
    /// # Errors
    /// When the namespace is not the lesson's, or does not go.
    pub async fn clean(&self) -> Result<(), LessonError> {
        let kind = self.kinds.find("namespaces")?;
        let api = api_of(&self.client, kind, "");
        let name = self.names.namespace();
        let Some(namespace) = api.get_opt(name).await.map_err(crate::client::ClientError::from)? else { return Ok(()) };
        if namespace.metadata.labels.as_ref().is_none_or(|l| l.get(LESSON_LABEL) != Some(&self.entry.lesson.id)) {
            return Err(LessonError::NotOurs {
                namespace: name.to_owned(),
                objects: format!("the namespace itself (it has no label {LESSON_LABEL}={})", self.entry.lesson.id),
            });
        }
        let pods = api_of(&self.client, self.kinds.find("pods")?, name);
        for pod in wait::list(&pods).await? {
            let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
            apply::delete(&self.client, self.kinds.find("pods")?, name, pod_name).await?;
        }
        apply::delete(&self.client, kind, "", name).await?;
        wait::gone(api, name, Duration::from_secs(90)).await?;
        Ok(())
    }

    /// Deletes pods and waits until they are gone.
    ///
    /// # Errors
    /// When the server refuses, or they do not go.
    pub async fn end_pods(&self, namespace: &str, pods: &BTreeSet<String>) -> Result<(), LessonError> {
        let kind = self.kinds.find("pods")?;
        for pod in pods {
            apply::delete(&self.client, kind, namespace, pod).await?;
        }
        for pod in pods {
            wait::gone(api_of(&self.client, kind, namespace), pod, Duration::from_secs(60)).await?;
        }
        Ok(())
    }

    /// Makes the namespace with the lesson's label, or finds it; a namespace of somebody else that has objects in it is left alone.
    async fn own_namespace(&self) -> Result<(), LessonError> {
        let kind = self.kinds.find("namespaces")?;
        let name = self.names.namespace();
        let there = api_of(&self.client, kind, "").get_opt(name).await.map_err(crate::client::ClientError::from)?;
        if let Some(there) = there {
            let labels = there.metadata.labels.unwrap_or_default();
            let ours = labels.contains_key(LESSON_LABEL) && labels.get(labels::LEARNER) == self.place.learner.as_ref();
            if !ours {
                let mut objects = Vec::new();
                for kind in ["pods", "resourceclaims"] {
                    let kind = self.kinds.find(kind)?;
                    for object in wait::list(&api_of(&self.client, kind, name)).await? {
                        objects.push(format!("{}/{}", kind.singular, object["metadata"]["name"].as_str().unwrap_or_default()));
                    }
                }
                if !objects.is_empty() {
                    return Err(LessonError::NotOurs { namespace: name.to_owned(), objects: objects.join(", ") });
                }
            }
        }
        let mut object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {
            LESSON_LABEL: self.entry.lesson.id, labels::LAB: self.place.lab, "app.kubernetes.io/managed-by": "dralab"}}});
        if let Some(learner) = &self.place.learner {
            object["metadata"]["labels"][labels::LEARNER] = json!(learner);
        }
        actions::apply_object(&self.client, &self.kinds, &object, &self.names).await
    }

    /// Writes the files of a step into the learner's folder. A file that was edited is kept, or set aside as `.bak` on a reset.
    fn write_files(&self, step: &Step, reset: bool) -> Result<(), LessonError> {
        if step.work.is_empty() {
            return Ok(());
        }
        let failed = |action: &'static str, path: &Path| {
            let path = path.to_path_buf();
            move |source| LessonError::File { action, path, source }
        };
        std::fs::create_dir_all(&self.work).map_err(failed("create", &self.work))?;
        for name in &step.work {
            let text = actions::text(self.entry, &format!("work/{name}"), &self.names)?;
            let path = self.work.join(name);
            if let Ok(there) = std::fs::read_to_string(&path) {
                if there == text || !reset {
                    continue;
                }
                let aside = self.work.join(format!("{name}.bak"));
                std::fs::rename(&path, &aside).map_err(failed("set aside", &path))?;
            }
            std::fs::write(&path, text).map_err(failed("write", &path))?;
        }
        Ok(())
    }
}
