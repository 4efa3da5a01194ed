//! Bring a lab up and down: the backends and the lab's record on disk.
