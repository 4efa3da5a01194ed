//! Building an image in the engine (`docker build`), with its classic builder: every engine and podman has that one.

use std::collections::HashMap;

use bollard::errors::Error;
use bollard::query_parameters::BuildImageOptionsBuilder;
use futures::StreamExt as _;

use crate::cluster::engine::{ByteStream, Engine, EngineError};

/// What is to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// The name of the Dockerfile in the context.
    pub dockerfile: String,
    /// The name that the image gets.
    pub name: String,
    /// `linux/arm64`.
    pub platform: String,
    /// Labels of the image.
    pub labels: HashMap<String, String>,
}

impl Engine {
    /// Builds an image from a context (an archive of files). `said` hears the builder's lines. Containers of the build are removed.
    ///
    /// # Errors
    /// What the builder said.
    pub async fn build(&self, build: &Build, context: ByteStream, said: &(dyn Fn(&str) + Sync)) -> Result<(), EngineError> {
        let failed = |message: String| EngineError::Build { image: build.name.clone(), message };
        let options = BuildImageOptionsBuilder::default()
            .dockerfile(&build.dockerfile)
            .t(&build.name)
            .platform(&build.platform)
            .labels(&build.labels)
            .rm(true)
            .forcerm(true)
            .build();
        let mut answer = Box::pin(self.docker.build_image(options, None, Some(bollard::body_try_stream(context))));
        while let Some(event) = answer.next().await {
            match event {
                Ok(event) => {
                    for line in event.stream.iter().flat_map(|text| text.lines()).map(str::trim_end).filter(|line| !line.is_empty()) {
                        said(line);
                    }
                }
                Err(Error::DockerResponseServerError { message, .. } | Error::DockerStreamError { error: message }) => {
                    return Err(failed(message.trim().to_owned()));
                }
                Err(error) => return Err(EngineError::request(format!("build the image {}", build.name))(error)),
            }
        }
        Ok(())
    }
}
