//! The only code that knows how an API server is reached: connection, proxies, kinds, apply, tables, waits.

pub mod apply;
pub mod connect;
pub mod error;
pub mod kinds;
pub mod labels;
pub mod manifests;
pub mod raw;
pub mod wait;

pub use error::ClientError;
pub use kinds::{Kind, Kinds};
