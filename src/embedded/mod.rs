//! A Kubernetes API, scheduler, controllers and node agents in one process.
//!
//! [`store`] keeps JSON objects and their history; [`api`] is the verbs with admission, patches and watch, in
//! process; [`http`] serves the same verbs over HTTP; [`scheduler`], [`controllers`] and [`node`] are its clients.

pub mod api;
pub mod assemble;
pub mod controllers;
pub mod events;
pub mod http;
pub mod logs;
pub mod node;
pub mod scheduler;
pub mod store;
