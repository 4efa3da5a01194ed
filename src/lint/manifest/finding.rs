//! Findings in manifests, as data.

use serde::Serialize;
use serde_json::Value;

use super::tree::Place;
use crate::lint::selector::{self, Severity};

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident $id:literal $severity:ident $text:literal,)*) => {
        /// A rule. Its id never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            /// All of them.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),*];

            /// The stable id.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self { $(Rule::$name => concat!("DL-LINT-", $id)),* }
            }

            /// How bad it is.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Rule::$name => Severity::$severity),* }
            }

            /// The id of its sentence in the text catalogue.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Rule::$name => concat!("lint.rule.", $text)),* }
            }
        }
    };
}

rules! {
    /// A text that is no YAML.
    Unreadable "YAML" Error "yaml",
    /// A document without apiVersion or kind.
    NotAnObject "OBJECT" Error "object",
    /// An API version that is not served by default.
    OldVersion "OLD-VERSION" Warning "old-version",
    /// The shape of another version than the object says it has.
    Shape "SHAPE" Error "shape",
    /// A field that the kind does not have.
    UnknownField "UNKNOWN-FIELD" Error "unknown-field",
    /// The same, with a field of nearly that name.
    NearField "UNKNOWN-FIELD-NEAR" Error "unknown-field-near",
    /// A value of a wrong type.
    WrongType "TYPE" Error "type",
    /// What the API server's validation refuses.
    Invalid "INVALID" Error "invalid",
    /// A field whose gate is off in that version.
    Gate "GATE" Error "gate",
    /// A field or kind that the version does not have.
    NotInVersion "VERSION" Error "not-in-version",
    /// A trap in a selector.
    Selector "CEL" Error "selector",
    /// A selector that matches no device.
    NoDevice "NO-DEVICE" Warning "no-device",
    /// An attribute's name is no C identifier.
    Identifier "IDENTIFIER" Error "identifier",
    /// A version attribute is no version.
    Version "SEMVER" Error "semver",
    /// An attribute with and without its driver's domain.
    Twice "TWICE" Error "twice",
    /// A device name that is not lower-case.
    DeviceName "DEVICE-NAME" Error "device-name",
    /// One named claim for several pods.
    NamedClaim "NAMED-CLAIM" Warning "named-claim",
    /// `source:` round a claim's name.
    Source "SOURCE" Error "source",
    /// A toleration where nothing reads it.
    TolerationPlace "TOLERATION-PLACE" Error "toleration-place",
    /// A pod tolerates what is a taint of devices.
    PodToleration "POD-TOLERATION" Warning "pod-toleration",
    /// The driver's name where a class's name is meant.
    ClassIsDriver "CLASS-DRIVER" Error "class-driver",
    /// A class that is not there.
    UnknownClass "CLASS" Warning "class",
    /// A class that selects every device of every driver.
    OpenClass "OPEN-CLASS" Warning "open-class",
    /// Admin access in a namespace without the label.
    AdminAccess "ADMIN-ACCESS" Error "admin-access",
    /// A pod put on a node by hand waits for a claim that nobody allocates.
    NodeName "NODE-NAME" Warning "node-name",
    /// A claim or template in another namespace.
    OtherNamespace "NAMESPACE" Error "namespace",
    /// A claim or template that none of the files has, with one of nearly that name.
    NearClaim "CLAIM-NEAR" Warning "claim-near",
    /// A claim that no container uses.
    UnusedClaim "UNUSED-CLAIM" Warning "unused-claim",
    /// A container names a request that the claim does not have.
    UnknownRequest "REQUEST" Error "request",
    /// A container names an alternative.
    SubRequest "SUBREQUEST" Error "subrequest",
    /// A rule that taints every device.
    OpenTaintRule "TAINT-RULE" Warning "taint-rule",
    /// More devices than a claim can have.
    TooManyDevices "COUNT" Error "count",
    /// A constraint on an attribute that no device has.
    Constraint "CONSTRAINT" Warning "constraint",
    /// A pool whose slices are not all there.
    PartialPool "POOL" Warning "pool",
    /// The same device twice in a pool.
    SameDevice "SAME-DEVICE" Error "same-device",
    /// A pool on several nodes under one name.
    SharedPool "SHARED-POOL" Warning "shared-pool",
}

impl Serialize for Rule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestFinding {
    /// Which rule.
    #[serde(rename = "id")]
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// The file's name.
    pub file: String,
    /// The document in the file, from 1; 0 where the file cannot be read.
    pub document: usize,
    /// `ResourceClaim default/some-gpu`.
    pub object: String,
    /// The field.
    pub path: String,
    /// Line and column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// What the sentence is filled with.
    #[serde(serialize_with = "map")]
    pub values: Vec<(&'static str, String)>,
    /// The trap, for [`Rule::Selector`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Box<selector::Finding>>,
    /// The object as it should be, where that can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub converted: Option<Value>,
}

fn map<S: serde::Serializer>(values: &[(&'static str, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().map(|(name, value)| (name, value)))
}

impl ManifestFinding {
    /// Adds a value for the sentence.
    #[expect(clippy::needless_pass_by_value, reason = "numbers and texts are given as they are")]
    pub(super) fn with(&mut self, name: &'static str, value: impl ToString) -> &mut Self {
        self.values.push((name, value.to_string()));
        self
    }
}
