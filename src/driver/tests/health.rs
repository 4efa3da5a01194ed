//! The health service, and the probes over HTTP.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{channel, lab, register};
use crate::driver::DriverError;
use crate::driver::grpc::proto::dra_health_v1::dra_resource_health_client::DraResourceHealthClient;
use crate::driver::grpc::proto::dra_health_v1::{HealthStatus, NodeWatchResourcesRequest, NodeWatchResourcesResponse};
use crate::driver::grpc::proto::{dra_health_v1alpha1 as v1alpha1, dra_health_v1alpha1::dra_resource_health_client as alpha_client};
use crate::driver::testing::{NODE, Running};

fn healths(report: &NodeWatchResourcesResponse) -> Vec<(&str, HealthStatus, &str)> {
    let device = |device: &'_ crate::driver::grpc::proto::dra_health_v1::DeviceHealth| device.health();
    report.devices.iter().map(|d| (d.device.as_ref().unwrap().device_name.as_str(), device(d), d.message.as_str())).collect()
}

#[tokio::test]
async fn a_kubelet_hears_of_a_device_that_breaks() {
    let (api, folder) = lab();
    let mut driver = Running::start(&api, &folder, 2, |_| {});
    driver.until(|status| status.serving).await;
    let mut client = DraResourceHealthClient::new(channel(&driver.dra_socket).await);
    let mut reports = client.node_watch_resources(NodeWatchResourcesRequest {}).await.unwrap().into_inner();
    let first = reports.message().await.unwrap().unwrap();
    assert_eq!(healths(&first), [("gpu-0", HealthStatus::Healthy, ""), ("gpu-1", HealthStatus::Healthy, "")]);
    let device = &first.devices[0];
    assert_eq!((device.device.as_ref().unwrap().pool_name.as_str(), device.health_check_timeout_seconds), (NODE, 30));
    assert!(device.last_updated_time > 1_700_000_000);

    let file = folder.path().join("plugins/gpu.example.com/health.yaml");
    fs::write(&file, "gpu-1: { health: Unhealthy, message: fell off the bus }\n").unwrap();
    let next = tokio::time::timeout(Duration::from_secs(4), reports.message()).await.expect("soon, not with the next period");
    let next = next.unwrap().unwrap();
    assert_eq!(healths(&next)[1], ("gpu-1", HealthStatus::Unhealthy, "fell off the bus"));

    let mut older = alpha_client::DraResourceHealthClient::new(channel(&driver.dra_socket).await);
    let mut alpha = older.node_watch_resources(v1alpha1::NodeWatchResourcesRequest {}).await.unwrap().into_inner();
    let report = alpha.message().await.unwrap().unwrap();
    assert_eq!(report.devices[1].health(), v1alpha1::HealthStatus::Unhealthy);

    // Open streams do not keep the driver from ending.
    let begun = std::time::Instant::now();
    driver.stop().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(reports.message().await.is_ok_and(|last| last.is_none()), "the stream ends well");
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.trim_end().to_owned())
}

fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn probes_tell_alive_from_ready() {
    let (api, folder) = lab();
    api.set_offline(true);
    let address = free_address();
    let mut driver = Running::start(&api, &folder, 1, |config| config.health_address = Some(address));
    driver.until(|status| status.serving && !status.trouble.is_empty()).await;
    assert_eq!(get(address, "/healthz").await, (200, "ok".to_owned()));
    let (code, body) = get(address, "/readyz").await;
    assert_eq!(code, 503);
    for part in ["the kubelet has not found the driver", "no ResourceSlice is published", "list resourceslices: "] {
        assert!(body.contains(part), "{part} in {body}");
    }
    assert_eq!(get(address, "/metrics").await.0, 404);
    register(&driver).await;
    assert!(!get(address, "/readyz").await.1.contains("kubelet"));
    api.set_offline(false);
    driver.until(|status| status.published.is_some()).await;
    assert_eq!(get(address, "/readyz").await, (200, "ok".to_owned()));
    // Away again: what is published stays published, and a restart would not help.
    api.set_offline(true);
    driver.until(|status| !status.trouble.is_empty()).await;
    assert_eq!((get(address, "/healthz").await.0, get(address, "/readyz").await.0), (200, 200));
    // Somebody who connects and says nothing keeps nobody from being answered, nor the driver from ending.
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    assert_eq!(get(address, "/healthz").await.0, 200);
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn a_health_address_that_is_taken_is_told() {
    let (api, folder) = lab();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = Running::start(&api, &folder, 1, |config| config.health_address = Some(address)).end().await.expect_err("taken");
    assert!(matches!(error, DriverError::Probes(_)), "{error}");
    assert!(error.to_string().starts_with(&format!("health address {address}: ")), "{error}");
}
