//! Semantic versions as device attributes carry them.
