//! The embedded backend: `up`, `down`, and the lab's own process.

use std::sync::Mutex;
use std::time::Instant;

use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::{DownArgs, LabProcessArgs, UpArgs};
use crate::cli::cmd::lab::{next_commands, wanted};
use crate::cluster::embedded::{self, UpEvent, Wanted};
use crate::cluster::{LabFolder, LabRecord, LabSpec, serve};
use crate::ui::steps::{self, Step};
use crate::ui::terminal::Terminal;

/// `up`.
///
/// # Errors
/// When the lab cannot be brought up; what this run made is undone then.
pub async fn up(app: &App, args: &UpArgs) -> Result<u8, Failure> {
    let wanted = wanted(app, args)?;
    if args.dry_run {
        return dry_run(app, &wanted);
    }
    if args.foreground {
        return foreground(app, &wanted).await;
    }
    let started = Instant::now();
    bring_up(app, &wanted).await?;
    let seconds = format!("{:.1}", started.elapsed().as_secs_f64());
    app.terminal.progress(app.terminal.text("up.ready", &[("seconds", &seconds)]));
    next_commands(app)?;
    Ok(0)
}

/// Brings the lab up and shows the steps on stderr.
///
/// # Errors
/// When the lab cannot be brought up.
pub async fn bring_up(app: &App, wanted: &Wanted) -> Result<LabRecord, Failure> {
    let terminal = &app.terminal;
    terminal.progress(terminal.text("up.begin", &[("lab", &app.lab), ("backend", &"embedded")]));
    let steps = StepLog { terminal, step: Mutex::new(None) };
    let report = |event: UpEvent| steps.report(&event);
    let result = embedded::up(&app.home, &app.lab, wanted, app.executable()?, &report).await;
    if result.is_err() {
        steps.fail();
    }
    result.map_err(Failure::from)
}

struct StepLog<'a> {
    terminal: &'a Terminal,
    step: Mutex<Option<Step>>,
}

impl StepLog<'_> {
    fn report(&self, event: &UpEvent) {
        let text = |id: &str, values: &[(&str, &dyn std::fmt::Display)]| self.terminal.text(id, values);
        match event {
            UpEvent::Starting => self.begin(&text("up.starting", &[])),
            UpEvent::Started { nodes } => self.done(&text("up.started", &[("nodes", nodes)])),
            UpEvent::AlreadyRunning { pid } => self.done(&text("up.already", &[("pid", pid)])),
            UpEvent::Restarting { version } => self.done(&text("up.restarting", &[("version", version)])),
            UpEvent::Installing => self.begin(&text("up.installing", &[])),
            UpEvent::Installed { objects, changed } if *changed == 0 => self.done(&text("up.installed-already", &[("objects", objects)])),
            UpEvent::Installed { objects, .. } => self.done(&text("up.installed", &[("objects", objects)])),
            UpEvent::Publishing => self.begin(&text("up.publishing", &[])),
            UpEvent::Published { devices, slices } => self.done(&text("up.published", &[("devices", devices), ("slices", slices)])),
        }
    }

    fn begin(&self, text: &str) {
        let step = steps::begin(self.terminal, text);
        *self.step.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(step);
    }

    fn done(&self, text: &str) {
        let step = self.step.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        step.unwrap_or_else(|| steps::begin(self.terminal, text)).done(text);
    }

    fn fail(&self) {
        if let Some(step) = self.step.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            step.failed(&self.terminal.text("up.failed", &[]));
        }
    }
}

fn dry_run(app: &App, wanted: &Wanted) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    let folder = app.folder();
    let plan = embedded::plan(&folder, wanted).map_err(Failure::from)?;
    let mut lines = Vec::new();
    match &plan.running {
        Some(record) if plan.restarts => {
            lines.push(terminal.text("plan.stop", &[("pid", &record.pid.unwrap_or_default())]));
            lines.push(terminal.text("plan.resume", &[("folder", &folder.store().display())]));
        }
        Some(record) => lines.push(terminal.text("plan.running", &[("pid", &record.pid.unwrap_or_default())])),
        None if plan.resumes => lines.push(terminal.text("plan.resume", &[("folder", &folder.store().display())])),
        None => lines.push(terminal.text("plan.create", &[("folder", &folder.path.display())])),
    }
    let control = LabSpec::control_plane(&app.lab);
    let workers = plan.spec.workers(&app.lab);
    let shown = if workers.len() > 3 { format!("{} ... {}", workers[0], workers[workers.len() - 1]) } else { workers.join(", ") };
    lines.push(terminal.text("plan.nodes", &[("control", &control), ("workers", &shown)]));
    let gpus = plan.spec.gpus.map_or_else(|| terminal.text("plan.gpus-of-profile", &[]), |n| n.to_string());
    lines.push(terminal.text("plan.gpus", &[("profile", &plan.spec.profile), ("gpus", &gpus)]));
    for object in crate::cluster::install::objects(None).map_err(Failure::from)? {
        let name = format!(
            "{}/{}",
            object["kind"].as_str().unwrap_or_default().to_lowercase(),
            object["metadata"]["name"].as_str().unwrap_or_default()
        );
        lines.push(terminal.text("plan.apply", &[("object", &name)]));
    }
    lines.push(terminal.text("plan.kubeconfig", &[("path", &folder.kubeconfig().display())]));
    super::items(terminal, &lines)?;
    Ok(0)
}

/// Runs the lab in this process until Ctrl-C.
async fn foreground(app: &App, wanted: &Wanted) -> Result<u8, Failure> {
    let folder = app.folder();
    folder.create().map_err(Failure::from)?;
    let plan = embedded::plan(&folder, wanted).map_err(Failure::from)?;
    if let Some(record) = plan.running {
        return Err(Failure::new(
            Kind::Refused,
            "DL-LAB-10",
            format!("lab \"{}\" runs already, as process {}", app.lab, record.pid.unwrap_or_default()),
        )
        .hint("stop it first: `dralab down`"));
    }
    let lab = serve::Serving::start(&app.home, &folder, &plan.spec).await.map_err(Failure::from)?;
    let record = lab.record().clone();
    let install = async {
        let client = embedded::connect(&record).await.map_err(Failure::from)?;
        crate::cluster::install::install(&client, None).await.map_err(Failure::from)
    };
    install.await?;
    app.terminal.progress(app.terminal.text("up.foreground", &[]));
    next_commands(app)?;
    serve::until_told().await.map_err(Failure::from)?;
    lab.stop().await.map_err(Failure::from)?;
    Ok(0)
}

/// `down`.
///
/// # Errors
/// When the process does not end, or files cannot be removed.
pub async fn down(app: &App, args: &DownArgs) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    let folder = app.folder();
    if args.dry_run {
        let mut lines = Vec::new();
        if folder.is_running() {
            lines.push(terminal.text("plan.down", &[("lab", &app.lab)]));
        }
        if args.purge && folder.path.exists() {
            lines.push(terminal.text("plan.purge", &[("folder", &folder.path.display())]));
        }
        if lines.is_empty() {
            lines.push(terminal.text("plan.nothing", &[]));
        }
        super::items(terminal, &lines)?;
        return Ok(0);
    }
    let done = embedded::down(&app.home, &app.lab, args.purge).await.map_err(Failure::from)?;
    let id = match (done.stopped, done.purged) {
        (true, true) => "down.stopped-and-purged",
        (true, false) => "down.stopped",
        (false, true) => "down.purged",
        (false, false) => "down.nothing",
    };
    terminal.progress(format!(" {} {}", terminal.good_mark(), terminal.text(id, &[("lab", &app.lab)])));
    Ok(0)
}

/// The process of an embedded lab: one line on stdout when it serves, then on until it is told to end.
///
/// # Errors
/// When it cannot be assembled.
pub async fn process(app: &App, args: &LabProcessArgs) -> Result<u8, Failure> {
    use crate::cluster::process::{OwnedFailure, Ready};
    let folder = LabFolder::at(&app.lab, args.dir.clone());
    let started = async {
        let spec: LabSpec = serde_json::from_str(&args.spec)
            .map_err(|error| Failure::new(Kind::Usage, "DL-LAB-02", "the lab's spec cannot be read").because(&error))?;
        serve::Serving::start(&app.home, &folder, &spec).await.map_err(Failure::from)
    };
    let told = |ready: &Ready| serde_json::to_string(ready).unwrap_or_default();
    match started.await {
        Ok(lab) => {
            // The starter may be gone by now (Ctrl-C); then SIGTERM is on its way too.
            let _ = app.terminal.line(told(&Ready::Ready));
            serve::until_told().await.map_err(Failure::from)?;
            lab.stop().await.map_err(Failure::from)?;
            Ok(0)
        }
        Err(failure) => {
            let _ = app.terminal.line(told(&Ready::Failed { failure: OwnedFailure::from(&failure) }));
            Err(failure)
        }
    }
}
