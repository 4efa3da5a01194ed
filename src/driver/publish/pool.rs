//! What a pool's ResourceSlices should be: how devices are split over slices, and what the slices are called.

use k8s_openapi::api::resource::v1::Device;

use crate::driver::inventory::SliceNames;

/// Most devices of a slice (`ResourceSliceMaxDevices`).
const MAX_DEVICES: usize = 128;
/// Most devices of a slice when one of them has taints, consumes counters or has a list attribute
/// (`ResourceSliceMaxDevicesWithAdvancedFeatures`).
const MAX_ADVANCED_DEVICES: usize = 64;
/// The API server cuts longer bases of generated names (`MaxGeneratedNameLength`), which would cut off the index.
const MAX_GENERATE_NAME: usize = 58;
/// Least digits of an index.
const INDEX_DIGITS: usize = 5;

/// A pool that the driver publishes.
#[derive(Clone, Debug)]
pub(crate) struct PoolIdentity {
    pub(crate) driver: String,
    pub(crate) node: String,
    pub(crate) pool: String,
    pub(crate) names: SliceNames,
}

impl PoolIdentity {
    /// The base of the name of slice `index` of `count`. By these names' order the slices are in the devices' order.
    pub(super) fn generate_name(&self, index: usize, count: usize) -> String {
        let highest = count.saturating_sub(1);
        match self.names {
            SliceNames::NodeFirst if count <= 1 => self.cut(0) + "-",
            SliceNames::NodeFirst => {
                let digits = INDEX_DIGITS.max(highest.to_string().len());
                format!("{}-{index:0digits$}-", self.cut(digits + 1))
            }
            SliceNames::IndexFirst => {
                let digits = INDEX_DIGITS.max(format!("{highest:x}").len());
                let mut name = format!("{index:0digits$x}-{}-{}-", self.driver, self.node);
                name.truncate(MAX_GENERATE_NAME);
                name
            }
        }
    }

    /// `NODE-DRIVER`, shortened so that `more` bytes and a dash still fit behind it.
    fn cut(&self, more: usize) -> String {
        let mut name = format!("{}-{}", self.node, self.driver);
        name.truncate(MAX_GENERATE_NAME - 1 - more);
        name.truncate(name.trim_end_matches(['-', '.']).len());
        name
    }

    /// Which slice of `count` has this name, if any.
    pub(super) fn index_of(&self, name: &str, count: usize) -> Option<usize> {
        (0..count).find(|index| {
            let random = name.strip_prefix(&self.generate_name(*index, count));
            random.is_some_and(|random| !random.is_empty() && random.bytes().all(|b| b.is_ascii_alphanumeric()))
        })
    }
}

/// Splits devices over slices in order, at the API's limits. A pool without devices has one empty slice, which
/// shows that the driver is there.
pub(super) fn split(devices: Vec<Device>) -> Vec<Vec<Device>> {
    let mut slices = Vec::new();
    let mut slice: Vec<Device> = Vec::new();
    let mut advanced = false;
    for device in devices {
        let with = advanced || is_advanced(&device);
        if slice.len() >= if with { MAX_ADVANCED_DEVICES } else { MAX_DEVICES } {
            slices.push(std::mem::take(&mut slice));
            advanced = is_advanced(&device);
        } else {
            advanced = with;
        }
        slice.push(device);
    }
    if !slice.is_empty() || slices.is_empty() {
        slices.push(slice);
    }
    slices
}

fn is_advanced(device: &Device) -> bool {
    let has_list = |attributes: &std::collections::BTreeMap<_, k8s_openapi::api::resource::v1::DeviceAttribute>| {
        attributes
            .values()
            .any(|value| value.bools.is_some() || value.ints.is_some() || value.strings.is_some() || value.versions.is_some())
    };
    device.taints.as_ref().is_some_and(|taints| !taints.is_empty())
        || device.consumes_counters.as_ref().is_some_and(|counters| !counters.is_empty())
        || device.attributes.as_ref().is_some_and(has_list)
}

#[cfg(test)]
mod tests {
    use super::{MAX_GENERATE_NAME, PoolIdentity, split};
    use crate::driver::inventory::SliceNames;
    use k8s_openapi::api::resource::v1::{Device, DeviceTaint};

    fn identity(node: &str, driver: &str, names: SliceNames) -> PoolIdentity {
        PoolIdentity { driver: driver.to_owned(), node: node.to_owned(), pool: node.to_owned(), names }
    }

    #[test]
    fn one_slice_is_named_as_in_the_article_and_several_in_order() {
        let pool = identity("dra-lab-worker", "gpu.example.com", SliceNames::NodeFirst);
        assert_eq!(pool.generate_name(0, 1), "dra-lab-worker-gpu.example.com-");
        assert_eq!(pool.generate_name(1, 3), "dra-lab-worker-gpu.example.com-00001-");
        let pool = identity("dra-lab-worker", "gpu.example.com", SliceNames::IndexFirst);
        assert_eq!(pool.generate_name(0, 1), "00000-gpu.example.com-dra-lab-worker-");
        assert_eq!(pool.generate_name(31, 40), "0001f-gpu.example.com-dra-lab-worker-");
    }

    #[test]
    fn long_names_keep_their_index_and_stay_valid() {
        for names in [SliceNames::NodeFirst, SliceNames::IndexFirst] {
            for length in 1..80 {
                let pool = identity("n.".repeat(length).trim_end_matches('.'), "gpu.example.com", names);
                for count in [1, 2, 12] {
                    let all: Vec<String> = (0..count).map(|index| pool.generate_name(index, count) + "x1z9b").collect();
                    let mut sorted = all.clone();
                    sorted.sort();
                    sorted.dedup();
                    assert_eq!(all, sorted, "in order and different");
                    for (index, name) in all.iter().enumerate() {
                        assert!(name.len() <= MAX_GENERATE_NAME + 5, "{name}");
                        assert!(!name.contains(".-") && !name.contains("-."), "{name}");
                        assert_eq!(pool.index_of(name, count), Some(index), "{name}");
                    }
                }
            }
        }
    }

    #[test]
    fn names_of_another_count_or_scheme_are_not_taken() {
        let pool = identity("n", "d", SliceNames::NodeFirst);
        assert_eq!(pool.index_of("n-d-abcde", 1), Some(0));
        for (name, count) in [("n-d-abcde", 2), ("n-d-00000-abcde", 1), ("n-d-", 1), ("00000-d-n-abcde", 1), ("n-d-00002-abcde", 2)] {
            assert_eq!(pool.index_of(name, count), None, "{name} of {count}");
        }
    }

    #[test]
    fn devices_are_split_at_the_limits_in_order() {
        let device = |index: usize, tainted: bool| Device {
            name: format!("gpu-{index}"),
            taints: tainted.then(|| vec![DeviceTaint { effect: "NoSchedule".to_owned(), key: "k".to_owned(), ..Default::default() }]),
            ..Default::default()
        };
        let sizes = |tainted: &dyn Fn(usize) -> bool, count: usize| {
            let devices: Vec<Device> = (0..count).map(|index| device(index, tainted(index))).collect();
            let slices = split(devices.clone());
            assert_eq!(slices.concat(), devices);
            slices.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&|_| false, 0), [0]);
        assert_eq!(sizes(&|_| false, 128), [128]);
        assert_eq!(sizes(&|_| false, 129), [128, 1]);
        assert_eq!(sizes(&|_| true, 130), [64, 64, 2]);
        assert_eq!(sizes(&|index| index == 100, 200), [100, 64, 36]);
        assert_eq!(sizes(&|index| index == 10, 200), [64, 128, 8]);
    }
}
