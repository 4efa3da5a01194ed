//! The scheduler loop: feeds the pure decisions of `scheduling` and carries out its plan of writes.
