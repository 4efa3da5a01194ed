//! What a check is, and what it can come to.

use serde::Serialize;

use crate::cluster::steps::Say;
use crate::doctor::Facts;
use crate::doctor::fix::Fix;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Something does not, or will not, work as expected.
    Warning,
    /// Nothing goes before this is mended; `doctor` exits with 3.
    Blocker,
}

impl Severity {
    /// Its word, in JSON and as the last part of its text's id.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Blocker => "blocker",
        }
    }
}

/// Where a check looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// The machine and its container engine.
    Host,
    /// Programs that the lab or the user calls.
    Tools,
    /// The lab's files, process and node containers.
    Lab,
    /// The objects of the cluster.
    Cluster,
}

impl Group {
    /// In the order of the report.
    pub const ALL: [Group; 4] = [Group::Host, Group::Tools, Group::Lab, Group::Cluster];

    /// Its word, in JSON and as the last part of its text's id.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Group::Host => "host",
            Group::Tools => "tools",
            Group::Lab => "lab",
            Group::Cluster => "cluster",
        }
    }
}

/// One thing that was seen: facts, in nobody's language.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Of which object, file or setting.
    pub of: String,
    /// What was seen there.
    pub seen: String,
}

/// Something that a check found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, as a text of the catalogue.
    pub what: Say,
    /// What was seen.
    pub evidence: Vec<Evidence>,
    /// What to do, as a text of the catalogue.
    pub advice: Say,
    /// What `--fix` would do.
    pub fixes: Vec<Fix>,
}

impl Finding {
    /// A finding without evidence yet.
    #[must_use]
    pub fn new(severity: Severity, what: Say, advice: Say) -> Self {
        Finding { severity, what, evidence: Vec::new(), advice, fixes: Vec::new() }
    }

    /// Adds what was seen.
    #[must_use]
    pub fn seen(mut self, of: impl Into<String>, seen: impl Into<String>) -> Self {
        self.add(of, seen);
        self
    }

    /// Adds what was seen.
    pub fn add(&mut self, of: impl Into<String>, seen: impl Into<String>) {
        self.evidence.push(Evidence { of: of.into(), seen: seen.into() });
    }

    /// Adds what mends it.
    #[must_use]
    pub fn fixed_by(mut self, fix: Fix) -> Self {
        self.fixes.push(fix);
        self
    }

    /// The finding, if anything was seen at all.
    #[must_use]
    pub fn if_any(self) -> Option<Self> {
        (!self.evidence.is_empty()).then_some(self)
    }
}

/// Why a check has nothing to look at here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absent {
    /// No cluster is examined.
    NoCluster,
    /// There is no such lab.
    NoLab,
    /// Only on Linux.
    NotLinux,
    /// There is no container engine.
    NoEngine,
    /// The engine is not on this machine.
    EngineElsewhere,
    /// The lab does not run in containers.
    NotKind,
    /// The lab is not an embedded one.
    NotEmbedded,
    /// The lab's containers are not its own (a cluster that was there before), or it has none.
    NotOurs,
    /// The server does not serve this kind.
    NotServed,
    /// The tool is not installed.
    NoTool,
    /// The cluster is an embedded one.
    EmbeddedCluster,
}

impl Absent {
    /// All of them.
    pub const ALL: [Absent; 11] = [
        Absent::NoCluster,
        Absent::NoLab,
        Absent::NotLinux,
        Absent::NoEngine,
        Absent::EngineElsewhere,
        Absent::NotKind,
        Absent::NotEmbedded,
        Absent::NotOurs,
        Absent::NotServed,
        Absent::NoTool,
        Absent::EmbeddedCluster,
    ];

    /// The id of its text.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Absent::NoCluster => "doctor.absent.no-cluster",
            Absent::NoLab => "doctor.absent.no-lab",
            Absent::NotLinux => "doctor.absent.not-linux",
            Absent::NoEngine => "doctor.absent.no-engine",
            Absent::EngineElsewhere => "doctor.absent.engine-elsewhere",
            Absent::NotKind => "doctor.absent.not-kind",
            Absent::NotEmbedded => "doctor.absent.not-embedded",
            Absent::NotOurs => "doctor.absent.not-ours",
            Absent::NotServed => "doctor.absent.not-served",
            Absent::NoTool => "doctor.absent.no-tool",
            Absent::EmbeddedCluster => "doctor.absent.embedded-cluster",
        }
    }
}

/// A fact is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blind {
    /// It does not apply here.
    NotHere(Absent),
    /// It could not be looked at; the reason, as the system or the server gave it.
    CouldNotLook(String),
}

impl Blind {
    /// It could not be looked at, because of this.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "callers hand over what they have just made")]
    pub fn because(reason: impl ToString) -> Self {
        Blind::CouldNotLook(reason.to_string())
    }
}

/// What a check comes to: findings (none: it is fine), or why it did not look.
pub type Looked = Result<Vec<Finding>, Blind>;

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Stable id; never changes its meaning.
    pub id: &'static str,
    /// The part of its texts' ids that names it: `doctor.SLUG` is its title.
    pub slug: &'static str,
    /// Where it looks.
    pub group: Group,
    /// The least severity of what it finds.
    pub least: Severity,
    /// The greatest severity of what it finds.
    pub most: Severity,
    /// Looks. Pure: no IO, no clock.
    pub look: fn(&Facts) -> Looked,
}
