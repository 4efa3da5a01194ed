//! The one integration-test binary.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests too")]

#[path = "../support/mod.rs"]
mod support;

mod api_http;
mod api_recorded;
mod api_server;
mod api_support;
mod case_files;
mod cases_alloc;
mod cases_cel;
mod cel_command;
mod cel_conditions;
mod cel_hostile;
mod cli;
mod doctor;
mod driver;
mod explain_cases;
mod explain_cli;
mod explain_pain;
mod kind;
mod layers;
mod lessons;
mod lint_command;
mod protos;
