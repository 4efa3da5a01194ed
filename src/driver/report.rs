//! What claims are told about their devices: a condition in `status.devices`, written after prepare.
//!
//! Beside the work, never in its way: a claim is prepared whether or not its status can be written. The API server
//! drops the entries with the allocation, so that nothing has to be taken back. Written by server-side apply with
//! a field manager for each driver: entries of other drivers in the same claim stay as they are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::resource::v1::{AllocatedDeviceStatus, ResourceClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::error::kube_text;
use super::inventory::{DeviceHealth, Health, Inventory};
use super::prepare::PreparedClaim;
use super::status::{DriverStatus, Part, trouble, well};
use crate::base::clock::SharedClock;

/// The condition's type.
const READY: &str = "Ready";
/// How long a call may take before it counts as failed.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// First and longest wait after a call that failed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// What happens to claims, for the [`Reporter`]. Cheap to clone; telling never waits.
#[derive(Clone, Debug)]
pub(super) struct Reports(mpsc::UnboundedSender<News>);

#[derive(Debug)]
enum News {
    Prepared(PreparedClaim, Written),
    Unprepared(String),
}

/// What is known of the conditions that a claim has.
#[derive(Clone, Debug, PartialEq)]
enum Written {
    /// Nothing: an earlier process prepared the claim.
    Unknown,
    /// None are there.
    Not,
    /// These are.
    This(Vec<AllocatedDeviceStatus>),
    /// They cannot be written, for a reason that does not pass by itself.
    Never,
}

impl Reports {
    /// A claim has been prepared just now.
    pub(super) fn prepared(&self, claim: PreparedClaim) {
        self.tell(News::Prepared(claim, Written::Not));
    }

    /// A claim was prepared by an earlier process.
    pub(super) fn known(&self, claim: PreparedClaim) {
        self.tell(News::Prepared(claim, Written::Unknown));
    }

    /// A claim has been unprepared.
    pub(super) fn unprepared(&self, uid: &str) {
        self.tell(News::Unprepared(uid.to_owned()));
    }

    fn tell(&self, news: News) {
        // After the reporter's end, which is the driver's, nobody is to be told.
        let _ = self.0.send(news);
    }
}

/// Writes the conditions. Owns one task ([`Reporter::run`]).
pub(super) struct Reporter {
    driver: String,
    inventory: Arc<dyn Inventory>,
    client: Client,
    clock: SharedClock,
    status: watch::Sender<DriverStatus>,
    news: mpsc::UnboundedReceiver<News>,
    claims: BTreeMap<String, (PreparedClaim, Written)>,
    health: BTreeMap<String, DeviceHealth>,
    /// How long to wait after a failure; zero when the last call went well.
    backoff: Duration,
    /// Whether to wait that long before the next call.
    waiting: bool,
    /// The server has refused it, and has been told of.
    forbidden: bool,
}

/// What became of a write.
enum Failure {
    /// The claim is gone or another one, or its devices are.
    Moot,
    /// Not without other rights.
    Forbidden(String),
    /// It is to be tried again.
    Passing(String),
}

impl Reporter {
    pub(super) fn new(
        driver: &str,
        inventory: Arc<dyn Inventory>,
        client: Client,
        clock: SharedClock,
        status: watch::Sender<DriverStatus>,
    ) -> (Reports, Self) {
        let (sender, news) = mpsc::unbounded_channel();
        let (driver, claims, health) = (driver.to_owned(), BTreeMap::new(), BTreeMap::new());
        let (backoff, waiting, forbidden) = (Duration::ZERO, false, false);
        (Reports(sender), Reporter { driver, inventory, client, clock, status, news, claims, health, backoff, waiting, forbidden })
    }

    /// Writes until it is dropped.
    pub(super) async fn run(mut self) {
        let mut changes = self.inventory.changes();
        self.look();
        loop {
            while let Ok(news) = self.news.try_recv() {
                self.take(news);
            }
            let due = self.claims.iter().find(|(_, (claim, written))| self.is_due(claim, written)).map(|(uid, _)| uid.clone());
            if let Some(uid) = &due
                && !self.waiting
            {
                self.write(uid).await;
                continue;
            }
            tokio::select! {
                news = self.news.recv() => match news {
                    Some(news) => self.take(news),
                    None => return,
                },
                change = changes.next() => match change {
                    Some(()) => self.look(),
                    None => changes = futures::stream::pending().boxed(),
                },
                () = self.clock.sleep(self.backoff), if due.is_some() => self.waiting = false,
            }
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Prepared(claim, written) => drop(self.claims.insert(claim.uid.clone(), (claim, written))),
            News::Unprepared(uid) => drop(self.claims.remove(&uid)),
        }
    }

    /// Asks how the devices are.
    fn look(&mut self) {
        if let Ok(devices) = self.inventory.devices() {
            self.health = devices.into_iter().map(|device| (device.published.name, device.health)).collect();
        }
    }

    fn is_due(&self, claim: &PreparedClaim, written: &Written) -> bool {
        match written {
            Written::Unknown | Written::Not => true,
            Written::Never => false,
            Written::This(there) => self.wanted(claim, there, Timestamp::UNIX_EPOCH) != *there,
        }
    }

    /// What is to be said of a claim's devices; a condition whose status is as it was keeps its time.
    fn wanted(&self, claim: &PreparedClaim, there: &[AllocatedDeviceStatus], now: Timestamp) -> Vec<AllocatedDeviceStatus> {
        let mut all: Vec<AllocatedDeviceStatus> = Vec::new();
        for device in &claim.devices {
            let same = |other: &&AllocatedDeviceStatus| {
                other.driver == self.driver
                    && other.pool == device.pool
                    && other.device == device.device
                    && other.share_id == device.share_id
            };
            // One claim can have a device twice, with and without admin access.
            if all.iter().any(|other| same(&other)) {
                continue;
            }
            let (status, reason, message) = said(self.health.get(&device.device));
            let before = there.iter().find(same).and_then(|entry| entry.conditions.iter().flatten().find(|c| c.type_ == READY));
            let time = before.filter(|before| before.status == status).map_or(Time(now), |before| before.last_transition_time.clone());
            let condition = Condition {
                type_: READY.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message,
                last_transition_time: time,
                observed_generation: None,
            };
            all.push(AllocatedDeviceStatus {
                driver: self.driver.clone(),
                pool: device.pool.clone(),
                device: device.device.clone(),
                share_id: device.share_id.clone(),
                conditions: Some(vec![condition]),
                ..Default::default()
            });
        }
        all
    }

    async fn write(&mut self, uid: &str) {
        let Some((claim, written)) = self.claims.get(uid).cloned() else { return };
        match self.try_write(&claim, written).await {
            Ok(there) => {
                self.settle(uid, Written::This(there));
                self.forbidden = false;
                self.backoff = Duration::ZERO;
                well(&self.status, Part::ClaimStatus);
            }
            Err(Failure::Moot) => drop(self.claims.remove(uid)),
            Err(Failure::Forbidden(text)) => {
                self.settle(uid, Written::Never);
                // Every claim gets the same answer: told once.
                if !std::mem::replace(&mut self.forbidden, true) {
                    trouble(&self.status, Part::ClaimStatus, text);
                }
            }
            Err(Failure::Passing(text)) => {
                trouble(&self.status, Part::ClaimStatus, text);
                self.backoff = (self.backoff * 2).clamp(BACKOFF.0, BACKOFF.1);
                self.waiting = true;
            }
        }
    }

    fn settle(&mut self, uid: &str, written: Written) {
        if let Some(entry) = self.claims.get_mut(uid) {
            entry.1 = written;
        }
    }

    async fn try_write(&self, claim: &PreparedClaim, written: Written) -> Result<Vec<AllocatedDeviceStatus>, Failure> {
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), &claim.namespace);
        let there = match written {
            Written::This(there) => there,
            Written::Not | Written::Never => Vec::new(),
            Written::Unknown => {
                let found = self.call(api.get(&claim.name)).await?;
                if found.metadata.uid.as_deref() != Some(&claim.uid) {
                    return Err(Failure::Moot);
                }
                found.status.and_then(|status| status.devices).unwrap_or_default()
            }
        };
        let wanted = self.wanted(claim, &there, self.clock.now());
        if wanted.iter().all(|entry| there.contains(entry)) {
            return Ok(wanted);
        }
        let object = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            // The uid makes it a conflict if the name has another claim by now.
            "metadata": { "namespace": claim.namespace, "name": claim.name, "uid": claim.uid },
            "status": { "devices": wanted },
        });
        let params = PatchParams { field_manager: Some(format!("dralab-driver/{}", self.driver)), force: true, ..Default::default() };
        self.call(api.patch_status(&claim.name, &params, &Patch::Apply(object))).await?;
        Ok(wanted)
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
        let answer = tokio::select! {
            answer = call => answer,
            () = self.clock.sleep(CALL_TIMEOUT) => return Err(Failure::Passing(format!("status.devices: no answer within {} s", CALL_TIMEOUT.as_secs()))),
        };
        answer.map_err(|error| {
            let text = format!("status.devices is not written: {}", kube_text(&error));
            match &error {
                kube::Error::Api(status) if [404, 409, 422].contains(&status.code) => Failure::Moot,
                kube::Error::Api(status) if status.code == 403 => Failure::Forbidden(text),
                _ => Failure::Passing(text),
            }
        })
    }
}

/// Status, reason and message of the condition.
fn said(health: Option<&DeviceHealth>) -> (&'static str, &'static str, String) {
    let or = |message: &str, otherwise: &str| if message.is_empty() { otherwise.to_owned() } else { message.to_owned() };
    match health {
        Some(DeviceHealth { state: Health::Healthy, .. }) => {
            ("True", "Prepared", "the device is prepared for the containers of the claim".to_owned())
        }
        Some(DeviceHealth { state: Health::Unhealthy, message }) => ("False", "Unhealthy", or(message, "the device is not healthy")),
        Some(DeviceHealth { state: Health::Unknown, message }) => {
            ("Unknown", "HealthUnknown", or(message, "nobody can tell how the device is"))
        }
        None => ("False", "Gone", "the device has left the node".to_owned()),
    }
}
