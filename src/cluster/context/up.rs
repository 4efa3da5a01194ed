//! Bringing a lab up on a cluster that was there before: look, plan, and then steps that can be undone.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::base::failure::Kind;
use crate::client::apply::Applied;
use crate::client::connect::{self, Proxies};
use crate::client::{ClientError, Kinds};
use crate::cluster::context::images::{DRIVER_IMAGE, Images, Local};
use crate::cluster::context::kubeconfig;
use crate::cluster::context::survey::{self, Asked, Survey, judge};
use crate::cluster::embedded::{VERSION, change_lock};
use crate::cluster::install::sharing::{self, Participant};
use crate::cluster::install::{self, ObjectRef, Parameters, ProfileSource, failed, manifests, ready, remove};
use crate::cluster::record::write_private;
use crate::cluster::steps::{self, Found, Reporter, Say, Step, Stopped};
use crate::cluster::{Backend, ClusterError, ContextRecord, Home, LabFolder, LabRecord, LabSpec};

/// How long the drivers may take to come up and publish: an image may have to be pulled.
const READY: Duration = Duration::from_secs(180);

/// What was asked for; what is `None` stays as it was, or gets the default.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The context's name.
    pub context: Option<String>,
    /// The kubeconfig files to look for it in ([`kubeconfig::files`]).
    pub kubeconfigs: Vec<PathBuf>,
    /// The learner's name.
    pub learner: Option<String>,
    /// A driver image that the nodes can pull.
    pub driver_image: Option<String>,
    /// Labels of the nodes that get a driver.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// GPUs per node.
    pub gpus: Option<u32>,
    /// Device profile: a name, or an absolute path.
    pub profile: Option<String>,
}

/// What would be done, and all that is needed to do it.
pub struct Plan {
    /// What the cluster was found to be.
    pub survey: Survey,
    /// The API server.
    pub server: String,
    /// The objects that would be applied, as the manifests have them. Empty where an installation is shared.
    pub objects: Vec<Value>,
    /// What the driver runs with.
    pub parameters: Parameters,
    /// The nodes that are containers of this machine, where they are.
    pub local: Option<Local>,
    /// The record as it will be.
    record: LabRecord,
    participant: Participant,
    client: Client,
    kubeconfig: String,
    folder: LabFolder,
    before: Option<LabRecord>,
    images: Images,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("survey", &self.survey).field("server", &self.server).finish_non_exhaustive()
    }
}

impl Plan {
    /// The context's name.
    #[must_use]
    pub fn context(&self) -> &str {
        self.record.context.as_ref().map_or("", |context| context.context.as_str())
    }

    /// An installation of others is used as it is.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.survey.is_shared(&self.participant)
    }

    /// The lab is there already, on this cluster: running it again asks nothing.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.before.as_ref().is_some_and(|before| !before.context.as_ref().is_none_or(|context| context.worker.is_empty()))
    }

    /// What would be done, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<Say> {
        let mut lines = Vec::new();
        lines.extend(self.images.lines(self.local.as_ref(), &self.parameters.image));
        if self.is_shared() {
            let others = self.survey.shared.as_ref().map(|shared| shared.others(&self.participant).join(", ")).unwrap_or_default();
            lines.push(Say::new("context.plan-share").with("others", &others).with("namespace", install::NAMESPACE));
        }
        lines.extend(self.objects.iter().map(|object| Say::new("context.plan-apply").with("object", &manifests::title(object))));
        let suffix = self.participant.learner.as_ref().map(|learner| format!("-{learner}")).unwrap_or_default();
        lines.push(Say::new("context.plan-lessons").with("example", &format!("dra-tutorial{suffix}")));
        lines.push(Say::new("plan.kubeconfig").with("path", &self.folder.kubeconfig().display()));
        lines
    }
}

/// Looks at the cluster, and says what `up` would do.
///
/// # Errors
/// Why a lab cannot be made there. Nothing was changed.
pub async fn plan(home: &Home, lab: &str, wanted: &Wanted, images: Images, proxies: &Proxies) -> Result<Plan, ClusterError> {
    let folder = home.lab(lab);
    let before = LabRecord::read(&folder)?;
    let known = match &before {
        Some(record) if record.backend != Backend::Context => return Err(other_backend(record)),
        Some(record) => record.context.clone(),
        None => None,
    };
    let context = match (&wanted.context, &known) {
        (Some(asked), Some(known)) if *asked != known.context => return Err(other_context(lab, &known.context)),
        (Some(asked), _) => asked.clone(),
        (None, Some(known)) => known.context.clone(),
        (None, None) => return Err(install::refused("DL-CTX-02", "no context was named".to_owned(), vec![Say::new("context.name-one")])),
    };
    let known = known.unwrap_or_else(|| ContextRecord { id: uuid::Uuid::new_v4().to_string(), ..ContextRecord::default() });
    if let (Some(asked), Some(learner)) = (&wanted.learner, &known.learner)
        && asked != learner
    {
        return Err(other_learner(lab, learner));
    }
    let spec = before.as_ref().map(|record| record.spec.clone()).unwrap_or_default();
    let profile = wanted.profile.clone().unwrap_or(spec.profile);
    let node_selector = wanted.node_selector.clone().unwrap_or_else(|| known.node_selector.clone());
    // A lab that the user takes up again keeps reading the file that it was found in.
    let files = if wanted.context.is_none() && !known.kubeconfig.as_os_str().is_empty() {
        vec![known.kubeconfig.clone()]
    } else {
        wanted.kubeconfigs.clone()
    };
    let found = kubeconfig::find(&files, &context)?;
    let text = serde_json::to_string_pretty(&found.kubeconfig)
        .map_err(|error| ClusterError::Record { path: found.file.clone(), reason: error.to_string() })?;
    let reach = |error: ClientError| failed(&format!("reach the cluster of context \"{context}\""), error);
    let client = connect::by_text(&text, &found.file, proxies).await.map_err(reach)?;
    let learner = wanted.learner.clone().or_else(|| known.learner.clone());
    let participant = Participant { learner, id: known.id.clone() };
    let mut parameters = Parameters {
        profile: ProfileSource::of(&profile)?,
        gpus: wanted.gpus.or(spec.gpus),
        node_selector: node_selector.clone(),
        ..Parameters::new(lab, DRIVER_IMAGE)
    };
    let asked = Asked {
        lab: lab.to_owned(),
        participant: participant.clone(),
        driver_name: parameters.driver_name.clone(),
        cluster: before.as_ref().map(|_| known.cluster.clone()),
        gpus: wanted.gpus,
        profile: wanted.profile.as_ref().map(|_| parameters.profile.short()),
        image: wanted.driver_image.clone(),
        node_selector: node_selector.clone(),
    };
    let survey = survey::survey(&client, &manifests::objects(Some(&parameters))?, &asked).await?;
    judge(&survey, &asked)?;
    let shares = survey.is_shared(&participant);
    let local = images.locate(&survey.nodes).await;
    if shares {
        let shared = survey.shared.clone().unwrap_or_default();
        parameters.image = shared.parameters["image"].as_str().unwrap_or_default().to_owned();
        parameters.node_selector = serde_json::from_value(shared.parameters["nodeSelector"].clone()).unwrap_or_default();
    } else {
        let asked = wanted.driver_image.clone().or_else(|| Some(known.driver_image.clone()).filter(|image| !image.is_empty()));
        parameters.image = images.driver_reference(asked, local.as_ref())?;
        if local.is_some() {
            parameters.api_server = install::of_api_server(&client).await;
        }
    }
    let objects = if shares { Vec::new() } else { manifests::objects(Some(&parameters))? };
    let workers: Vec<&survey::Node> = survey.workers().collect();
    let spec = LabSpec { nodes: u32::try_from(workers.len()).unwrap_or(u32::MAX), gpus: parameters.gpus, profile, port: None };
    let worker = workers.first().map(|node| node.name.clone()).unwrap_or_default();
    let control_plane = survey.nodes.iter().find(|n| n.control_plane).or_else(|| survey.nodes.iter().find(|n| n.name != worker));
    let record = LabRecord {
        format: crate::cluster::record::FORMAT,
        lab: lab.to_owned(),
        backend: Backend::Context,
        version: VERSION.to_owned(),
        pid: None,
        server: found.server.clone(),
        kubeconfig: folder.kubeconfig(),
        spec,
        sockets: None,
        nodes: Vec::new(),
        kind: None,
        context: Some(ContextRecord {
            context: context.clone(),
            kubeconfig: found.file,
            cluster: survey.cluster.clone(),
            learner: participant.learner.clone(),
            driver_image: parameters.image.clone(),
            node_selector,
            control_plane: control_plane.map(|node| node.name.clone()).unwrap_or_default(),
            // Known when the installation is ready; until then the lab is one that was begun.
            worker: String::new(),
            objects: objects.iter().map(ObjectRef::of).collect(),
            id: known.id,
        }),
    };
    Ok(Plan {
        survey,
        server: found.server,
        objects,
        parameters,
        local,
        record,
        participant,
        client,
        kubeconfig: text,
        folder,
        before,
        images,
    })
}

fn other_backend(record: &LabRecord) -> ClusterError {
    let message = format!("lab \"{}\" is on backend {}", record.lab, record.backend);
    install::refused("DL-BACKEND-02", message, vec![Say::new("context.other-lab")])
}

fn other_context(lab: &str, known: &str) -> ClusterError {
    let message = format!("lab \"{lab}\" is on context \"{known}\"");
    install::refused("DL-BACKEND-02", message, vec![Say::new("context.other-lab")])
}

fn other_learner(lab: &str, known: &str) -> ClusterError {
    ClusterError::Advised {
        message: format!("lab \"{lab}\" is of learner \"{known}\""),
        id: "DL-CTX-12",
        kind: Kind::Usage,
        causes: Vec::new(),
        advice: vec![Say::new("context.other-lab")],
    }
}

/// Carries a plan out. Undoes what it made when it fails or `cancel` is cancelled, unless `retain`.
///
/// # Errors
/// Why it did not come through.
pub async fn up(plan: Plan, retain: bool, cancel: &CancellationToken, report: Reporter<'_>) -> Result<LabRecord, Stopped> {
    let fresh = !plan.folder.path.exists();
    let lock = change_lock(&plan.folder).await.map_err(Stopped::Failed)?;
    let kinds = Kinds::discover(&plan.client).await.map_err(|error| Stopped::Failed(failed("learn what the API server serves", error)))?;
    let mut work = Work { plan, kinds, fresh };
    let steps: Vec<Box<dyn Step<Work>>> = vec![Box::new(Keep), Box::new(PutImages), Box::new(Install), Box::new(Drivers)];
    let result = steps::run(&steps, &mut work, retain, cancel, report).await;
    drop(lock);
    result.map(|()| work.plan.record)
}

/// What the steps share.
struct Work {
    plan: Plan,
    kinds: Kinds,
    fresh: bool,
}

impl Work {
    fn context(&mut self) -> &mut ContextRecord {
        self.plan.record.context.get_or_insert_default()
    }
}

/// The lab's folder, its kubeconfig, and a record of what is about to be made: also an `up` that is killed can be taken down.
struct Keep;

impl Step<Work> for Keep {
    fn describe(&self, work: &Work) -> Say {
        Say::new("context.keep").with("folder", &work.plan.folder.path.display())
    }

    fn check<'a>(&'a self, _: &'a mut Work) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async { Ok(Found::ToDo) })
    }

    fn apply<'a>(&'a self, work: &'a mut Work, _: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            let folder = &work.plan.folder;
            folder.create()?;
            write_private(&folder.kubeconfig(), work.plan.kubeconfig.as_bytes())?;
            work.plan.record.write(folder)?;
            Ok(Say::new("context.kept").with("path", &folder.kubeconfig().display()))
        })
    }

    fn undo<'a>(&'a self, work: &'a mut Work) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            let folder = &work.plan.folder;
            match &work.plan.before {
                Some(before) => before.write(folder),
                None if work.fresh => folder.remove(),
                None => super::down::forget(folder),
            }
        })
    }
}

/// The images on nodes that are containers of this machine.
struct PutImages;

impl Step<Work> for PutImages {
    fn describe(&self, _: &Work) -> Say {
        Say::new("context.images")
    }

    fn check<'a>(&'a self, work: &'a mut Work) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async move {
            match &work.plan.local {
                // Which image it is to be is known when it is made.
                Some(_) => Ok(Found::ToDo),
                None => Ok(Found::Done(Say::new("context.images-pulled").with("image", &work.plan.parameters.image))),
            }
        })
    }

    fn apply<'a>(&'a self, work: &'a mut Work, report: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            let Some(local) = &work.plan.local else { return Ok(Say::new("context.images")) };
            let (image, said) = work.plan.images.put(local, report).await?;
            if !work.plan.is_shared() {
                work.plan.parameters.image = image;
            }
            Ok(said)
        })
    }

    fn undo<'a>(&'a self, work: &'a mut Work) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            let Some(local) = &work.plan.local else { return Ok(()) };
            let put = work.plan.images.loaded();
            work.plan.images.remove(local, &put).await
        })
    }
}

/// The objects of the manifests, or a place in the installation of others.
struct Install;

impl Step<Work> for Install {
    fn describe(&self, work: &Work) -> Say {
        if work.plan.is_shared() { Say::new("context.joining") } else { Say::new("up.installing") }
    }

    fn check<'a>(&'a self, _: &'a mut Work) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async { Ok(Found::ToDo) })
    }

    fn apply<'a>(&'a self, work: &'a mut Work, _: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            let plan = &work.plan;
            if plan.is_shared() {
                sharing::join(&plan.client, &work.kinds, &plan.participant).await?;
                work.context().objects = work.plan.survey.objects();
                work.plan.record.write(&work.plan.folder)?;
                return Ok(Say::new("context.joined"));
            }
            let mut objects = manifests::objects(Some(&plan.parameters))?;
            let mut images = plan.survey.shared.as_ref().map(|shared| shared.images.clone()).unwrap_or_default();
            for (node, names) in plan.images.loaded() {
                images.entry(node).or_default().extend(names);
            }
            sharing::sign(&mut objects, &plan.participant, &images);
            let done = install::apply::install_objects(&plan.client, &work.kinds, Some(&plan.parameters.lab), &objects).await?;
            let changed = done.iter().filter(|done| done.applied != Applied::Unchanged).count();
            let image = plan.parameters.image.clone();
            let context = work.context();
            context.objects = done.iter().map(|done| done.object.clone()).collect();
            context.driver_image = image;
            work.plan.record.write(&work.plan.folder)?;
            let id = if changed == 0 { "up.installed-already" } else { "up.installed" };
            Ok(Say::new(id).with("objects", &done.len()))
        })
    }

    fn undo<'a>(&'a self, work: &'a mut Work) -> BoxFuture<'a, Result<(), ClusterError>> {
        Box::pin(async move {
            let plan = &work.plan;
            if plan.is_shared() {
                let joined = plan.survey.shared.as_ref().is_some_and(|s| s.participants.iter().any(|(_, id)| *id == plan.participant.id));
                if !joined {
                    sharing::leave(&plan.client, &work.kinds, &plan.participant).await?;
                }
                return Ok(());
            }
            // What was there before this run stays; the rest is known by its label, also when this run was broken off in the middle.
            let there = plan.survey.objects();
            let made: Vec<ObjectRef> = plan
                .objects
                .iter()
                .map(ObjectRef::of)
                .filter(|object| !there.iter().any(|t| (&t.kind, &t.namespace, &t.name) == (&object.kind, &object.namespace, &object.name)))
                .collect();
            let driver = &plan.parameters.driver_name;
            remove::objects(&plan.client, &work.kinds, &plan.parameters.lab, driver, &made).await?;
            match &plan.local {
                Some(local) if there.is_empty() => local.remove_files(driver).await,
                _ => Ok(()),
            }
        })
    }
}

/// The drivers run, and every pool is complete.
struct Drivers;

impl Step<Work> for Drivers {
    fn describe(&self, _: &Work) -> Say {
        Say::new("up.publishing")
    }

    fn check<'a>(&'a self, _: &'a mut Work) -> BoxFuture<'a, Result<Found, ClusterError>> {
        Box::pin(async { Ok(Found::ToDo) })
    }

    fn apply<'a>(&'a self, work: &'a mut Work, _: Reporter<'a>) -> BoxFuture<'a, Result<Say, ClusterError>> {
        Box::pin(async move {
            let found = ready::wait_ready(&work.plan.client, &work.plan.parameters, None, READY).await?;
            let worker = found.workers.first().cloned().unwrap_or_default();
            work.plan.record.spec.nodes = u32::try_from(found.workers.len()).unwrap_or(u32::MAX);
            work.context().worker = worker;
            work.plan.record.write(&work.plan.folder)?;
            Ok(Say::new("up.published").with("devices", &found.devices).with("slices", &found.slices))
        })
    }
}
