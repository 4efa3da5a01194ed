//! The sockets as a kubelet meets them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use http::Uri;
use tonic::transport::{Channel, Endpoint};

use super::proto::dra_v1beta1::dra_plugin_client::DraPluginClient as BetaClient;
use super::proto::dra_v1beta1::{Claim, NodePrepareResourcesRequest, NodeUnprepareResourcesRequest};
use super::proto::pluginregistration_v1::registration_client::RegistrationClient;
use super::proto::pluginregistration_v1::{InfoRequest, RegistrationStatus};
use super::{MAX_SOCKET_PATH, SocketError};
use crate::driver::testing::{FakeApi, Running};
use crate::driver::{DriverError, Registered};

/// `:authority` as grpc-go makes it of a dial target that is a path (`encodeAuthority`): `/` becomes `%2F`, `@`
/// stays.
fn authority(socket: &Path) -> String {
    socket.display().to_string().replace('/', "%2F")
}

async fn dial(socket: &Path, origin: &str) -> RegistrationClient<Channel> {
    let endpoint = Endpoint::try_from(format!("unix:{}", socket.display())).unwrap().origin(origin.parse().unwrap());
    RegistrationClient::new(endpoint.connect().await.unwrap())
}

#[tokio::test]
async fn a_kubelet_can_register_the_driver() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let mut driver = Running::start(&api, &folder, 1, |_| {});
    driver.until(|status| status.serving && status.published.is_some()).await;
    let origin = format!("http://{}", authority(&driver.registration_socket));
    assert!(origin.contains("%2Fregistry%2Fgpu.example.com@reg.sock"), "{origin}");
    let mut kubelet = dial(&driver.registration_socket, &origin).await;
    let info = kubelet.get_info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("DRAPlugin", "gpu.example.com"));
    assert_eq!(info.endpoint, driver.dra_socket.display().to_string());
    let versions = ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"];
    assert_eq!(info.supported_versions, versions);
    let refused = RegistrationStatus { plugin_registered: false, error: "no".to_owned() };
    kubelet.notify_registration_status(refused).await.unwrap();
    driver.until(|status| status.registered == Registered::Refused("no".to_owned())).await;
    kubelet.notify_registration_status(RegistrationStatus { plugin_registered: true, error: String::new() }).await.unwrap();
    driver.until(|status| status.registered == Registered::Yes).await;
    for socket in [&driver.registration_socket, &driver.dra_socket] {
        assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
        let folder = fs::metadata(socket.parent().unwrap()).unwrap();
        assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    }
    let sockets = [driver.registration_socket.clone(), driver.dra_socket.clone()];
    // A kubelet that stays connected does not keep the driver from ending.
    driver.stop().await.unwrap();
    assert!(sockets.iter().all(|socket| !socket.exists()));
    drop(kubelet);
}

#[test]
fn without_the_at_sign_a_kubelets_authority_is_malformed() {
    // The rule that the HTTP/2 server applies to `:authority`: percent-encoding is for what stands before an @.
    let path = Path::new("/var/lib/kubelet/plugins_registry/gpu.example.com-reg.sock");
    format!("http://{}", authority(path)).parse::<Uri>().expect_err("this is why such a driver never registers");
    let path = Path::new("/var/lib/kubelet/plugins_registry/gpu.example.com@reg.sock");
    let uri: Uri = format!("http://{}", authority(path)).parse().unwrap();
    assert_eq!(uri.host(), Some("reg.sock"));
}

#[tokio::test]
async fn the_beta_version_is_served_too() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let mut driver = Running::start(&api, &folder, 1, |_| {});
    driver.until(|status| status.serving).await;
    let channel = Endpoint::try_from(format!("unix:{}", driver.dra_socket.display())).unwrap().connect().await.unwrap();
    let mut kubelet = BetaClient::new(channel);
    let claims = vec![Claim { namespace: "n".to_owned(), uid: "u".to_owned(), name: "c".to_owned() }];
    let answer = kubelet.node_prepare_resources(NodePrepareResourcesRequest { claims: claims.clone() }).await.unwrap().into_inner();
    assert_eq!(answer.claims["u"].error, "retrieve claim n/c: \"c\" not found");
    let answer = kubelet.node_unprepare_resources(NodeUnprepareResourcesRequest { claims }).await.unwrap().into_inner();
    assert_eq!(answer.claims["u"].error, "");
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn paths_that_are_too_long_are_told_before_anything_is_made() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let long = folder.path().join("x".repeat(MAX_SOCKET_PATH));
    let error = Running::start(&api, &folder, 1, |config| config.registry_dir = long.clone()).end().await.expect_err("too long");
    let DriverError::Socket(SocketError::TooLong { length, limit, .. }) = &error else { panic!("{error}") };
    assert_eq!((*length, *limit), (long.as_os_str().len() + "/012345678901@reg.sock".len(), MAX_SOCKET_PATH));
    assert!(error.to_string().contains(&format!("has {length} bytes")), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_second_process_of_the_same_driver_is_told_and_touches_nothing() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    let mut driver = Running::start(&api, &folder, 1, |_| {});
    driver.until(|status| status.serving).await;
    let error = Running::start(&api, &folder, 1, |_| {}).end().await.expect_err("it is running");
    assert!(matches!(error, DriverError::Socket(SocketError::InUse { .. })), "{error}");
    // One of another name lives beside it.
    let mut other = Running::start(&api, &folder, 1, |config| config.driver_name = "other.example.com".to_owned());
    other.until(|status| status.serving && status.published.is_some()).await;
    driver.stop().await.unwrap();
    assert!(other.dra_socket.exists() && other.registration_socket.exists(), "drivers are stopped one by one");
    other.stop().await.unwrap();
}

#[tokio::test]
async fn wrong_names_are_refused() {
    let (api, folder) = (FakeApi::new(), Arc::new(tempfile::tempdir().unwrap()));
    for (name, good) in [("GPU.example.com", false), ("", false), ("a/b", false), ("-a", false), (&*"a".repeat(64), false)] {
        let error = Running::start(&api, &folder, 1, |config| config.driver_name = name.to_owned()).end().await;
        assert_eq!(error.is_ok(), good, "{name:?}");
        assert!(error.unwrap_err().to_string().starts_with("driver configuration: "));
    }
}
