//! The scheduler's loop: feeds the state machine of [`crate::scheduling`] from watches and carries its plans out.
//!
//! All state is rebuilt from the API, at the start and whenever a watch has fallen behind; nothing else is kept.

#[cfg(test)]
mod tests;
mod writer;

use std::collections::VecDeque;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::api::resource::{DEVICECLASSES, NODES, PODS, RESOURCECLAIMS, RESOURCESLICES};
use super::api::{Api, Change, ChangeKind, Resource, Status, Watch};
use crate::base::clock::SharedClock;
use crate::model::features::Features;
use crate::scheduling::{self, Decision, Machine, Plan, Settings, Uid};

use writer::Writer;

/// `spec.schedulerName` of the pods that it places.
pub const SCHEDULER_NAME: &str = "default-scheduler";

/// What it watches, in the order in which a burst is taken in: what pods need before the pods.
static WATCHED: [&Resource; 5] = [&NODES, &DEVICECLASSES, &RESOURCESLICES, &RESOURCECLAIMS, &PODS];

/// How long a placement that allocates claims stays in flight before its claims are written.
///
/// In kube-scheduler the binding cycle runs beside the next scheduling cycles, and its writes took 30 to 100 ms in the
/// recordings. A pod that comes in that time and needs the same claim is told that the claim "is in the process of being
/// allocated" (recording 08); without a pause that state, which people meet on real clusters, could not be seen.
pub const BINDING_PAUSE: Duration = Duration::from_millis(30);

/// After so many pods in a row other tasks have their turn.
const TURN: usize = 16;

/// A running scheduler. It stops when the token it was started with is cancelled, or the store closes.
#[derive(Debug)]
pub struct Scheduler {
    task: JoinHandle<()>,
}

impl Scheduler {
    /// Starts it; claims are written `binding_pause` after they have been allocated. Must be called within a tokio runtime.
    #[must_use]
    pub fn start(api: Api, clock: SharedClock, features: Features, binding_pause: Duration, shutdown: CancellationToken) -> Self {
        let task = tokio::spawn(async move {
            let mut writer = Writer::new(api.clone(), clock.clone());
            while !shutdown.is_cancelled() {
                let ended = tokio::select! {
                    () = shutdown.cancelled() => return,
                    ended = session(&api, &clock, features, binding_pause, &mut writer) => ended,
                };
                match ended {
                    Ended::Closed => return,
                    Ended::FellBehind(status) => tracing::debug!(%status, "the scheduler lists again"),
                }
            }
        });
        Scheduler { task }
    }

    /// Waits until it has stopped.
    pub async fn join(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the scheduler ended badly");
        }
    }
}

enum Ended {
    /// The store has closed.
    Closed,
    /// A watch has lost changes.
    FellBehind(Status),
}

async fn session(api: &Api, clock: &SharedClock, features: Features, pause: Duration, writer: &mut Writer) -> Ended {
    match run(api, clock, features, pause, writer).await {
        Ok(()) => Ended::Closed,
        Err(status) => Ended::FellBehind(status),
    }
}

/// A placement whose remaining writes are due later.
struct InFlight {
    due: Timestamp,
    pod: Uid,
    plan: Plan,
}

async fn run(api: &Api, clock: &SharedClock, features: Features, pause: Duration, writer: &mut Writer) -> Result<(), Status> {
    let mut in_flight: VecDeque<InFlight> = VecDeque::new();
    let mut machine = Machine::new(Settings { name: SCHEDULER_NAME.to_owned(), features });
    let mut watches = Vec::with_capacity(WATCHED.len());
    for resource in WATCHED {
        let list = api.list(resource, "")?;
        for object in &list.items {
            take_in(&mut machine, clock, object, false);
        }
        watches.push(api.watch(resource, "", list.revision)?);
    }
    loop {
        let mut placed = 0;
        drain(&mut machine, clock, &mut watches);
        while let Some(attempt) = machine.next(clock.now()) {
            let placed_now = matches!(attempt.decision, Decision::Placed { .. });
            if placed_now && !pause.is_zero() && attempt.plan.allocates() {
                let (first, rest) = attempt.plan.clone().split_nomination();
                writer.carry_out(&mut machine, &first);
                let due = clock.now().checked_add(pause).unwrap_or(Timestamp::MAX);
                in_flight.push_back(InFlight { due, pod: attempt.pod.uid.clone(), plan: rest });
            } else {
                let failure = writer.carry_out(&mut machine, &attempt.plan);
                if placed_now {
                    finish(&mut machine, writer, clock, &attempt.pod.uid, failure);
                }
            }
            tracing::debug!(pod = %attempt.pod.key, number = attempt.number, decision = ?attempt.decision, "attempt");
            drain(&mut machine, clock, &mut watches);
            placed += 1;
            if placed % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        let now = clock.now();
        while in_flight.front().is_some_and(|first| first.due <= now) {
            let Some(InFlight { pod, plan, .. }) = in_flight.pop_front() else { break };
            let failure = writer.carry_out(&mut machine, &plan);
            finish(&mut machine, writer, clock, &pod, failure);
        }
        let next = machine.next_due().into_iter().chain(in_flight.front().map(|first| first.due)).min();
        let due: BoxFuture<'static, ()> = match next {
            Some(at) => {
                let wait = at.duration_since(clock.now());
                clock.sleep(wait.try_into().unwrap_or_default())
            }
            None => Box::pin(std::future::pending()),
        };
        let changed = futures::future::select_all(watches.iter_mut().map(|watch| watch.next().boxed()));
        let change = tokio::select! {
            () = due => continue,
            (change, _, _) = changed => change,
        };
        match change {
            Some(change) => observe(&mut machine, clock, &change?),
            None => return Ok(()),
        }
    }
}

/// Tells the machine how a placement ended, and carries out what it gives back when it failed.
fn finish(machine: &mut Machine, writer: &mut Writer, clock: &SharedClock, pod: &Uid, failure: Option<String>) {
    let back = machine.finish(pod, failure.map_or(Ok(()), Err), clock.now());
    writer.carry_out(machine, &back);
}

/// Takes in what has arrived already.
fn drain(machine: &mut Machine, clock: &SharedClock, watches: &mut [Watch]) {
    for watch in watches {
        while let Some(change) = watch.try_next() {
            observe(machine, clock, &change);
        }
    }
}

fn observe(machine: &mut Machine, clock: &SharedClock, change: &Change) {
    take_in(machine, clock, &change.object, change.kind == ChangeKind::Deleted);
}

/// An object that cannot be read is passed over: the API would not have stored it.
fn take_in(machine: &mut Machine, clock: &SharedClock, object: &Value, gone: bool) {
    if !gone && machine.knows(object) {
        return;
    }
    match scheduling::Change::read(object, gone) {
        Ok(Some(change)) => machine.observe(&change, clock.now()),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the scheduler cannot read an object"),
    }
}
