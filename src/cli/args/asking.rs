//! `cel` and `lint`: questions that need no change of anything.

use std::path::PathBuf;

use clap::Args;

use super::Format;

/// Where the devices come from.
#[derive(Args, Clone, Debug, Default)]
pub struct DeviceSource {
    /// Ask the devices of this file or folder (ResourceSlices, Lists; `-` for standard input; can be repeated) [default: the lab's]
    #[arg(long, value_name = "FILE")]
    pub slices: Vec<PathBuf>,
    /// Ask the devices of the cluster of this kubeconfig context
    #[arg(long, value_name = "NAME", conflicts_with = "slices")]
    pub context: Option<String>,
}

/// `cel`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  dralab cel 'device.attributes[\"gpu.example.com\"].model == \"LATEST-GPU-MODEL\"'\n  dralab cel --slices slices.yaml -f claim.yaml\n\nExit codes: 0 some device matches; 3 the API server refuses it, no device matches, or a device ends the scheduling attempt"
)]
pub struct CelArgs {
    /// The expression
    #[arg(value_name = "EXPR", required_unless_present = "files", conflicts_with = "files")]
    pub expression: Option<String>,
    /// A file with an expression, or with claims, templates and classes whose selectors are asked (`-` for standard input)
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where the devices come from
    #[command(flatten)]
    pub devices: DeviceSource,
    /// Ask only devices that this class selects
    #[arg(long, value_name = "NAME")]
    pub class: Option<String>,
    /// The Kubernetes version whose libraries and feature gates count: 1.34 to 1.37
    #[arg(long, value_name = "VERSION", default_value = "1.37", value_parser = minor)]
    pub kubernetes: u32,
    /// As an expression that is stored already: gates and limits for new objects do not count
    #[arg(long)]
    pub stored: bool,
    /// How the answer is written
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub output: Format,
}

/// The minor version of `1.34` to `1.37`, with or without `v` and a patch level.
pub(super) fn minor(text: &str) -> Result<u32, String> {
    use crate::model::features::{NEWEST, OLDEST};
    let known = || format!("known are 1.{OLDEST} to 1.{NEWEST}");
    let mut parts = text.trim_start_matches('v').split('.');
    let (Some("1"), Some(minor)) = (parts.next(), parts.next().and_then(|minor| minor.parse::<u32>().ok())) else {
        return Err(known());
    };
    if (OLDEST..=NEWEST).contains(&minor) { Ok(minor) } else { Err(known()) }
}

/// `lint`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  dralab lint -f claim.yaml -f pod.yaml\n  dralab lint -f manifests/ --kubernetes 1.34 --slices slices.yaml\n\nExit codes: 0 nothing, or warnings only; 3 there are errors"
)]
pub struct LintArgs {
    /// File, folder (recursively), or `-` for standard input (can be repeated)
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where devices and classes come from [default: the lab's if it runs, else the files' own]
    #[command(flatten)]
    pub devices: DeviceSource,
    /// The Kubernetes version whose feature gates count: 1.34 to 1.37
    #[arg(long, value_name = "VERSION", default_value = "1.37", value_parser = minor)]
    pub kubernetes: u32,
    /// How the answer is written
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub output: Format,
}
