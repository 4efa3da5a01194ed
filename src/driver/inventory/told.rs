//! Health that somebody tells: a file in the driver's folder says which devices are not well.
//!
//! Simulated devices never break by themselves. `health.yaml` in the driver's own folder
//! (`/var/lib/kubelet/plugins/gpu.example.com` under a kubelet) breaks and mends them:
//!
//! ```yaml
//! gpu-1: { health: Unhealthy, message: fell off the bus }
//! ```
//!
//! Devices that are not in it are as their inventory says. The file is looked at once a second, without the
//! system's help: its watchers are few and may be used up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::watch;

use super::{DeviceHealth, Inventory, InventoryError, NodeDevice};
use crate::base::clock::SharedClock;
use crate::driver::status::{DriverStatus, Part, trouble, well};

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_secs(1);

type ByDevice = BTreeMap<String, DeviceHealth>;

/// An inventory with the health that a file tells.
#[derive(Debug)]
pub(in crate::driver) struct Told {
    inner: Box<dyn Inventory>,
    told: watch::Receiver<ByDevice>,
}

/// Looks at the file. Owns one task ([`HealthFile::run`]).
#[derive(Debug)]
pub(in crate::driver) struct HealthFile {
    path: PathBuf,
    clock: SharedClock,
    status: watch::Sender<DriverStatus>,
    told: watch::Sender<ByDevice>,
    /// Time and length of what was read last.
    seen: Option<(SystemTime, u64)>,
}

/// The devices of `inner`, and what keeps their health as `health.yaml` in `folder` says. It is read once here.
pub(in crate::driver) fn told(
    inner: Box<dyn Inventory>,
    folder: &Path,
    clock: SharedClock,
    status: watch::Sender<DriverStatus>,
) -> (Arc<dyn Inventory>, HealthFile) {
    let (sender, receiver) = watch::channel(ByDevice::new());
    let mut file = HealthFile { path: folder.join("health.yaml"), clock, status, told: sender, seen: None };
    file.look();
    (Arc::new(Told { inner, told: receiver }), file)
}

impl Inventory for Told {
    fn devices(&self) -> Result<Vec<NodeDevice>, InventoryError> {
        let mut devices = self.inner.devices()?;
        let told = self.told.borrow();
        for device in &mut devices {
            if let Some(health) = told.get(&device.published.name) {
                device.health = health.clone();
            }
        }
        Ok(devices)
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let told = stream::unfold(self.told.clone(), |mut told| async move {
            told.changed().await.ok()?;
            Some(((), told))
        });
        stream::select(self.inner.changes(), told).boxed()
    }
}

impl HealthFile {
    /// Looks again and again, until it is dropped.
    pub(in crate::driver) async fn run(mut self) {
        loop {
            self.clock.sleep(PERIOD).await;
            self.look();
        }
    }

    fn look(&mut self) {
        let found = std::fs::metadata(&self.path).ok().and_then(|found| Some((found.modified().ok()?, found.len())));
        if found == self.seen {
            return;
        }
        self.seen = found;
        let read = match found {
            None => Ok(ByDevice::new()),
            Some(_) => std::fs::read_to_string(&self.path).map_err(|error| error.to_string()).and_then(|text| parse(&text)),
        };
        match read {
            Ok(health) => {
                well(&self.status, Part::Health);
                self.told.send_if_modified(|told| {
                    let changed = *told != health;
                    *told = health;
                    changed
                });
            }
            // What was known holds on: a file that is being written is whole a second later.
            Err(text) => trouble(&self.status, Part::Health, format!("health of devices: {}: {text}", self.path.display())),
        }
    }
}

fn parse(text: &str) -> Result<ByDevice, String> {
    // Nothing but comments is no mapping.
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(ByDevice::new());
    }
    serde_saphyr::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use tokio::sync::watch;

    use super::told;
    use crate::base::clock::SystemClock;
    use crate::driver::inventory::{Health, Inventory, Profile, Simulated};
    use crate::driver::status::DriverStatus;

    fn health(inventory: &Arc<dyn Inventory>) -> Vec<(Health, String)> {
        inventory.devices().unwrap().into_iter().map(|device| (device.health.state, device.health.message)).collect()
    }

    #[test]
    fn a_file_breaks_and_mends_devices() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("health.yaml");
        let status = watch::Sender::new(DriverStatus::default());
        let devices = Box::new(Simulated::new(&Profile::load("default").unwrap(), "n", Some(2)));
        let (inventory, mut file) = told(devices, folder.path(), Arc::new(SystemClock), status.clone());
        let well = (Health::Healthy, String::new());
        assert_eq!(health(&inventory), [well.clone(), well.clone()]);
        let broken = [well.clone(), (Health::Unhealthy, "fell off the bus".to_owned())];
        for (text, expected, trouble) in [
            ("gpu-1: { health: Unhealthy, message: fell off the bus }\n", &broken[..], ""),
            ("gpu-1: { health: Ill }\n", &broken[..], "health.yaml"),
            ("gpu-1: { helth: Unhealthy }\n", &broken[..], "helth"),
            ("gpu-0: { health: Unknown }\n", &[(Health::Unknown, String::new()), well.clone()], ""),
            ("# all is well\n\n", &[well.clone(), well.clone()], ""),
        ] {
            fs::write(&path, text).unwrap();
            file.look();
            assert_eq!(health(&inventory), expected, "{text}");
            let troubles = status.borrow().troubles().unwrap_or_default();
            assert!(troubles.contains(trouble) && troubles.is_empty() == trouble.is_empty(), "{text}: {troubles}");
        }
        fs::write(&path, "gpu-0: { health: Unhealthy }\n").unwrap();
        file.look();
        assert_eq!(health(&inventory)[0].0, Health::Unhealthy);
        fs::remove_file(&path).unwrap();
        file.look();
        assert_eq!(health(&inventory), [well.clone(), well]);
    }
}
