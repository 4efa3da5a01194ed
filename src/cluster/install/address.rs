//! Where the driver reaches the API server.
//!
//! Usually at the service `kubernetes`, whose address kube-proxy makes work. On nodes that are containers of this machine the server's own
//! address is as good, and a driver that uses it does not have to wait for kube-proxy (nor does a kubelet): it publishes a few seconds
//! earlier, and it also works where kube-proxy does not.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::{Deserialize, Serialize};

/// An address of the API server that pods can reach without the service network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiServer {
    /// An IP address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// The address that stands behind the service `kubernetes`: the API server itself writes it there. `None` when it cannot be told, or
/// there are several: then the service is the better one.
pub async fn of_api_server(client: &Client) -> Option<ApiServer> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    let found = slices.list(&ListParams::default().labels("kubernetes.io/service-name=kubernetes")).await;
    match found {
        Ok(found) => only(&found.items),
        Err(error) => {
            tracing::debug!(%error, "the addresses of the API server cannot be listed");
            None
        }
    }
}

fn only(slices: &[EndpointSlice]) -> Option<ApiServer> {
    let mut all = slices.iter().flat_map(|slice| {
        let port =
            slice.ports.as_ref().and_then(|ports| ports.iter().find(|p| p.name.as_deref() == Some("https")).or_else(|| ports.first()));
        let port = port.and_then(|p| p.port).and_then(|p| u16::try_from(p).ok());
        let addresses = slice.endpoints.iter().flatten().flat_map(|endpoint| &endpoint.addresses);
        addresses.filter_map(move |host| Some(ApiServer { host: host.clone(), port: port? }))
    });
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::{ApiServer, only};
    use serde_json::json;

    fn slices(addresses: &[&str], port: Option<i32>) -> Vec<k8s_openapi::api::discovery::v1::EndpointSlice> {
        let endpoints: Vec<_> = addresses.iter().map(|a| json!({"addresses": [a]})).collect();
        let ports: Vec<_> = port.map(|p| json!({"name": "https", "port": p})).into_iter().collect();
        vec![
            serde_json::from_value(
                json!({"metadata": {"name": "kubernetes"}, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}),
            )
            .expect("a slice"),
        ]
    }

    #[test]
    fn one_address_is_the_servers_own() {
        assert_eq!(only(&slices(&["172.18.0.3"], Some(6443))), Some(ApiServer { host: "172.18.0.3".to_owned(), port: 6443 }));
        assert_eq!(only(&slices(&["172.18.0.3", "172.18.0.4"], Some(6443))), None, "several: the service chooses");
        assert_eq!(only(&slices(&["172.18.0.3"], None)), None);
        assert_eq!(only(&[]), None);
    }
}
