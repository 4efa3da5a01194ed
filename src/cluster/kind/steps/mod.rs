//! The steps of `up`, in their order.

pub mod config;
pub mod create;
pub mod driver;
pub mod install;
pub mod lesson;
pub mod node_image;
pub mod preflight;
pub mod ready;

pub use config::Configuration;
pub use create::CreateCluster;
pub use driver::DriverImage;
pub use install::Install;
pub use lesson::LessonImage;
pub use node_image::NodeImage;
pub use preflight::Preflight;
pub use ready::Ready;
