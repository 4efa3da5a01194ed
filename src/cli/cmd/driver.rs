//! `driver run`: the driver of one node, until it is told to end.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::base::clock::SystemClock;
use crate::base::failure::{Failure, Kind};
use crate::cli::app::App;
use crate::cli::args::{DriverRunArgs, InventoryArg};
use crate::client::connect;
use crate::cluster::{ClusterError, LabRecord, serve};
use crate::driver::{self, DriverConfig, Folders, Profile};

/// `driver run`.
///
/// # Errors
/// When the driver cannot run.
pub async fn run(app: &App, args: &DriverRunArgs) -> Result<u8, Failure> {
    let InventoryArg::Simulated = args.inventory;
    let profile = Profile::load(&args.profile).map_err(|error| Failure::new(Kind::Usage, "DL-PROF-01", error.to_string()))?;
    let folders = Folders { plugins: args.plugins_dir.clone(), registry: args.registry_dir.clone(), cdi: args.cdi_dir.clone() };
    let mut config = DriverConfig::simulated(&profile, &args.node, args.gpus, folders);
    config.driver_name.clone_from(&args.driver_name);
    // An empty variable is an unset one.
    config.pod_uid = args.pod_uid.clone().filter(|uid| !uid.is_empty());
    config.health_address = args.health_address;
    config.device_status &= !args.no_device_status;
    let client = client(app, args).await?;
    let stop = CancellationToken::new();
    let running = driver::run(config, client, Arc::new(SystemClock), stop.clone());
    tokio::pin!(running);
    let failed = |error: driver::DriverError| {
        Failure::new(Kind::Failed, "DL-DRV-01", format!("the driver of node {} ended", args.node)).because(&error)
    };
    tokio::select! {
        ended = &mut running => ended.map_err(failed)?,
        told = serve::until_told() => {
            told.map_err(Failure::from)?;
            stop.cancel();
            running.await.map_err(failed)?;
        }
    }
    Ok(0)
}

/// The cluster of a kubeconfig that is named, of the lab if it runs, else the one that this pod is in.
async fn client(app: &App, args: &DriverRunArgs) -> Result<kube::Client, Failure> {
    if let Some(path) = &args.kubeconfig {
        return connect::by_kubeconfig(path, None, &app.proxies()).await.map_err(Failure::from);
    }
    let folder = app.folder();
    if LabRecord::read(&folder).map_err(Failure::from)?.is_some_and(|record| record.is_up(&folder)) {
        return app.client().await;
    }
    let config = kube::Config::incluster().map_err(|error| {
        let mut failure = Failure::from(ClusterError::NotUp { lab: app.lab.clone() }).because(&error);
        failure.hints.push("or name a kubeconfig: `--kubeconfig FILE`".to_owned());
        failure
    })?;
    kube::Client::try_from(config)
        .map_err(|error| Failure::new(Kind::NoLab, "DL-CONN-02", "no connection to the cluster of this pod can be set up").because(&error))
}
