//! What every layer shares: failures as data, the clock, near names. No domain words here.

pub mod clock;
pub mod failure;
pub mod nearest;
pub mod shell;
