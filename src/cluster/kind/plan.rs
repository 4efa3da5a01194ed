//! What a lab on kind is to be made of: what was asked for over what it was made of before. Everything that can be refused without running
//! anything is refused here.

use std::path::PathBuf;

use crate::base::failure::Kind;
use crate::cluster::embedded::Wanted as WantedSpec;
use crate::cluster::kind::image::{self, NodeImage, NodeImageError};
use crate::cluster::kind::told;
use crate::cluster::steps::Say;
use crate::cluster::{Backend, ClusterError, KindRecord, LabRecord, LabSpec};
use crate::model::gates::{Gates, Wanted as Features};

/// What was asked for; what is `None` or empty stays as it was, or gets the default.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Nodes, devices, port.
    pub spec: WantedSpec,
    /// The node image, by name.
    pub node_image: Option<String>,
    /// Its Kubernetes version.
    pub kubernetes: Option<String>,
    /// How much of DRA is switched on.
    pub features: Option<Features>,
    /// Gates beyond that, as `NAME=true`.
    pub gates: Vec<String>,
    /// The image that lessons' pods get.
    pub workload_image: Option<String>,
    /// An image that has dralab, for the driver.
    pub driver_image: Option<String>,
    /// A Linux binary of dralab, for the driver.
    pub driver_binary: Option<PathBuf>,
    /// dralab's source tree, for the engine to build the driver from.
    pub driver_source: Option<PathBuf>,
}

/// What a lab is to be made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The lab's name.
    pub lab: String,
    /// Nodes, devices, port.
    pub spec: LabSpec,
    /// The node image.
    pub image: NodeImage,
    /// How much of DRA is switched on.
    pub features: Features,
    /// Gates beyond that, as they were asked for.
    pub extra: Vec<String>,
    /// The gates that follow.
    pub gates: Gates,
    /// The image that lessons' pods get, where one was named.
    pub workload_image: Option<String>,
    /// An image that has dralab, where one was named.
    pub driver_image: Option<String>,
    /// A binary of dralab, where one was named.
    pub driver_binary: Option<PathBuf>,
    /// A source tree of dralab, where one was named.
    pub driver_source: Option<PathBuf>,
    /// What is recorded of it.
    pub record: Option<LabRecord>,
}

impl Plan {
    /// Makes the plan.
    ///
    /// # Errors
    /// A version, image or gate that cannot be used; a lab of that name on another backend; a change that needs a new cluster.
    pub fn make(lab: &str, wanted: Wanted, record: Option<LabRecord>) -> Result<Self, ClusterError> {
        if let Some(record) = &record
            && record.backend != Backend::Kind
        {
            return Err(other_backend(lab, record.backend, Backend::Kind));
        }
        let before = record.as_ref().and_then(|r| r.kind.clone());
        // An image that is named anew brings its own version; a version asked for anew, kind's image of it.
        let (name, version) = match (&wanted.node_image, &wanted.kubernetes, &before) {
            (None, None, Some(before)) => (Some(before.node_image.clone()), Some(before.kubernetes.clone())),
            (name, version, _) => (name.clone(), version.clone()),
        };
        let image = image::choose(name.as_deref(), version.as_deref()).map_err(|error| image_error(&error))?;
        let features = wanted.features.or_else(|| before.as_ref().and_then(|b| Features::by_name(&b.features))).unwrap_or_default();
        let extra = if wanted.gates.is_empty() { before.as_ref().map(|b| b.gates.clone()).unwrap_or_default() } else { wanted.gates };
        let gates = Gates::choose(image.version.minor, features, &extra)
            .map_err(|error| told(Kind::Usage, "DL-KIND-03", error.to_string(), vec![Say::new("kind.advice.gates")]))?;
        let spec = wanted.spec.over(record.as_ref().map(|r| &r.spec));
        if let (Some(record), Some(before)) = (&record, &before) {
            refuse_changes(lab, record, before, &spec, &image, &gates)?;
        }
        Ok(Plan {
            lab: lab.to_owned(),
            spec,
            image,
            features,
            extra,
            gates,
            workload_image: wanted.workload_image.or_else(|| before.as_ref().and_then(|b| b.workload_image.clone())),
            driver_image: wanted.driver_image,
            driver_binary: wanted.driver_binary,
            driver_source: wanted.driver_source,
            record,
        })
    }

    /// The names of the nodes, the control plane first.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        std::iter::once(LabSpec::control_plane(&self.lab)).chain(self.spec.workers(&self.lab)).collect()
    }

    /// The gates in one line; `none` where there are none.
    #[must_use]
    pub fn gates_line(&self) -> String {
        if self.gates.set.is_empty() {
            return "-".to_owned();
        }
        self.gates
            .set
            .iter()
            .map(|(name, on)| if *on { (*name).to_owned() } else { format!("{name}=false") })
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// A lab of that name is somewhere else.
#[must_use]
pub fn other_backend(lab: &str, there: Backend, asked: Backend) -> ClusterError {
    let message = format!("lab \"{lab}\" is on backend {there}, and {asked} was asked for");
    told(Kind::Refused, "DL-BACKEND-02", message, vec![Say::new("kind.advice.other-backend").with("lab", lab)])
}

fn image_error(error: &NodeImageError) -> ClusterError {
    let (kind, advice) = match error {
        NodeImageError::Deadlock { .. } => (Kind::Refused, "kind.advice.deadlock"),
        NodeImageError::Outside { .. } => (Kind::Refused, "kind.advice.versions"),
        NodeImageError::NotAVersion { .. } => (Kind::Usage, "kind.advice.versions"),
        NodeImageError::Unversioned { .. } => (Kind::Usage, "kind.advice.unversioned"),
        NodeImageError::Contradiction { .. } => (Kind::Usage, "kind.advice.contradiction"),
    };
    told(kind, "DL-KIND-02", error.to_string(), vec![Say::new(advice)])
}

/// What a cluster was created with cannot be changed later.
fn refuse_changes(
    lab: &str,
    record: &LabRecord,
    before: &KindRecord,
    spec: &LabSpec,
    image: &NodeImage,
    gates: &Gates,
) -> Result<(), ClusterError> {
    let mut changes = Vec::new();
    let mut change = |what: &str, was: String, is: String| {
        if was != is {
            changes.push(format!("{what} {was} would become {is}"));
        }
    };
    change("node image", before.node_image.clone(), image.name.clone());
    change("number of workers", record.spec.nodes.to_string(), spec.nodes.to_string());
    let port = |port: Option<u16>| port.map_or_else(|| "any".to_owned(), |p| p.to_string());
    change("port", port(record.spec.port), port(spec.port));
    let set = |gates: &Gates| gates.set.iter().map(|(name, on)| format!("{name}={on}")).collect::<Vec<_>>().join(",");
    let was = Features::by_name(&before.features)
        .and_then(|features| Gates::choose(image.version.minor, features, &before.gates).ok())
        .map_or_else(|| before.features.clone(), |gates| set(&gates));
    if before.node_image == image.name && was != set(gates) {
        changes.push(format!("feature gates {was:?} would become {:?}", set(gates)));
    }
    if changes.is_empty() {
        return Ok(());
    }
    let message = format!("this needs a new cluster: {}", changes.join("; "));
    Err(told(Kind::Refused, "DL-KIND-04", message, vec![Say::new("kind.advice.new-cluster").with("lab", lab)]))
}

#[cfg(test)]
mod tests {
    use super::{Plan, Wanted, WantedSpec};
    use crate::cluster::{Backend, KindRecord, LabRecord, LabSpec};
    use crate::model::gates::Wanted as Features;

    fn record(backend: Backend) -> LabRecord {
        LabRecord {
            format: 1,
            lab: "dra-lab".to_owned(),
            backend,
            version: "0".to_owned(),
            pid: None,
            server: String::new(),
            kubeconfig: "k".into(),
            spec: LabSpec { nodes: 2, ..LabSpec::default() },
            sockets: None,
            nodes: Vec::new(),
            kind: (backend == Backend::Kind).then(|| KindRecord {
                node_image: "mine:1".to_owned(),
                kubernetes: "1.36.2".to_owned(),
                features: "all".to_owned(),
                gates: vec!["ContextualLogging=false".to_owned()],
                workload_image: Some("w:1".to_owned()),
                ..KindRecord::default()
            }),
            context: None,
        }
    }

    #[test]
    fn without_flags_a_lab_stays_as_it_is() {
        let plan = Plan::make("dra-lab", Wanted::default(), Some(record(Backend::Kind))).expect("a plan");
        assert_eq!((plan.image.name.as_str(), plan.spec.nodes, plan.features), ("mine:1", 2, Features::All));
        assert_eq!(plan.workload_image.as_deref(), Some("w:1"));
        assert_eq!(plan.gates.set.get("ContextualLogging"), Some(&false));
        assert_eq!(plan.nodes(), ["dra-lab-control-plane", "dra-lab-worker", "dra-lab-worker2"]);
        let fresh = Plan::make("x", Wanted::default(), None).expect("a plan");
        assert_eq!((fresh.spec.nodes, fresh.features, fresh.image.pinned), (1, Features::Beta, true));
    }

    #[test]
    fn what_needs_a_new_cluster_or_cannot_be_is_refused() {
        let wanted = |change: fn(&mut Wanted)| {
            let mut wanted = Wanted::default();
            change(&mut wanted);
            wanted
        };
        let kind = || Some(record(Backend::Kind));
        for (wanted, record, expected) in [
            (wanted(|w| w.spec.nodes = Some(3)), kind(), Some("number of workers 2 would become 3")),
            (wanted(|w| w.spec.nodes = Some(2)), kind(), None),
            (wanted(|w| w.spec.gpus = Some(2)), kind(), None),
            (wanted(|w| w.features = Some(Features::Stable)), kind(), Some("would become \"ContextualLogging=false\"")),
            (wanted(|w| w.features = Some(Features::All)), kind(), None),
            (wanted(|w| w.kubernetes = Some("1.37".to_owned())), kind(), Some("node image mine:1 would become kindest/node:v1.37.0@")),
            (wanted(|w| w.spec.port = Some(6443)), kind(), Some("port any would become 6443")),
            (wanted(|w| w.gates = vec!["ContextualLogging=true".to_owned()]), kind(), Some("feature gates")),
            (Wanted::default(), Some(self::record(Backend::Embedded)), Some("is on backend embedded, and kind was asked for")),
            (wanted(|w| w.gates = vec!["DRATaint=true".to_owned()]), None, Some("has no feature gate \"DRATaint\"")),
            (wanted(|w| w.kubernetes = Some("1.34.1".to_owned())), None, Some("deadlocks")),
        ] {
            let shown = format!("{wanted:?}");
            match (Plan::make("dra-lab", wanted, record), expected) {
                (Ok(_), None) => {}
                (Err(error), Some(said)) => assert!(error.to_string().contains(said), "{error}"),
                (Ok(_), Some(said)) => panic!("{shown}: not refused: {said}"),
                (Err(error), None) => panic!("{shown}: {error}"),
            }
        }
        let spec = WantedSpec { profile: Some("recorded".to_owned()), ..WantedSpec::default() };
        assert!(Plan::make("dra-lab", Wanted { spec, ..Wanted::default() }, kind()).is_ok());
    }
}
