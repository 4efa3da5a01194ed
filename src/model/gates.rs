//! Every feature gate of Kubernetes 1.34 to 1.37, what each minor version makes of it, and which of DRA's a lab switches on.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::nearest::levenshtein;
use crate::model::features::{self, Feature, NEWEST, OLDEST, UnknownVersion};

/// How far a gate has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default, may change or go.
    Alpha,
    /// Complete; may still change.
    Beta,
    /// Generally available.
    Stable,
    /// On its way out.
    Deprecated,
}

/// What a minor version makes of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// How far it has come.
    pub stage: Stage,
    /// On in a default cluster.
    pub on: bool,
    /// Cannot be set to anything else.
    pub locked: bool,
}

impl Setting {
    /// Reads a cell of the tables: a letter for the stage, `+` or `-`, and `!` when locked. `None`: the gate is not there (`.`).
    fn of_cell(cell: &str) -> Option<Self> {
        let mut marks = cell.chars();
        let stage = match marks.next()? {
            'a' => Stage::Alpha,
            'b' => Stage::Beta,
            'g' => Stage::Stable,
            'd' => Stage::Deprecated,
            _ => return None,
        };
        Some(Setting { stage, on: marks.next() == Some('+'), locked: marks.next() == Some('!') })
    }

    /// The cell in a column (0: the oldest version) of a row of cells.
    pub(super) fn in_column(cells: &str, column: usize) -> Option<Self> {
        cells.split(' ').nth(column).and_then(Self::of_cell)
    }

    /// Whether a text is a cell.
    #[cfg(test)]
    pub(super) fn is_cell(cell: &str) -> bool {
        cell == "." || (Self::of_cell(cell).is_some() && matches!(&cell[1..], "+" | "-" | "+!" | "-!"))
    }
}

/// The gates beside DRA's.
const OTHERS: &str = include_str!("../../assets/kubernetes/feature-gates.txt");

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    features::rows().chain(OTHERS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' ')))
}

/// Why a gate cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The minor version is not one of the tables'.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
    /// Not `NAME=true` or `NAME=false`.
    #[error("a feature gate is set as NAME=true or NAME=false, and this is {text:?}")]
    Form {
        /// What was given.
        text: String,
    },
    /// Set twice, once on and once off.
    #[error("feature gate {name} is both switched on and off")]
    Twice {
        /// The gate.
        name: String,
    },
    /// No version has such a gate.
    #[error("Kubernetes 1.{minor} has no feature gate {name:?}{}", nearest.map(|n| format!("; the nearest is {n}")).unwrap_or_default())]
    Unknown {
        /// What was given.
        name: String,
        /// The minor version.
        minor: u32,
        /// The gate of that version with the nearest name.
        nearest: Option<&'static str>,
    },
    /// Another version has it.
    #[error("Kubernetes 1.{minor} has no feature gate {name}; it is in {there}")]
    NotInVersion {
        /// The gate.
        name: &'static str,
        /// The minor version.
        minor: u32,
        /// Which versions have it.
        there: String,
    },
    /// It can only be what it is.
    #[error("feature gate {name} is locked in Kubernetes 1.{minor}: it is always {}", if *on { "on" } else { "off" })]
    Locked {
        /// The gate.
        name: &'static str,
        /// The minor version.
        minor: u32,
        /// What it is locked to.
        on: bool,
    },
    /// What it needs is off.
    #[error("feature gate {name} needs {needs}, which is off")]
    Needs {
        /// The gate.
        name: &'static str,
        /// The gate that it needs.
        needs: &'static str,
    },
}

/// Gates that others need, as `defaultKubernetesFeatureGateDependencies` of 1.37.2 has them: without, the API server does not start.
/// Only what is not on in every version.
const NEEDS: &[(&str, &[&str])] = &[
    ("DRADeviceBindingConditions", &["DRAResourceClaimDeviceStatus"]),
    ("DRADeviceCompatibilityGroups", &["DRAPartitionableDevices"]),
    ("DRADeviceTaintRules", &["DRADeviceTaints"]),
    ("DRAFractionalCapacityRange", &["DRAConsumableCapacity"]),
    ("DRAOptionalNodeOperations", &["NodeDeclaredFeatures"]),
    ("DRAPartitionableDevicesType", &["DRAPartitionableDevices", "DRAResourcePoolStatus"]),
    ("DRAResourceClaimGranularStatusAuthorization", &["DRAResourceClaimDeviceStatus"]),
    ("DRAWorkloadResourceClaims", &["GenericWorkload"]),
    ("ResourceHealthStatusMessage", &["ResourceHealthStatus"]),
];

/// API versions that gates add to what a default cluster serves: gate, first and last minor version, API. From the types in
/// `k8s.io/api` v0.34.10, v0.35.4, v0.36.1 and v0.37.2 (DeviceTaintRule, ResourcePoolStatusRequest, PodGroup).
const SERVED: &[(&str, u32, u32, &str)] = &[
    ("DRADeviceTaints", 34, 34, "resource.k8s.io/v1alpha3"),
    ("DRADeviceTaintRules", 35, 35, "resource.k8s.io/v1alpha3"),
    ("DRADeviceTaintRules", 36, 36, "resource.k8s.io/v1beta2"),
    ("DRAResourcePoolStatus", 36, 37, "resource.k8s.io/v1alpha3"),
    ("GenericWorkload", 36, 36, "scheduling.k8s.io/v1alpha2"),
    ("GenericWorkload", 37, 37, "scheduling.k8s.io/v1beta1"),
];

/// How much of DRA a lab's cluster has switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// What the version has on by itself.
    Stable,
    /// Beta gates that are off by default, too. The default: a lab is for trying what is ready to be tried, and in most versions
    /// that is next to nothing beyond the defaults, so that what is learned holds in an untouched cluster.
    #[default]
    Beta,
    /// Alpha gates, too. kube-scheduler changes to its experimental allocator.
    All,
}

impl Wanted {
    /// Its name, as `--features` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Wanted::Stable => "stable",
            Wanted::Beta => "beta",
            Wanted::All => "all",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Wanted::Stable, Wanted::Beta, Wanted::All].into_iter().find(|w| w.name() == name)
    }
}

/// The gates that a cluster is created with, beyond its defaults, and the API versions that they serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// Gate and what it is set to.
    pub set: BTreeMap<&'static str, bool>,
    /// API versions to serve beyond the defaults.
    pub served: BTreeSet<&'static str>,
}

impl Gates {
    /// What to set in Kubernetes 1.`minor`: DRA's gates up to a stage, then what the user sets (`NAME=true`), then what those need.
    ///
    /// # Errors
    /// A gate that the version does not have, or has locked; a gate that needs another one which the user switched off.
    pub fn choose<S: AsRef<str>>(minor: u32, wanted: Wanted, extra: impl IntoIterator<Item = S>) -> Result<Self, GateError> {
        features::column(minor)?;
        let mut set: BTreeMap<&'static str, bool> = Feature::all()
            .map(Feature::name)
            .filter(|name| {
                setting(name, minor).is_some_and(|s| match s.stage {
                    _ if s.on => false,
                    Stage::Alpha => wanted == Wanted::All,
                    Stage::Beta => wanted != Wanted::Stable,
                    Stage::Stable | Stage::Deprecated => false,
                })
            })
            .map(|name| (name, true))
            .collect();
        let mut asked: BTreeMap<&'static str, bool> = BTreeMap::new();
        for text in extra {
            let (name, on) = parse(text.as_ref())?;
            let name = settable(name, on, minor)?;
            if asked.insert(name, on).is_some_and(|before| before != on) {
                return Err(GateError::Twice { name: name.to_owned() });
            }
        }
        set.extend(&asked);
        let is_on = |set: &BTreeMap<&'static str, bool>, name: &str| {
            set.get(name).copied().unwrap_or_else(|| setting(name, minor).is_some_and(|s| s.on))
        };
        // Needs of needs are at most two deep; each round adds what the one before asked for.
        for _ in 0..NEEDS.len() {
            let mut missing = Vec::new();
            for (name, needs) in NEEDS.iter().filter(|(name, _)| is_on(&set, name)) {
                for need in needs.iter().filter(|need| !is_on(&set, need)) {
                    match (asked.get(need), asked.get(name)) {
                        // What was switched off takes with it what needs it, unless that was asked for by name.
                        (Some(false), Some(true)) => return Err(GateError::Needs { name, needs: need }),
                        (Some(false), _) => missing.push((*name, false)),
                        _ => missing.push((*need, true)),
                    }
                }
            }
            if missing.is_empty() {
                break;
            }
            for (name, on) in missing {
                set.insert(settable(name, on, minor)?, on);
            }
        }
        let served =
            SERVED.iter().filter(|row| row.1 <= minor && minor <= row.2 && is_on(&set, row.0)).map(|row| row.3).collect::<BTreeSet<_>>();
        Ok(Gates { set, served })
    }
}

/// What Kubernetes 1.`minor` makes of a gate.
#[must_use]
pub fn setting(name: &str, minor: u32) -> Option<Setting> {
    let column = features::column(minor).ok()?;
    rows().find(|row| row.0 == name).and_then(|row| Setting::in_column(row.1, column))
}

fn parse(text: &str) -> Result<(&str, bool), GateError> {
    let form = || GateError::Form { text: text.to_owned() };
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    match (name.trim(), value.trim()) {
        ("", _) => Err(form()),
        (name, "true") => Ok((name, true)),
        (name, "false") => Ok((name, false)),
        _ => Err(form()),
    }
}

/// The gate's own name, if it can be set so in that version.
fn settable(name: &str, on: bool, minor: u32) -> Result<&'static str, GateError> {
    let column = features::column(minor)?;
    let Some((name, cells)) = rows().find(|row| row.0 == name) else {
        return Err(GateError::Unknown { name: name.to_owned(), minor, nearest: nearest(name, minor) });
    };
    match Setting::in_column(cells, column) {
        None => {
            let there: Vec<String> = (OLDEST..=NEWEST)
                .filter(|m| Setting::in_column(cells, (m - OLDEST) as usize).is_some())
                .map(|m| format!("1.{m}"))
                .collect();
            Err(GateError::NotInVersion { name, minor, there: there.join(", ") })
        }
        Some(found) if found.locked && found.on != on => Err(GateError::Locked { name, minor, on: found.on }),
        Some(_) => Ok(name),
    }
}

/// The gate of that version whose name is nearest, if any is near.
fn nearest(name: &str, minor: u32) -> Option<&'static str> {
    let column = features::column(minor).ok()?;
    let lower = name.to_ascii_lowercase();
    rows()
        .filter(|row| Setting::in_column(row.1, column).is_some())
        .map(|row| (levenshtein(&lower, &row.0.to_ascii_lowercase()), row.0))
        .min()
        .filter(|(distance, found)| *distance * 3 <= found.len().max(name.len()))
        .map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_reads_and_no_gate_is_told_of_twice() {
        let names: Vec<&str> = rows().map(|row| row.0).collect();
        assert!(names.len() > 240, "{}", names.len());
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for (name, cells) in rows() {
            assert_eq!(cells.split(' ').count(), 4, "{name}");
            assert!(cells.split(' ').all(Setting::is_cell), "{name} {cells}");
        }
        for (name, needs) in NEEDS {
            for known in [name].into_iter().chain(*needs) {
                assert!(names.contains(known), "{known}");
            }
        }
        assert!(SERVED.iter().all(|row| names.contains(&row.0)));
    }

    /// The lists of what upstream's own DRA clusters switch on, per minor version.
    #[test]
    fn stages_per_version() {
        let alpha34 = "DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices ResourceHealthStatus";
        let alpha35 = "DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource DRAPartitionableDevices ResourceHealthStatus";
        let all36 = "DRADeviceTaintRules DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus DRAWorkloadResourceClaims GenericWorkload";
        let all37 = "DRADerivedAttributes DRADeviceCompatibilityGroups DRAFractionalCapacityRange DRAListTypeAttributes DRANodeAllocatableResources DRAOptionalNodeOperations DRAPartitionableDevicesType DRAResourcePoolStatus DRAWorkloadResourceClaims GenericWorkload";
        for (minor, wanted, gates, served) in [
            (34, Wanted::Stable, "", ""),
            (34, Wanted::Beta, "", ""),
            (34, Wanted::All, alpha34, "resource.k8s.io/v1alpha3"),
            (35, Wanted::Beta, "", ""),
            (35, Wanted::All, alpha35, "resource.k8s.io/v1alpha3"),
            (36, Wanted::Stable, "", ""),
            (36, Wanted::Beta, "DRADeviceTaintRules", "resource.k8s.io/v1beta2"),
            (36, Wanted::All, all36, "resource.k8s.io/v1alpha3 resource.k8s.io/v1beta2 scheduling.k8s.io/v1alpha2"),
            (37, Wanted::Stable, "", ""),
            (37, Wanted::Beta, "DRAFractionalCapacityRange DRAWorkloadResourceClaims GenericWorkload", "scheduling.k8s.io/v1beta1"),
            (37, Wanted::All, all37, "resource.k8s.io/v1alpha3 scheduling.k8s.io/v1beta1"),
        ] {
            let chosen = Gates::choose(minor, wanted, [""; 0]).expect("a version of the table");
            assert!(chosen.set.values().all(|on| *on));
            assert_eq!(chosen.set.into_keys().collect::<Vec<_>>().join(" "), gates, "1.{minor} {wanted:?}");
            assert_eq!(chosen.served.into_iter().collect::<Vec<_>>().join(" "), served, "1.{minor} {wanted:?}");
        }
        assert_eq!(Gates::choose(33, Wanted::All, [""; 0]), Err(GateError::Version(UnknownVersion { minor: 33 })));
    }

    #[test]
    fn what_cannot_be_set_is_refused_before_anything_runs() {
        for (minor, text, said) in [
            (37, "DRADeviceTaint=true", "Kubernetes 1.37 has no feature gate \"DRADeviceTaint\"; the nearest is DRADeviceTaints"),
            (
                37,
                "dralisttypeattributes=true",
                "Kubernetes 1.37 has no feature gate \"dralisttypeattributes\"; the nearest is DRAListTypeAttributes",
            ),
            (37, "RBAC=true", "Kubernetes 1.37 has no feature gate \"RBAC\""),
            (34, "DRAListTypeAttributes=true", "Kubernetes 1.34 has no feature gate DRAListTypeAttributes; it is in 1.36, 1.37"),
            (36, "DynamicResourceAllocation=false", "feature gate DynamicResourceAllocation is locked in Kubernetes 1.36: it is always on"),
            (36, "DRAAdminAccess", "a feature gate is set as NAME=true or NAME=false, and this is \"DRAAdminAccess\""),
            (36, "DRAAdminAccess=yes", "a feature gate is set as NAME=true or NAME=false, and this is \"DRAAdminAccess=yes\""),
            (36, "=true", "a feature gate is set as NAME=true or NAME=false, and this is \"=true\""),
        ] {
            assert_eq!(Gates::choose(minor, Wanted::Stable, [text]).expect_err("refused").to_string(), said);
        }
        let twice = Gates::choose(36, Wanted::Stable, ["GenericWorkload=true", "GenericWorkload=false"]);
        assert_eq!(twice, Err(GateError::Twice { name: "GenericWorkload".to_owned() }));
    }

    #[test]
    fn what_is_needed_comes_along_and_what_is_switched_off_takes_its_users_with_it() {
        let set = |minor, wanted, extra: &[&str]| Gates::choose(minor, wanted, extra).map(|g| g.set.into_iter().collect::<Vec<_>>());
        assert_eq!(
            set(37, Wanted::Stable, &["DRAPartitionableDevicesType=true"]),
            Ok(vec![("DRAPartitionableDevicesType", true), ("DRAResourcePoolStatus", true)])
        );
        assert_eq!(
            set(37, Wanted::Beta, &["GenericWorkload=false"]),
            Ok(vec![("DRAFractionalCapacityRange", true), ("DRAWorkloadResourceClaims", false), ("GenericWorkload", false)])
        );
        assert_eq!(
            set(37, Wanted::Stable, &["GenericWorkload=false", "DRAWorkloadResourceClaims=true"]),
            Err(GateError::Needs { name: "DRAWorkloadResourceClaims", needs: "GenericWorkload" })
        );
        // A gate that does nothing for DRA is the user's to set.
        assert_eq!(set(37, Wanted::Stable, &["NodeSwap=true"]), Ok(vec![("NodeSwap", true)]));
        assert_eq!(Gates::choose(37, Wanted::Stable, ["GenericWorkload=true"]).map(|g| g.served), Ok(["scheduling.k8s.io/v1beta1"].into()));
    }
}
