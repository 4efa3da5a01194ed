//! From a kubeconfig to a client. A loopback server is never reached through a proxy; for other servers
//! `NO_PROXY` is applied to the target (kube applies it to the proxy's own address).

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::client::ClientError;

/// The proxy variables of the environment, as read by the caller.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// `HTTPS_PROXY` (or its lower-case form).
    pub https: Option<String>,
    /// `NO_PROXY` (or its lower-case form).
    pub exempt: Option<String>,
}

/// How long a server on this machine may take to accept a connection: one that is stuck is told of soon.
const ANSWERS: Duration = Duration::from_secs(5);

/// Connects by a kubeconfig file, to its current context or the one named.
///
/// # Errors
/// When the file cannot be used or no client can be made from it.
pub async fn by_kubeconfig(path: &Path, context: Option<&str>, proxies: &Proxies) -> Result<Client, ClientError> {
    let wrong = |source| ClientError::Kubeconfig { path: path.to_path_buf(), source: Box::new(source) };
    let kubeconfig = Kubeconfig::read_from(path).map_err(wrong)?;
    connect(kubeconfig, path, context, proxies).await
}

/// Connects by the text of a kubeconfig; `path` is where it is from.
///
/// # Errors
/// As [`by_kubeconfig`].
pub async fn by_text(text: &str, path: &Path, proxies: &Proxies) -> Result<Client, ClientError> {
    let wrong = |source| ClientError::Kubeconfig { path: path.to_path_buf(), source: Box::new(source) };
    connect(Kubeconfig::from_yaml(text).map_err(wrong)?, path, None, proxies).await
}

async fn connect(kubeconfig: Kubeconfig, path: &Path, context: Option<&str>, proxies: &Proxies) -> Result<Client, ClientError> {
    let wrong = |source| ClientError::Kubeconfig { path: path.to_path_buf(), source: Box::new(source) };
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(wrong)?;
    let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    if is_loopback(&host) || proxies.exempt.as_deref().is_some_and(|list| is_exempt(&host, list)) {
        config.proxy_url = None;
    } else if config.proxy_url.is_none() {
        config.proxy_url = proxies.https.as_deref().and_then(|p| p.parse().ok());
    }
    if is_loopback(&host) {
        config.connect_timeout = Some(ANSWERS);
    }
    let server = config.cluster_url.to_string();
    Client::try_from(config).map_err(|source| ClientError::Connect { server, source: Box::new(source) })
}

/// True for `localhost` and the loopback addresses.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether `NO_PROXY` names the host: `*`, a host, a domain suffix (with or without a leading dot), or an address block.
#[must_use]
pub fn is_exempt(host: &str, no_proxy: &str) -> bool {
    no_proxy.split(',').map(str::trim).filter(|e| !e.is_empty()).any(|entry| {
        if entry == "*" {
            return true;
        }
        if let (Ok(address), Some((base, bits))) = (host.parse::<IpAddr>(), entry.split_once('/')) {
            return in_block(address, base, bits);
        }
        let entry = entry.split_once(':').filter(|(_, port)| port.chars().all(|c| c.is_ascii_digit())).map_or(entry, |(name, _)| name);
        let suffix = entry.trim_start_matches('.');
        host.eq_ignore_ascii_case(suffix)
            || (host.len() > suffix.len()
                && host.is_char_boundary(host.len() - suffix.len())
                && host[host.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
                && host.as_bytes()[host.len() - suffix.len() - 1] == b'.')
    })
}

fn in_block(address: IpAddr, base: &str, bits: &str) -> bool {
    let Ok(bits) = bits.parse::<u32>() else { return false };
    match (address, base.parse::<IpAddr>()) {
        (IpAddr::V4(a), Ok(IpAddr::V4(b))) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(a) & mask == u32::from(b) & mask
        }
        (IpAddr::V6(a), Ok(IpAddr::V6(b))) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(a) & mask == u128::from(b) & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{is_exempt, is_loopback};

    #[test]
    fn loopback_is_told_from_other_hosts() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("LocalHost", true),
            ("10.0.0.1", false),
            ("localhost.example.com", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }

    #[test]
    fn no_proxy_is_applied_to_the_target() {
        for (host, list, expected) in [
            ("10.1.2.3", "10.0.0.0/8", true),
            ("11.1.2.3", "10.0.0.0/8", false),
            ("api.lab.example.com", ".example.com", true),
            ("api.lab.example.com", "example.com", true),
            ("badexample.com", "example.com", false),
            ("example.com", "other, example.com:443", true),
            ("anything", "*", true),
            ("fd00::1", "fd00::/8", true),
            ("h", "", false),
        ] {
            assert_eq!(is_exempt(host, list), expected, "{host} in {list}");
        }
    }
}
