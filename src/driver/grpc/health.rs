//! The health service in its two versions: a stream of what the inventory knows of each device's health.
//!
//! A kubelet puts it into the status of pods (`allocatedResourcesStatus`), and takes a device whose health it has
//! not heard for the timeout that came with it (30 s when none did) for one of unknown health.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::proto::{dra_health_v1 as v1, dra_health_v1alpha1 as v1alpha1};
use crate::base::clock::SharedClock;
use crate::driver::inventory::{Health, Inventory};

/// How long a report holds.
const HOLDS: Duration = Duration::from_secs(30);
/// How often it is sent when nothing changes. Another instance's end makes the kubelet forget what this one said,
/// too, so that it is a good deal more often than needed.
const PERIOD: Duration = Duration::from_secs(5);

/// Serves NodeWatchResources.
#[derive(Clone, Debug)]
pub(crate) struct HealthService {
    pool: Arc<str>,
    inventory: Arc<dyn Inventory>,
    clock: SharedClock,
    /// Streams end with it: an open one would keep the server from ending.
    stop: CancellationToken,
}

/// One stream's state.
struct Watching {
    service: HealthService,
    changes: BoxStream<'static, ()>,
    begun: bool,
}

impl HealthService {
    pub(crate) fn new(pool: &str, inventory: Arc<dyn Inventory>, clock: SharedClock, stop: CancellationToken) -> Self {
        HealthService { pool: pool.into(), inventory, clock, stop }
    }

    /// A report at once, then one with each change and each period.
    fn reports(&self) -> impl Stream<Item = Result<v1::NodeWatchResourcesResponse, Status>> + Send + use<> {
        let watching = Watching { service: self.clone(), changes: self.inventory.changes(), begun: false };
        stream::unfold(watching, |mut watching| async move {
            if std::mem::replace(&mut watching.begun, true) {
                let Watching { service, changes, .. } = &mut watching;
                tokio::select! {
                    () = service.stop.cancelled() => return None,
                    () = service.clock.sleep(PERIOD) => {}
                    change = changes.next() => if change.is_none() {
                        *changes = stream::pending().boxed();
                    },
                }
            }
            let report = watching.service.report();
            Some((report, watching))
        })
    }

    fn report(&self) -> Result<v1::NodeWatchResourcesResponse, Status> {
        let now = self.clock.now().as_second();
        let devices = self.inventory.devices().map_err(|error| Status::unavailable(error.to_string()))?;
        let device = |device: crate::driver::inventory::NodeDevice| v1::DeviceHealth {
            device: Some(v1::DeviceIdentifier { pool_name: self.pool.to_string(), device_name: device.published.name }),
            health: match device.health.state {
                Health::Unknown => v1::HealthStatus::Unknown,
                Health::Healthy => v1::HealthStatus::Healthy,
                Health::Unhealthy => v1::HealthStatus::Unhealthy,
            }
            .into(),
            last_updated_time: now,
            health_check_timeout_seconds: i64::try_from(HOLDS.as_secs()).unwrap_or_default(),
            message: device.health.message,
        };
        Ok(v1::NodeWatchResourcesResponse { devices: devices.into_iter().map(device).collect() })
    }
}

type Reports<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl v1::dra_resource_health_server::DraResourceHealth for HealthService {
    type NodeWatchResourcesStream = Reports<v1::NodeWatchResourcesResponse>;

    async fn node_watch_resources(
        &self,
        _: Request<v1::NodeWatchResourcesRequest>,
    ) -> Result<Response<Self::NodeWatchResourcesStream>, Status> {
        Ok(Response::new(Box::pin(self.reports())))
    }
}

#[tonic::async_trait]
impl v1alpha1::dra_resource_health_server::DraResourceHealth for HealthService {
    type NodeWatchResourcesStream = Reports<v1alpha1::NodeWatchResourcesResponse>;

    async fn node_watch_resources(
        &self,
        _: Request<v1alpha1::NodeWatchResourcesRequest>,
    ) -> Result<Response<Self::NodeWatchResourcesStream>, Status> {
        // The numbers of the states are the same.
        let device = |device: v1::DeviceHealth| v1alpha1::DeviceHealth {
            device: device.device.map(|id| v1alpha1::DeviceIdentifier { pool_name: id.pool_name, device_name: id.device_name }),
            health: device.health,
            last_updated_time: device.last_updated_time,
            health_check_timeout_seconds: device.health_check_timeout_seconds,
            message: device.message,
        };
        let older = move |report: v1::NodeWatchResourcesResponse| v1alpha1::NodeWatchResourcesResponse {
            devices: report.devices.into_iter().map(device).collect(),
        };
        Ok(Response::new(Box::pin(self.reports().map(move |report| report.map(older)))))
    }
}
