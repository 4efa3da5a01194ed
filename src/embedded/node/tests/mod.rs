//! The agent as a whole.

mod lab;
mod lessons;
mod many;
mod plugins;
mod pods;
