//! States of a claim and pod as kubectl words them, and the transitions between them.
