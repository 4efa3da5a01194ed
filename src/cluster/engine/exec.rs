//! A command in a container, as `docker exec -i` runs one: its input is streamed, its two outputs are kept apart.

use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error::DockerResponseServerError as Refused;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use futures::StreamExt as _;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::cluster::engine::{ByteStream, Engine, EngineError};

/// How much of each output is kept; what comes after is read and dropped.
const KEPT: usize = 8 << 20;
/// How often, and with which pause, the exit code is asked for: an engine closes the output a moment before it has the code.
const ASK: (u32, Duration) = (100, Duration::from_millis(20));

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Its exit code; 126 or 127 when it could not be started.
    pub code: i64,
    /// Its output.
    pub stdout: Vec<u8>,
    /// Its error output.
    pub stderr: Vec<u8>,
}

impl Executed {
    /// It ended well.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.code == 0
    }

    /// Its output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// What it said to people: its error output, else (as when it could not be started) its output.
    #[must_use]
    pub fn said(&self) -> String {
        let said = if self.stderr.iter().all(u8::is_ascii_whitespace) { &self.stdout } else { &self.stderr };
        String::from_utf8_lossy(said).trim().to_owned()
    }
}

impl Engine {
    /// Runs `argv` in a container as root and waits for its end. `stdin` is streamed to it and then closed, so that a command that
    /// reads its input to the end (`ctr images import -`) ends. A command that outlives `limit` is left to itself.
    ///
    /// # Errors
    /// When there is no such container or it does not run, when `stdin` fails, when the engine goes away, when `limit` is over.
    pub async fn exec(&self, container: &str, argv: &[&str], stdin: Option<ByteStream>, limit: Duration) -> Result<Executed, EngineError> {
        match tokio::time::timeout(limit, self.run(container, argv, stdin)).await {
            Ok(end) => end,
            Err(_) => Err(EngineError::ExecTimedOut { container: container.to_owned(), command: argv.join(" "), seconds: limit.as_secs() }),
        }
    }

    async fn run(&self, container: &str, argv: &[&str], stdin: Option<ByteStream>) -> Result<Executed, EngineError> {
        let what = || format!("run `{}` in the container {container}", argv.join(" "));
        let options = CreateExecOptions {
            attach_stdin: Some(stdin.is_some()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(argv.to_vec()),
            ..CreateExecOptions::default()
        };
        let made = self.docker.create_exec(container, options).await.map_err(|error| match &error {
            // Docker says so by the status; podman's is 500 for a container that does not run.
            Refused { status_code, message } if matches!(status_code, 404 | 409) || message.contains("running containers") => {
                EngineError::NoContainer { container: container.to_owned(), message: message.trim().to_owned() }
            }
            _ => EngineError::request(what())(error),
        })?;
        let started = self.docker.start_exec(&made.id, None::<StartExecOptions>).await.map_err(EngineError::request(what()))?;
        let StartExecResults::Attached { mut output, input } = started else {
            return Err(EngineError::Stream { what: what(), source: std::io::Error::other("the engine did not attach") });
        };
        let mut end = Executed::default();
        let mut broken = None;
        {
            let feed = feed(input, stdin);
            tokio::pin!(feed);
            let mut fed = false;
            loop {
                tokio::select! {
                    result = &mut feed, if !fed => {
                        result.map_err(|source| EngineError::Stream { what: what(), source })?;
                        fed = true;
                    }
                    // Its end is the end of the command, whether or not all of its input was read.
                    item = output.next() => match item {
                        Some(Ok(item)) => keep(&mut end, item),
                        Some(Err(error)) => {
                            broken = Some(error);
                            break;
                        }
                        None => break,
                    },
                }
            }
        }
        match (self.exit_code(&made.id).await, broken) {
            // podman breaks the connection of a command that ended before it had read its input.
            (Ok(code), broken) if broken.is_none() || code != 0 => Ok(Executed { code, ..end }),
            (_, Some(error)) | (Err(error), None) => Err(EngineError::request(what())(error)),
            (Ok(code), None) => Ok(Executed { code, ..end }),
        }
    }

    async fn exit_code(&self, exec: &str) -> Result<i64, bollard::errors::Error> {
        for _ in 0..ASK.0 {
            let seen = self.docker.inspect_exec(exec).await?;
            if let (Some(code), Some(false)) = (seen.exit_code, seen.running) {
                return Ok(code);
            }
            tokio::time::sleep(ASK.1).await;
        }
        Err(bollard::errors::Error::RequestTimeoutError)
    }
}

/// Writes the input and then closes that half of the connection. A command that stops reading is no error here: its exit code tells.
async fn feed(mut input: impl AsyncWrite + Unpin, stdin: Option<ByteStream>) -> std::io::Result<()> {
    let Some(mut stdin) = stdin else { return Ok(()) };
    while let Some(chunk) = stdin.next().await {
        if let Err(error) = input.write_all(&chunk?).await {
            tracing::debug!(%error, "a command stopped reading its input");
            return Ok(());
        }
    }
    if let Err(error) = input.shutdown().await {
        tracing::debug!(%error, "a command's input was closed by the other side");
    }
    Ok(())
}

fn keep(end: &mut Executed, output: LogOutput) {
    let (into, message) = match output {
        LogOutput::StdErr { message } => (&mut end.stderr, message),
        LogOutput::StdOut { message } | LogOutput::Console { message } | LogOutput::StdIn { message } => (&mut end.stdout, message),
    };
    let room = KEPT.saturating_sub(into.len()).min(message.len());
    into.extend_from_slice(message.get(..room).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use futures::StreamExt as _;
    use serde_json::json;

    use crate::cluster::engine::fake::{Answer, Fake};
    use crate::cluster::engine::{ByteStream, Engine, EngineError};

    fn stream(parts: Vec<std::io::Result<Bytes>>) -> ByteStream {
        futures::stream::iter(parts).boxed()
    }

    /// An engine whose one container echoes its input to stdout once that has come to its end, and says `done` on stderr.
    async fn echoing(code: i64) -> Fake {
        Fake::start(vec![
            Fake::version(),
            ("POST", "/containers/node/exec", Answer::Json(201, json!({"Id": "e1"}))),
            ("POST", "/containers/stopped/exec", Answer::Json(409, json!({"message": "Container abc is not running"}))),
            ("POST", "/exec/e1/start", Answer::Echo),
            ("GET", "/exec/e1/json", Answer::Json(200, json!({"ID": "e1", "Running": false, "ExitCode": code}))),
        ])
        .await
    }

    #[tokio::test]
    async fn input_goes_in_and_is_closed_and_both_outputs_come_back() {
        let fake = echoing(3).await;
        let engine = Engine::connect(&fake.address()).await.expect("an engine");
        let big = Bytes::from(vec![b'x'; 300_000]);
        let input = stream(vec![Ok(Bytes::from_static(b"head ")), Ok(big.clone())]);
        let end = engine.exec("node", &["cat"], Some(input), Duration::from_secs(5)).await.expect("it ran");
        assert_eq!((end.code, end.stdout.len(), end.stderr.as_slice()), (3, 5 + big.len(), b"done\n".as_slice()));
        assert!(!end.succeeded());
        assert_eq!(end.said(), "done");
    }

    #[tokio::test]
    async fn an_engine_that_dies_in_the_middle_is_gone() {
        let fake = Fake::start(vec![
            Fake::version(),
            ("POST", "/containers/node/exec", Answer::Json(201, json!({"Id": "e1"}))),
            ("POST", "/exec/e1/start", Answer::Break),
        ])
        .await;
        let engine = Engine::connect(&fake.address()).await.expect("an engine");
        let input = stream(vec![Ok(Bytes::from(vec![0; 1_000_000]))]);
        let error = engine.exec("node", &["cat"], Some(input), Duration::from_secs(5)).await.expect_err("it broke");
        assert!(matches!(&error, EngineError::Gone { .. } | EngineError::Request { .. }), "{error:?}");
        drop(fake);
        let error = engine.exec("node", &["cat"], None, Duration::from_secs(5)).await.expect_err("it is gone");
        assert!(matches!(&error, EngineError::Gone { .. }), "{error:?}");
        assert!(matches!(engine.nodes("lab").await, Err(EngineError::Gone { .. })));
    }

    #[tokio::test]
    async fn what_cannot_run_and_what_hangs_are_told_apart() {
        let fake = echoing(0).await;
        let engine = Engine::connect(&fake.address()).await.expect("an engine");
        let error = engine.exec("stopped", &["true"], None, Duration::from_secs(5)).await.expect_err("stopped");
        assert!(matches!(&error, EngineError::NoContainer { message, .. } if message.contains("not running")), "{error}");
        let broken = stream(vec![Ok(Bytes::from_static(b"a")), Err(std::io::Error::other("the file is gone"))]);
        let error = engine.exec("node", &["cat"], Some(broken), Duration::from_secs(5)).await.expect_err("broken");
        assert!(matches!(&error, EngineError::Stream { source, .. } if source.to_string() == "the file is gone"), "{error}");
        let endless = futures::stream::pending().boxed();
        let error = engine.exec("node", &["cat"], Some(endless), Duration::from_millis(100)).await.expect_err("hangs");
        assert!(matches!(&error, EngineError::ExecTimedOut { command, .. } if command == "cat"), "{error}");
    }
}
