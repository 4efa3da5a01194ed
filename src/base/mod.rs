//! What every layer shares: failures as data and the clock. No domain words here.

pub mod clock;
pub mod failure;
pub mod shell;
