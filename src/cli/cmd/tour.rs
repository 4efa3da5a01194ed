//! `tour`: the main job in one command. Lesson one played as a learner would, each command shown with its output, the
//! transitions as they happen, then verify. The lab stays up with its pod running.

use clap::Parser as _;

use crate::base::clock::{Clock as _, SystemClock};
use crate::base::failure::{Failure, Kind};
use crate::base::shell;
use crate::cli::app::App;
use crate::cli::args::{BackendArg, Cli, Command, TourArgs};
use crate::cli::cmd::{self, lab};
use crate::cli::interrupt;
use crate::client::apply::api_of;
use crate::client::wait;
use crate::cluster::embedded::Wanted;
use crate::lessons::progress::ProgressFile;
use crate::lessons::session::{LESSON_LABEL, Session};
use crate::lessons::template::Names;
use crate::lessons::verify::{self, Patience, Verdict};
use crate::lessons::{LessonError, Library, actions, run};
use crate::ui;
use crate::ui::terminal::Style;

/// The field manager of what the tour applies; by it the tour knows its own objects from a learner's.
const MANAGER: &str = "dralab-tour";

/// `tour`.
///
/// # Errors
/// When the lab cannot be brought up, or objects of a learner are in the way.
pub async fn run(app: &App, args: &TourArgs) -> Result<u8, Failure> {
    if app.record().is_err() {
        match args.backend {
            // A cluster that is half made is taken back on Ctrl-C, which takes longer than being dropped.
            Some(BackendArg::Kind) => {
                lab::kind::bring_up(app, crate::cluster::kind::Wanted::default(), lab::kind::environment(app)?, false).await?;
            }
            Some(BackendArg::Embedded) | None => interrupt::droppable(lab::embedded::bring_up(app, &Wanted::default())).await.map(drop)?,
        }
    }
    interrupt::droppable(play(app)).await
}

async fn play(app: &App) -> Result<u8, Failure> {
    let terminal = &app.terminal;
    let library = Library::embedded().map_err(Failure::from)?;
    let entry = library.entries().first().ok_or_else(|| Failure::from(LessonError::Unknown { name: "1".to_owned(), near: Vec::new() }))?;
    let mut session = cmd::lesson::session(app, entry).await?;
    session.manager = MANAGER;
    session.names = Names::new(&session.place, &entry.lesson.namespace(), &shell::quote(&session.work), "dralab");
    refuse_what_is_not_ours(&session).await?;
    session
        .clean()
        .await
        .or_else(|error| if matches!(error, LessonError::NotOurs { .. }) { Ok(()) } else { Err(error) })
        .map_err(Failure::from)?;

    let folder = app.folder();
    let mut file = ProgressFile::open(&folder.progress()).map_err(Failure::from)?;
    let language = app.language.code();
    terminal.line(terminal.styled(Style::Strong, &terminal.text("tour.heading", &[("title", &entry.title(language))])))?;
    terminal.line("")?;
    let mut last = None;
    for step in &entry.lesson.steps {
        session.begin(step, &mut file.progress, SystemClock.now()).await.map_err(Failure::from)?;
        ui::lesson::section(terminal, entry, &session.names, &format!("step {}", step.id))?;
        for command in &step.run {
            shown_command(app, &session.names.fill(command)).await?;
        }
        let since = file.progress.lessons.get(&entry.lesson.id).cloned().unwrap_or_default();
        for action in &step.solve {
            let did = actions::perform(&session.client, &session.kinds, entry, "solution", &session.names, MANAGER, action)
                .await
                .map_err(Failure::from)?;
            prompt(app, &did.command)?;
            for line in &did.lines {
                terminal.line(line)?;
            }
            terminal.line("")?;
        }
        let mut seen = Ok(());
        let report = {
            let mut live = |transition: &crate::lessons::journal::Entry| {
                if seen.is_ok() {
                    seen = terminal.line(ui::lesson::transition(terminal, transition));
                }
            };
            verify::verify(&session, step, &since, Patience::default(), &mut live).await.map_err(Failure::from)?
        };
        seen?;
        if !report.transitions.is_empty() {
            terminal.line("")?;
        }
        for command in &step.look {
            shown_command(app, &session.names.fill(command)).await?;
        }
        prompt(app, "dralab verify")?;
        ui::lesson::report(terminal, entry, &session.names, &report, false)?;
        if report.result != Verdict::Passed {
            file.save().map_err(Failure::from)?;
            return Ok(Kind::NotSatisfied.exit_code());
        }
        last = Some(report);
    }
    run::passed(&mut file.progress, &entry.lesson.id, SystemClock.now());
    file.save().map_err(Failure::from)?;
    if last.is_some() {
        terminal.line(terminal.text("tour.done", &[("namespace", &session.names.namespace())]))?;
        terminal.line("")?;
        terminal.line(format!("  {}", terminal.styled(Style::Literal, &lab::lab_command(app, "lesson next"))))?;
    }
    Ok(0)
}

fn prompt(app: &App, command: &str) -> Result<(), Failure> {
    app.terminal.line(format!("$ {}", app.terminal.styled(Style::Literal, command)))
}

/// Shows a command of dralab and runs it in this process.
async fn shown_command(app: &App, command: &str) -> Result<(), Failure> {
    prompt(app, command)?;
    let parsed = Cli::try_parse_from(command.split_whitespace());
    let broken = |reason: String| {
        Failure::new(Kind::Failed, "DL-LESSON-02", format!("the lesson's command `{command}` is not one of dralab"))
            .because(&std::io::Error::other(reason))
    };
    match parsed.map_err(|error| broken(error.to_string()))?.command {
        Command::Get(args) => cmd::look::get(app, &args).await?,
        Command::Describe(args) => cmd::describe::run(app, &args).await?,
        Command::Logs(args) => cmd::look::logs(app, &args).await?,
        Command::Events(args) => cmd::look::events(app, &args).await?,
        _ => return Err(broken("it does not only look".to_owned())),
    };
    app.terminal.line("")
}

/// Refuses to touch objects that somebody else made in the lesson's namespace.
async fn refuse_what_is_not_ours(session: &Session<'_>) -> Result<(), Failure> {
    let name = session.names.namespace();
    let namespaces = api_of(&session.client, session.kinds.find("namespaces").map_err(Failure::from)?, "");
    let there = namespaces.get_opt(name).await.map_err(|e| Failure::from(crate::client::ClientError::from(e)))?;
    let Some(there) = there else { return Ok(()) };
    let ours = there.metadata.labels.as_ref().is_some_and(|l| l.contains_key(LESSON_LABEL));
    let mut others = Vec::new();
    for kind in ["pods", "resourceclaims"] {
        let kind = session.kinds.find(kind).map_err(Failure::from)?;
        for object in wait::list(&api_of(&session.client, kind, name)).await.map_err(Failure::from)? {
            let made_by_tour = object["metadata"]["managedFields"].as_array().into_iter().flatten().any(|f| f["manager"] == MANAGER);
            if !(ours && made_by_tour) {
                others.push(format!("{}/{}", kind.singular, object["metadata"]["name"].as_str().unwrap_or_default()));
            }
        }
    }
    if others.is_empty() {
        Ok(())
    } else {
        Err(Failure::from(LessonError::NotOurs { namespace: name.to_owned(), objects: others.join(", ") }))
    }
}

/// Whether a command of a lesson is one that dralab has (kubectl's grammar is the same for what lessons use).
///
/// # Errors
/// What clap says.
pub fn parses(command: &str) -> Result<(), String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    Cli::try_parse_from(words).map(|_: Cli| ()).map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
}
