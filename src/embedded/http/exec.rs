//! `pods/NAME/exec` over a WebSocket (`v5.channel.k8s.io`, `v4.channel.k8s.io`): a command that the simulated shell knows, in
//! the environment that the container has. What the lab cannot simulate is refused with the reason.
//!
//! Each message begins with the number of its channel: 1 is standard output, 3 a `metav1.Status` at the end. Standard input is
//! not read: no command of the simulated shell reads it.

use std::sync::Arc;

use bytes::Bytes;
use futures::SinkExt;
use http::header::{CONNECTION, HeaderName, UPGRADE};
use http::{HeaderValue, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::logs::container;
use super::respond::{Answer, full};
use super::route::Address;
use super::service::Call;
use crate::embedded::api::resource::PODS;
use crate::embedded::api::{Status, meta};
use crate::embedded::node::container::{Output, Process, Program, Signals};

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
/// The protocols that are spoken, best first.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const STDOUT: u8 = 1;
const STATUS: u8 = 3;

/// Answers an exec: switches to a WebSocket and runs the command there.
pub(super) fn answer(call: &Call, address: &Address, upgrade: Option<OnUpgrade>) -> Result<Answer, Status> {
    let pod = call.api.get(&PODS, &address.namespace, &address.name)?;
    let name = container(&pod, &address.name, call.query.text("container"))?;
    let command: Vec<String> = call.query.all("command").map(str::to_owned).collect();
    if command.is_empty() {
        return Err(Status::bad_request("you must specify at least one command for the container"));
    }
    let log = call.api.logs().follow(meta::uid(&pod), &name);
    let surroundings = log.filter(|log| !log.borrow().ended).and_then(|log| log.borrow().surroundings.clone());
    let Some(surroundings) = surroundings else {
        return Err(Status::bad_request(format!("container not found (\"{name}\")")));
    };
    let offered = call.header(&PROTOCOL);
    let protocol = PROTOCOLS.into_iter().find(|known| offered.split(',').any(|o| o.trim() == *known));
    let (Some(upgrade), Some(protocol)) = (upgrade, protocol) else {
        return Err(Status::bad_request("exec is served over a WebSocket with v5.channel.k8s.io or v4.channel.k8s.io"));
    };
    let accept = HeaderValue::from_str(&derive_accept_key(call.header(&KEY).as_bytes()));
    let accept = accept.map_err(|_| Status::bad_request("the Sec-WebSocket-Key is not one"))?;
    let run = Exec { command, environment: surroundings.environment.clone(), hostname: surroundings.hostname.clone() };
    let (clock, closing) = (call.api.clock().clone(), call.closing.clone());
    // Ends with the command, the client or the server; the connection that it came from is gone by then.
    tokio::spawn(async move {
        tokio::select! {
            () = closing.cancelled() => {}
            () = serve(upgrade, run, clock) => {}
        }
    });
    let mut answer = Response::new(full(Bytes::new()));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(ACCEPT, accept);
    headers.insert(PROTOCOL, HeaderValue::from_static(protocol));
    Ok(answer)
}

/// A command and where it runs.
struct Exec {
    command: Vec<String>,
    environment: Vec<(String, String)>,
    hostname: String,
}

async fn serve(upgrade: OnUpgrade, exec: Exec, clock: crate::base::clock::SharedClock) {
    let Ok(upgraded) = upgrade.await else { return };
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    let (lines, mut printed) = mpsc::unbounded_channel();
    let program = Program::new(&exec.command, &[], "");
    let status = if let Some(why) = program.not_understood() {
        refused(&exec.command, why)
    } else {
        let process = Process {
            environment: exec.environment,
            hostname: exec.hostname,
            clock,
            signals: Arc::new(Signals::default()),
            output: Arc::new(Lines(lines)),
            settled: Arc::new(Notify::new()),
        };
        let running = program.run(process);
        tokio::pin!(running);
        let code = loop {
            tokio::select! {
                biased;
                Some(line) = printed.recv() => if send(&mut socket, STDOUT, line.as_bytes()).await.is_err() { return },
                code = &mut running => break code,
            }
        };
        while let Ok(line) = printed.try_recv() {
            if send(&mut socket, STDOUT, line.as_bytes()).await.is_err() {
                return;
            }
        }
        ended(code)
    };
    // A client that has gone needs no goodbye.
    let _ = send(&mut socket, STATUS, status.to_string().as_bytes()).await;
    let _ = socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() })).await;
}

async fn send<S>(socket: &mut WebSocketStream<S>, channel: u8, bytes: &[u8]) -> Result<(), tokio_tungstenite::tungstenite::Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel);
    message.extend_from_slice(bytes);
    socket.send(Message::binary(message)).await
}

/// The status at the end, as a kubelet sends it.
fn ended(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

/// The lab's own words about a command that it does not simulate.
fn refused(command: &[String], why: &str) -> Value {
    let name = command.first().map(String::as_str).unwrap_or_default();
    json!({
        "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
        "message": format!("cannot exec \"{name}\" in a container of an embedded lab: containers are simulated and {why}"),
    })
}

/// Lines go to the client as they come.
#[derive(Debug)]
struct Lines(mpsc::UnboundedSender<String>);

impl Output for Lines {
    fn line(&self, text: &str) {
        // The receiver goes when the client has gone.
        let _ = self.0.send(format!("{text}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::ended;

    #[test]
    fn the_status_tells_the_exit_code() {
        assert_eq!(ended(0)["status"], "Success");
        assert_eq!(ended(3)["details"]["causes"][0]["message"], "3");
    }
}
