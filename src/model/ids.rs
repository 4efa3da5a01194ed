//! How devices and pools are named.

use std::fmt;
use std::sync::Arc;

/// A pool: its name is unique only together with the driver's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId {
    /// The driver's name.
    pub driver: Arc<str>,
    /// The pool's name.
    pub pool: Arc<str>,
}

impl PoolId {
    /// Names the pool `pool` of `driver`.
    #[must_use]
    pub fn new(driver: &str, pool: &str) -> Self {
        Self { driver: driver.into(), pool: pool.into() }
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.driver, self.pool)
    }
}

/// A device: driver, pool and device name together identify it in the whole cluster, over all slices and generations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    /// The pool that the device is in.
    pub pool: PoolId,
    /// The device's name in the pool.
    pub device: Arc<str>,
}

impl DeviceId {
    /// Names the device `device` in the pool `pool` of `driver`.
    #[must_use]
    pub fn new(driver: &str, pool: &str, device: &str) -> Self {
        Self { pool: PoolId::new(driver, pool), device: device.into() }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pool, self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_as_upstream_does() {
        assert_eq!(DeviceId::new("gpu.example.com", "n1", "gpu-0").to_string(), "gpu.example.com/n1/gpu-0");
    }

    #[test]
    fn ordered_by_driver_then_pool_then_device() {
        let mut ids = [("b", "a", "a"), ("a", "b", "a"), ("a", "a", "b"), ("a", "a", "a")].map(|(d, p, n)| DeviceId::new(d, p, n));
        ids.sort();
        assert_eq!(ids.map(|id| id.to_string()), ["a/a/a", "a/a/b", "a/b/a", "b/a/a"]);
    }
}
