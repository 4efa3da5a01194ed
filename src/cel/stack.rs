//! Room for deep expressions. Nesting is limited, but 250 levels with several calls each are more than some threads have.

use std::thread;

/// More than the deepest expression needs, unoptimized.
const ROOM: usize = 64 << 20;

/// Runs `work`, on a thread of its own with a large stack if it goes deep. `None` if there is no such thread to be had.
pub(super) fn with_room<T: Send>(deep: bool, work: impl FnOnce() -> T + Send) -> Option<T> {
    if !deep {
        return Some(work());
    }
    thread::scope(|scope| thread::Builder::new().stack_size(ROOM).spawn_scoped(scope, work).ok()?.join().ok())
}

/// Said when there is no room.
pub(super) const NO_ROOM: &str = "the expression is nested too deeply for the memory at hand";
