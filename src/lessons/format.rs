//! The structure of a lesson (`lesson.yaml`): language-neutral and strict, unknown keys are errors with a line number.

use serde::Deserialize;

/// The version of the format that this build reads.
pub const FORMAT: u32 = 1;

/// A lesson's structure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Lesson {
    /// [`FORMAT`].
    pub format: u32,
    /// Never changes: progress is kept by it.
    pub id: String,
    /// How long it takes.
    pub minutes: u32,
    /// 1 to 3.
    pub difficulty: u8,
    /// What the lab must offer.
    #[serde(default)]
    pub needs: Needs,
    /// The namespace that the lesson owns; `lesson-ID` unless given.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// What the lab must offer for a lesson; else it is skipped, with the reason.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Needs {
    /// Devices of the driver `gpu.example.com` on one worker that no claim outside the lesson has.
    #[serde(default)]
    pub devices: u32,
    /// Worker nodes with such devices.
    #[serde(default)]
    pub workers: u32,
}

/// A step: something to read and do, and the checks that tell when it is done.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    /// Unique in the lesson.
    pub id: String,
    /// Manifests of `start/` that the lab applies when the step begins.
    #[serde(default)]
    pub start: Vec<String>,
    /// Files of `work/` that the learner gets to edit.
    #[serde(default)]
    pub work: Vec<String>,
    /// Commands to try first, as templates. Shown by the tour, and parsed by the lint.
    #[serde(default)]
    pub run: Vec<String>,
    /// Commands to look at the result with.
    #[serde(default)]
    pub look: Vec<String>,
    /// A prediction to make before looking.
    #[serde(default)]
    pub predict: Option<Predict>,
    /// States that objects must reach.
    #[serde(default)]
    pub expect: Vec<Expect>,
    /// Conditions on the objects as they are now.
    pub checks: Vec<Check>,
    /// Hints, from gentle to plain; ids of the prose.
    #[serde(default)]
    pub hints: Vec<String>,
    /// What solves the step, for unattended runs and `lesson solution`.
    pub solve: Vec<Action>,
}

/// A prediction: a question with choices, one of which is right.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Predict {
    /// The question's id in the prose (`#### ask ID`).
    pub ask: String,
    /// The choices, as the learner types them.
    pub choose: Vec<String>,
    /// The right one.
    pub is: String,
}

/// A state that an object must reach.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Expect {
    /// `resourceclaim/NAME` or `pod/NAME`, a template.
    pub object: String,
    /// The state in kubectl's words: `allocated,reserved`, `Running`.
    pub to: String,
    /// How many seconds verify may wait for it while something still moves.
    #[serde(default = "default_within")]
    pub within: u64,
}

const fn default_within() -> u64 {
    30
}

/// A condition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Check {
    /// Unique in the lesson; its prose is `#### check ID`.
    pub id: String,
    /// The object that `self` is, a template such as `resourceclaim/some-gpu`.
    #[serde(default)]
    pub object: Option<String>,
    /// The kind whose objects `items` are: `resourceclaims`, `pods`, `resourceslices`.
    #[serde(default)]
    pub items: Option<String>,
    /// CEL over `self` or `items`.
    pub that: String,
    /// What may be wrong; the first rule whose condition holds speaks.
    #[serde(default)]
    pub wrong: Vec<Wrong>,
}

/// A computed diagnosis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Wrong {
    /// CEL over the check's `self` (or `items`) and `objects`, a map of all watched objects by `kind/name`. `self` is null where there is no such object.
    pub when: String,
    /// The prose that answers it (`#### say ID`).
    pub say: String,
    /// Actions that lead here from the step's begin; `dev lint` plays them to prove that the diagnosis can be reached.
    #[serde(default, rename = "try")]
    pub attempt: Vec<Action>,
}

/// Something that is done to the cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Action {
    /// Apply a manifest: of `solution/` (of `wrong/`, for `try`), or of another folder of the lesson when it has a slash (`work/claim.yaml`).
    Apply(String),
    /// Apply a manifest that the server refuses; anything else is a fault of the lesson.
    Refused(Refused),
    /// Delete an object (`pod/pod0`) and wait until it is gone.
    Delete(String),
    /// Ask for a deletion, and go on while finalizers may still keep the object.
    StartDelete(String),
    /// Wait until an object has a state.
    Wait(Expect),
    /// Label a namespace or another object: `namespace/NAME key=value`.
    Label(String),
}

/// A manifest that the server refuses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Refused {
    /// Which manifest, as in [`Action::Apply`].
    pub apply: String,
    /// A part of what the server answers.
    pub says: String,
}

impl Action {
    /// The manifest that is applied, as a path in the lesson; `folder` is where a bare name is looked up.
    #[must_use]
    pub fn manifest(&self, folder: &str) -> Option<String> {
        match self {
            Action::Apply(file) | Action::Refused(Refused { apply: file, .. }) => {
                Some(if file.contains('/') { file.clone() } else { format!("{folder}/{file}") })
            }
            _ => None,
        }
    }
}

impl Lesson {
    /// The namespace's template: what the lesson says, else `lesson-ID`.
    #[must_use]
    pub fn namespace(&self) -> String {
        self.namespace.clone().unwrap_or_else(|| format!("lesson-{}", self.id))
    }

    /// The place of a step.
    #[must_use]
    pub fn step(&self, id: &str) -> Option<(usize, &Step)> {
        self.steps.iter().enumerate().find(|(_, step)| step.id == id)
    }
}
