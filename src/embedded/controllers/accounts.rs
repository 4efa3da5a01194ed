//! What every namespace has: the service account `default` and the config map `kube-root-ca.crt`
//! (`pkg/controller/serviceaccount`, `pkg/controller/certificates/rootcacertpublisher`).

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::informer::{Event, Informer};
use super::queue::Queue;
use crate::base::clock::SharedClock;
use crate::embedded::api::resource::{CONFIGMAPS, NAMESPACES, SERVICEACCOUNTS};
use crate::embedded::api::{Api, Caller, Status, Subresource, WriteOptions, meta};

const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const ABOUT: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

struct Accounts {
    api: Api,
    caller: Caller,
    root_ca: String,
}

/// Runs the controller until shutdown or until the store closes. `root_ca` is the PEM text to publish.
///
/// # Errors
/// The API cannot list or watch.
pub(super) async fn run(api: Api, clock: SharedClock, root_ca: String, shutdown: CancellationToken) -> Result<(), Status> {
    let mut namespaces = Informer::new(api.clone(), &NAMESPACES)?;
    let mut accounts = Informer::new(api.clone(), &SERVICEACCOUNTS)?;
    let mut maps = Informer::new(api.clone(), &CONFIGMAPS)?;
    let controller = Accounts { api, caller: super::caller(), root_ca };
    let mut queue = Queue::new(clock);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            event = namespaces.next() => match event {
                Some(Event::Changed(namespace, _)) => queue.add(meta::name(&namespace).to_owned()),
                Some(Event::Gone(_)) => {}
                None => return Ok(()),
            },
            event = accounts.next() => match event {
                Some(Event::Gone(account)) if meta::name(&account) == ACCOUNT => queue.add(meta::namespace(&account).to_owned()),
                Some(_) => {}
                None => return Ok(()),
            },
            event = maps.next() => match event {
                Some(Event::Gone(map) | Event::Changed(map, _)) if meta::name(&map) == ROOT_CA => {
                    queue.add(meta::namespace(&map).to_owned());
                }
                Some(_) => {}
                None => return Ok(()),
            },
            name = queue.next() => {
                let result = controller.sync(&name);
                queue.done(name, result);
            }
        }
    }
}

impl Accounts {
    fn sync(&self, namespace: &str) -> Result<(), Status> {
        let active = self.api.get(&NAMESPACES, "", namespace).is_ok_and(|namespace| !meta::is_deleting(&namespace));
        if !active {
            return Ok(());
        }
        self.publish(namespace)?;
        if self.api.get(&SERVICEACCOUNTS, namespace, ACCOUNT).is_err() {
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": namespace}});
            made(self.api.create(&self.caller, &SERVICEACCOUNTS, namespace, account, &WriteOptions::default()))?;
        }
        Ok(())
    }

    fn publish(&self, namespace: &str) -> Result<(), Status> {
        let options = WriteOptions::default();
        let data = json!({"ca.crt": self.root_ca});
        match self.api.get(&CONFIGMAPS, namespace, ROOT_CA) {
            Err(_) => {
                let map = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "data": data,
                    "metadata": {"name": ROOT_CA, "namespace": namespace, "annotations": {ABOUT: DESCRIPTION}},
                });
                made(self.api.create(&self.caller, &CONFIGMAPS, namespace, map, &options))
            }
            Ok(map) if map["data"] == data && map["metadata"]["annotations"][ABOUT] == DESCRIPTION => Ok(()),
            Ok(map) => {
                let mut changed: Value = (*map).clone();
                changed["data"] = data;
                changed["metadata"]["annotations"][ABOUT] = json!(DESCRIPTION);
                self.api.update(&self.caller, &CONFIGMAPS, Subresource::Main, namespace, ROOT_CA, changed, &options).map(|_| ())
            }
        }
    }
}

/// Somebody else may have been faster, or the namespace may be on its way out: both are fine.
fn made<T>(result: Result<T, Status>) -> Result<(), Status> {
    match result {
        Err(status) if !status.already_exists() && !matches!(status.code, 403 | 404) => Err(status),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::Lab;
    use super::{DESCRIPTION, ROOT_CA};
    use crate::embedded::api::resource::{CONFIGMAPS, SERVICEACCOUNTS};
    use crate::embedded::api::{DeleteOptions, Subresource};

    #[tokio::test]
    async fn every_namespace_has_an_account_and_the_certificate_again_and_again() {
        let lab = Lab::start().await;
        assert!(lab.get(&SERVICEACCOUNTS, "default").is_some());
        let map = lab.get(&CONFIGMAPS, ROOT_CA).expect("the map");
        assert_eq!(map["metadata"]["annotations"]["kubernetes.io/description"], DESCRIPTION);
        assert!(map["data"]["ca.crt"].is_string());
        lab.delete(&SERVICEACCOUNTS, "default", &DeleteOptions::default());
        lab.delete(&CONFIGMAPS, ROOT_CA, &DeleteOptions::default());
        lab.settle().await;
        assert!(lab.get(&SERVICEACCOUNTS, "default").is_some() && lab.get(&CONFIGMAPS, ROOT_CA).is_some());
        lab.patch(&CONFIGMAPS, Subresource::Main, ROOT_CA, json!({"data": {"ca.crt": "forged", "more": "x"}}));
        lab.settle().await;
        assert_eq!(lab.get(&CONFIGMAPS, ROOT_CA).expect("the map")["data"], map["data"]);
        lab.end().await;
    }
}
