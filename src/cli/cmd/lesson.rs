//! `lesson …`.

use serde_json::json;

use crate::base::clock::{Clock as _, SystemClock};
use crate::base::failure::Failure;
use crate::base::shell;
use crate::cli::app::App;
use crate::cli::args::{Format, LessonCommand, StatusArgs};
use crate::cli::cmd::lab::lab_command;
use crate::lessons::format::Step;
use crate::lessons::library::Entry;
use crate::lessons::progress::{self, Progress, ProgressFile};
use crate::lessons::run::{self, Ended};
use crate::lessons::session::Session;
use crate::lessons::verify::Patience;
use crate::lessons::{LessonError, Library, actions};
use crate::ui;
use crate::ui::terminal::Style;

/// `lesson …`.
///
/// # Errors
/// When the lab is not up, or there is no such lesson.
pub async fn run(app: &App, command: LessonCommand) -> Result<u8, Failure> {
    let library = Library::embedded().map_err(Failure::from)?;
    match command {
        LessonCommand::List(args) => list(app, &library, &args),
        LessonCommand::Next { skip } => next(app, &library, skip).await,
        LessonCommand::Show { id } => show(app, &library, id.as_deref()).await,
        LessonCommand::Hint { id, all } => hint(app, &library, id.as_deref(), all).await,
        LessonCommand::Solution { id } => solution(app, &library, id.as_deref()).await,
        LessonCommand::Reset { id } => reset(app, &library, id.as_deref()).await,
        LessonCommand::Run { ids, all, output } => unattended(app, &library, &ids, all, output).await,
    }
}

/// A session on a lesson of the lab.
///
/// # Errors
/// When the lab is not up.
pub async fn session<'e>(app: &App, entry: &'e Entry) -> Result<Session<'e>, Failure> {
    let client = app.client().await?;
    let work = app.folder().lessons().join(&entry.folder);
    Session::new(client, entry, work, app.kubectl_word(), app.place()).await.map_err(Failure::from)
}

pub(super) fn open_progress(app: &App) -> Result<ProgressFile, Failure> {
    let folder = app.folder();
    if !folder.path.exists() {
        // There is no lab, and looking makes no folders.
        app.record()?;
    }
    ProgressFile::open(&folder.progress()).map_err(Failure::from)
}

/// The lesson that is named, else the current one, else (for showing) the next one.
pub(super) fn named<'l>(library: &'l Library, progress: &Progress, id: Option<&str>) -> Result<&'l Entry, LessonError> {
    match id.or(progress.current.as_deref()) {
        Some(id) => library.find(id),
        None => Err(LessonError::NoCurrent),
    }
}

/// The step that the learner is at, else the first.
pub(super) fn current_step<'e>(entry: &'e Entry, progress: &Progress) -> Result<&'e Step, Failure> {
    let at = progress.lessons.get(&entry.lesson.id).and_then(|p| entry.lesson.step(&p.step));
    at.map(|(_, step)| step)
        .or_else(|| entry.lesson.steps.first())
        .ok_or_else(|| Failure::from(LessonError::Broken { file: entry.folder.clone(), reason: "it has no steps".to_owned() }))
}

fn list(app: &App, library: &Library, args: &StatusArgs) -> Result<u8, Failure> {
    let progress = progress::read(&app.folder().progress()).map_err(Failure::from)?;
    let language = app.language.code();
    let state = |entry: &Entry| {
        let lesson = progress.lessons.get(&entry.lesson.id);
        if lesson.is_some_and(|l| l.passed_at.is_some()) {
            "passed"
        } else if progress.current.as_deref() == Some(entry.lesson.id.as_str()) {
            "current"
        } else if lesson.is_some_and(|l| l.skipped) {
            "skipped"
        } else {
            "open"
        }
    };
    if args.output == Format::Json {
        let lessons: Vec<_> = library
            .entries()
            .iter()
            .map(|e| json!({"number": e.number, "id": e.lesson.id, "title": e.title(language), "minutes": e.lesson.minutes, "difficulty": e.lesson.difficulty, "state": state(e)}))
            .collect();
        app.terminal.line(json!({"apiVersion": "dralab/v1", "kind": "LessonList", "items": lessons}).to_string())?;
        return Ok(0);
    }
    let text = |id: &str| app.terminal.text(id, &[]);
    let header = [text("lessons.number"), text("lessons.id"), text("lessons.title"), text("lessons.minutes"), text("lessons.state")];
    let rows: Vec<Vec<String>> = library
        .entries()
        .iter()
        .map(|e| {
            vec![
                e.number.to_string(),
                e.lesson.id.clone(),
                e.title(language).to_owned(),
                e.lesson.minutes.to_string(),
                text(&format!("lessons.{}", state(e))),
            ]
        })
        .collect();
    app.terminal.write(ui::table::render(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows).as_bytes())?;
    Ok(0)
}

async fn next(app: &App, library: &Library, skip: bool) -> Result<u8, Failure> {
    let mut file = open_progress(app)?;
    let is_passed = |progress: &Progress, id: &str| progress.lessons.get(id).is_some_and(|l| l.passed_at.is_some());
    let mut left = false;
    if let Some(current) = file.progress.current.clone()
        && let Ok(entry) = library.find(&current)
        && !is_passed(&file.progress, &current)
    {
        if skip {
            file.progress.lessons.entry(current).or_default().skipped = true;
            file.progress.current = None;
            left = true;
            file.save().map_err(Failure::from)?;
        } else {
            app.terminal.progress(app.terminal.text("lesson.stays", &[("id", &entry.lesson.id)]));
            let session = session(app, entry).await?;
            let step = current_step(entry, &file.progress)?;
            return show_step(app, &session, step, &mut file);
        }
    }
    let mut entry = following(library, &file.progress, skip);
    // With no lesson to leave, `--skip` leaves out the one that the cluster lacks something for.
    if skip
        && !left
        && let Some(next) = entry
        && session(app, next).await?.lacks().await.map_err(Failure::from)?.is_some()
    {
        file.progress.lessons.entry(next.lesson.id.clone()).or_default().skipped = true;
        file.save().map_err(Failure::from)?;
        entry = following(library, &file.progress, skip);
    }
    let Some(entry) = entry else {
        app.terminal.line(app.terminal.text("lessons.all-done", &[("count", &library.entries().len())]))?;
        return Ok(0);
    };
    begin(app, library, entry, &mut file).await
}

/// The first lesson that is open; then, unless lessons are being skipped, the first that was skipped.
fn following<'l>(library: &'l Library, progress: &Progress, skip: bool) -> Option<&'l Entry> {
    let of = |e: &&Entry| progress.lessons.get(&e.lesson.id);
    let open = |e: &&Entry| !of(e).is_some_and(|l| l.passed_at.is_some() || l.skipped);
    let skipped = |e: &&Entry| of(e).is_some_and(|l| l.skipped && l.passed_at.is_none());
    library.entries().iter().find(open).or_else(|| library.entries().iter().find(skipped).filter(|_| !skip))
}

async fn begin(app: &App, library: &Library, entry: &Entry, file: &mut ProgressFile) -> Result<u8, Failure> {
    let session = session(app, entry).await?;
    give_back(app, library, &session, &file.progress).await?;
    if let Some(lack) = session.lacks().await.map_err(Failure::from)? {
        let mut failure = Failure::from(LessonError::Needs { lesson: entry.lesson.id.clone(), need: lack.need });
        for (namespace, pods) in lack.held_by.iter().filter(|(_, pods)| !pods.is_empty()) {
            let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
            let command = lab_command(app, &format!("delete -n {namespace} pod {}", pods.join(" ")));
            failure = failure
                .hint(format!("give the devices back by deleting the pods: `{command}`, then `{}`", lab_command(app, "lesson next")));
        }
        return Err(failure.hint(format!("leave the lesson out: `{}`", lab_command(app, "lesson next --skip"))));
    }
    let step = session.first().map_err(Failure::from)?;
    session.begin(step, &mut file.progress, SystemClock.now()).await.map_err(Failure::from)?;
    file.save().map_err(Failure::from)?;
    show_step(app, &session, step, file)
}

/// Ends pods of lessons that have passed, when they hold devices that the next lesson needs. Claims stay, and so does what is not a lesson's.
async fn give_back(app: &App, library: &Library, session: &Session<'_>, progress: &Progress) -> Result<(), Failure> {
    let Some(lack) = session.lacks().await.map_err(Failure::from)? else { return Ok(()) };
    for (namespace, pods) in &lack.held_by {
        let passed = library.entries().iter().find(|e| {
            session.place.namespace(&e.lesson.namespace()) == *namespace
                && progress.lessons.get(&e.lesson.id).is_some_and(|l| l.passed_at.is_some())
        });
        let Some(passed) = passed else { continue };
        let names = pods.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        app.terminal
            .progress(app.terminal.text("lesson.gives-back", &[("id", &passed.lesson.id), ("namespace", namespace), ("pods", &names)]));
        session.end_pods(namespace, pods).await.map_err(Failure::from)?;
    }
    Ok(())
}

/// Shows a step; on a terminal the prediction is asked for.
fn show_step(app: &App, session: &Session<'_>, step: &Step, file: &mut ProgressFile) -> Result<u8, Failure> {
    ui::lesson::step(&app.terminal, session.entry, &session.names, step)?;
    if !step.work.is_empty() {
        app.terminal.line(app.terminal.text("lesson.files", &[]))?;
        for name in &step.work {
            app.terminal.line(format!("  {}", app.terminal.styled(Style::Literal, &session.work.join(name).display().to_string())))?;
        }
        app.terminal.line("")?;
    }
    if let Some(predict) = &step.predict
        && app.environment.is_interactive()
        && app.environment.stdout_is_terminal
    {
        let prompt = app.terminal.text("lesson.your-prediction", &[]);
        if let Some(choice) = ui::ask::choose(&prompt, &predict.choose)?
            && let Some(made) = predict.choose.get(choice)
        {
            file.progress.lessons.entry(session.entry.lesson.id.clone()).or_default().predictions.insert(predict.ask.clone(), made.clone());
            file.save().map_err(Failure::from)?;
        }
    }
    app.terminal.line(app.terminal.text("lesson.then-verify", &[("command", &lab_command(app, "verify"))]))?;
    Ok(0)
}

async fn show(app: &App, library: &Library, id: Option<&str>) -> Result<u8, Failure> {
    let progress = progress::read(&app.folder().progress()).map_err(Failure::from)?;
    let entry = named(library, &progress, id).map_err(Failure::from)?;
    let names = names(app, entry);
    let step = current_step(entry, &progress)?;
    ui::lesson::step(&app.terminal, entry, &names, step)?;
    Ok(0)
}

/// Names for showing, without a cluster.
fn names(app: &App, entry: &Entry) -> crate::lessons::template::Names {
    let work = app.folder().lessons().join(&entry.folder);
    crate::lessons::template::Names::new(&app.place(), &entry.lesson.namespace(), &shell::quote(&work), app.kubectl_word())
}

async fn hint(app: &App, library: &Library, id: Option<&str>, all: bool) -> Result<u8, Failure> {
    let mut file = open_progress(app)?;
    let entry = named(library, &file.progress, id).map_err(Failure::from)?;
    let step = current_step(entry, &file.progress)?;
    let lesson = file.progress.lessons.entry(entry.lesson.id.clone()).or_default();
    let shown = if all { step.hints.len() } else { (lesson.hints_shown + 1).min(step.hints.len()) };
    lesson.hints_shown = shown;
    file.save().map_err(Failure::from)?;
    let names = names(app, entry);
    for (index, hint) in step.hints.iter().take(shown).enumerate() {
        let heading = app.terminal.text("lesson.hint", &[("number", &(index + 1)), ("all", &step.hints.len())]);
        app.terminal.line(app.terminal.styled(Style::Strong, &heading))?;
        ui::lesson::section(&app.terminal, entry, &names, &format!("hint {hint}"))?;
    }
    if step.hints.is_empty() {
        app.terminal.progress(app.terminal.text("lesson.no-hints", &[]));
    }
    Ok(0)
}

async fn solution(app: &App, library: &Library, id: Option<&str>) -> Result<u8, Failure> {
    let progress = progress::read(&app.folder().progress()).map_err(Failure::from)?;
    let entry = named(library, &progress, id).map_err(Failure::from)?;
    let names = names(app, entry);
    for step in &entry.lesson.steps {
        app.terminal.line(app.terminal.styled(Style::Strong, &app.terminal.text("lesson.solution-of", &[("step", &step.id)])))?;
        app.terminal.line("")?;
        for action in &step.solve {
            for line in solution_lines(entry, &names, action)? {
                app.terminal.line(format!("    {line}").trim_end())?;
            }
            app.terminal.line("")?;
        }
    }
    Ok(0)
}

fn solution_lines(
    entry: &Entry,
    names: &crate::lessons::template::Names,
    action: &crate::lessons::format::Action,
) -> Result<Vec<String>, Failure> {
    use crate::lessons::format::Action;
    Ok(match action {
        Action::Apply(_) | Action::Refused(_) => {
            let path = action.manifest("solution").unwrap_or_default();
            let text = actions::text(entry, &path, names).map_err(Failure::from)?;
            let mut lines = vec!["dralab apply -f - <<'EOF'".to_owned()];
            lines.extend(text.trim_end().lines().map(str::to_owned));
            lines.push("EOF".to_owned());
            lines
        }
        Action::Delete(object) => vec![format!("dralab delete -n {} {}", names.namespace(), names.fill(object))],
        Action::StartDelete(object) => vec![format!("dralab delete -n {} {} --no-wait", names.namespace(), names.fill(object))],
        Action::Wait(expect) => vec![format!("# wait until {} is {}", names.fill(&expect.object), expect.to)],
        Action::Label(text) => vec![format!("kubectl label {}", names.fill(text))],
    })
}

async fn reset(app: &App, library: &Library, id: Option<&str>) -> Result<u8, Failure> {
    let mut file = open_progress(app)?;
    let entry = named(library, &file.progress, id).map_err(Failure::from)?;
    let session = session(app, entry).await?;
    session.reset(&mut file.progress, SystemClock.now()).await.map_err(Failure::from)?;
    file.save().map_err(Failure::from)?;
    app.terminal.line(app.terminal.text("lesson.reset", &[("id", &entry.lesson.id), ("namespace", &session.names.namespace())]))?;
    Ok(0)
}

async fn unattended(app: &App, library: &Library, ids: &[String], all: bool, output: Format) -> Result<u8, Failure> {
    let entries: Vec<&Entry> = if all {
        library.entries().iter().collect()
    } else {
        ids.iter().map(|id| library.find(id)).collect::<Result<_, _>>().map_err(Failure::from)?
    };
    let mut file = open_progress(app)?;
    let before = file.progress.current.clone();
    let (mut passed, mut failed, mut skipped) = (0usize, 0usize, 0usize);
    let mut results = Vec::new();
    let last = entries.last().map(|entry| entry.lesson.id.clone());
    let mut place = before.clone();
    for entry in entries {
        let session = session(app, entry).await?;
        let mut left = Left { app, entry, armed: true };
        let ended = run::unattended(&session, &mut file.progress, SystemClock.now(), Patience::default(), &mut |_| {})
            .await
            .map_err(Failure::from)?;
        // Saved with the learner's own current lesson: this run may be broken off during the next one.
        file.progress.current.clone_from(&before);
        file.save().map_err(Failure::from)?;
        left.armed = false;
        let title = format!("{} {}", entry.number, entry.lesson.id);
        match &ended {
            Ended::Passed => {
                passed += 1;
                if before.is_none() && last.as_ref() == Some(&entry.lesson.id) {
                    // Whoever has no lesson of their own can look at this one, and `verify` it again.
                    place = last.clone();
                    left.armed = true;
                } else {
                    session.clean().await.map_err(Failure::from)?;
                }
                if output == Format::Text {
                    app.terminal.line(format!(" {} {title}", app.terminal.styled(Style::Good, app.terminal.good_mark())))?;
                }
            }
            Ended::Skipped { because } => {
                skipped += 1;
                if output == Format::Text {
                    app.terminal.line(format!(" - {title}: {}", app.terminal.text("lesson.skipped", &[("because", because)])))?;
                }
            }
            Ended::Failed { report } => {
                failed += 1;
                if output == Format::Text {
                    app.terminal.line(format!(" {} {title}", app.terminal.styled(Style::Bad, app.terminal.bad_mark())))?;
                    ui::lesson::report(&app.terminal, entry, &session.names, report, true)?;
                }
            }
        }
        results.push(json!({"id": entry.lesson.id, "number": entry.number, "ended": ended}));
    }
    file.progress.current = place;
    file.save().map_err(Failure::from)?;
    match output {
        Format::Text => app.terminal.line(format!("{passed} passed, {failed} failed, {skipped} skipped"))?,
        Format::Json => app.terminal.line(json!({"apiVersion": "dralab/v1", "kind": "LessonRun", "passed": passed, "failed": failed, "skipped": skipped, "lessons": results}).to_string())?,
    }
    Ok(u8::from(failed > 0 || passed == 0))
}

/// Says what an unattended run leaves behind when it is broken off.
struct Left<'a> {
    app: &'a App,
    entry: &'a Entry,
    armed: bool,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if self.armed {
            let namespace = self.app.place().namespace(&self.entry.lesson.namespace());
            let command = lab_command(self.app, &format!("delete namespace/{namespace}"));
            let values: [(&str, &dyn std::fmt::Display); 2] = [("namespace", &namespace), ("command", &command)];
            self.app.terminal.progress(self.app.terminal.text("lesson.left", &values));
        }
    }
}
