//! The agent as a whole.

mod lab;
mod lessons;
mod plugins;
mod pods;
