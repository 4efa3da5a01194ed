//! The labels by which dralab knows its own objects.

/// Names the lab on everything that was made for it on a cluster of several machines, and on namespaces of lessons.
pub const LAB: &str = "dralab.dev/lab";

/// Names the learner on a namespace of theirs, on a cluster that several share.
pub const LEARNER: &str = "dralab.dev/learner";

/// On a lesson's namespace: the lesson's id.
pub const LESSON: &str = "dralab.dev/lesson";
