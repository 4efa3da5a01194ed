//! The scenes in their order, and how they are played.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use crate::world::{Stage, World};
use crate::{chaos, context, failures, lab, outsiders, recordings};

/// One scene.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    /// The cluster that it plays on; made when the first scene wants it, removed after the last one.
    pub(crate) stage: Stage,
    pub(crate) play: fn(&mut World),
}

/// All scenes. Those of one stage follow each other.
pub(crate) fn all() -> Vec<Scene> {
    [failures::SCENES, lab::SCENES, chaos::SCENES, outsiders::SCENES, recordings::SCENES, lab::LAST_SCENES, context::SCENES]
        .into_iter()
        .flatten()
        .map(|&(name, stage, play)| Scene { name, stage, play })
        .collect()
}

/// What a module lists.
pub(crate) type Listed = &'static [(&'static str, Stage, fn(&mut World))];

/// Plays the scenes whose names contain one of the words; all without words.
pub(crate) fn play(words: &[String]) -> ExitCode {
    let mut world = World::new();
    let wanted = |scene: &Scene| words.is_empty() || words.iter().any(|word| scene.name.contains(word.as_str()));
    let scenes: Vec<Scene> = all().into_iter().filter(wanted).collect();
    let mut failed = Vec::new();
    let mut played = 0;
    for scene in &scenes {
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| {
            world.enter(scene.stage);
            (scene.play)(&mut world);
        }));
        played += 1;
        let seconds = started.elapsed().as_secs_f64();
        match result {
            Ok(()) => println!("scene {} ... ok ({seconds:.1} s){}", scene.name, world.take_notes()),
            Err(_) => {
                println!("scene {} ... FAILED ({seconds:.1} s){}", scene.name, world.take_notes());
                world.collect(scene.name);
                failed.push(scene.name);
            }
        }
    }
    if catch_unwind(AssertUnwindSafe(|| world.leave())).is_err() {
        failed.push("cleaning up");
    }
    println!(
        "\nscenes: {played} played, {} failed{}",
        failed.len(),
        if failed.is_empty() { String::new() } else { format!(": {}", failed.join(", ")) }
    );
    if failed.is_empty() && played > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
