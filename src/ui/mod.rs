//! The terminal: text catalogue, streams, tables, steps, rendering of failures. Computes nothing.

pub mod ask;
pub mod doctor;
pub mod explain;
pub mod failure;
pub mod lesson;
pub mod manifest;
pub mod markdown;
pub mod reasons;
pub mod selector;
pub mod steps;
pub mod table;
pub mod terminal;
pub mod text;
