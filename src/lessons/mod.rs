//! Lessons, checks, verify, the journal and progress.
