//! `test` and `[`.

use super::world::World;

/// The status of a condition: 0 holds, 1 does not, 2 is not understood.
pub(super) fn test(world: &World, arguments: &[String]) -> i32 {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match holds(world, &words, 0) {
        Some(true) => 0,
        Some(false) => 1,
        None => 2,
    }
}

fn holds(world: &World, words: &[&str], depth: u32) -> Option<bool> {
    if depth > 16 {
        return None;
    }
    if let Some(at) = words.iter().position(|w| *w == "-o").filter(|at| *at > 0 && words.len() > 3) {
        return Some(holds(world, &words[..at], depth + 1)? || holds(world, &words[at + 1..], depth + 1)?);
    }
    if let Some(at) = words.iter().position(|w| *w == "-a").filter(|at| *at > 0 && words.len() > 3) {
        return Some(holds(world, &words[..at], depth + 1)? && holds(world, &words[at + 1..], depth + 1)?);
    }
    let number = |text: &str| text.trim().parse::<i64>().ok();
    match words {
        [] => Some(false),
        [one] => Some(!one.is_empty()),
        ["!", rest @ ..] => holds(world, rest, depth + 1).map(|h| !h),
        ["-z", text] => Some(text.is_empty()),
        ["-n", text] => Some(!text.is_empty()),
        ["-e" | "-f" | "-r" | "-w" | "-s", file] => Some(world.read(file).is_some()),
        ["-d", directory] => Some(*directory == "/" || world.names().iter().any(|n| n.starts_with(&format!("{directory}/")))),
        ["-x" | "-c" | "-b" | "-L" | "-t", _] => Some(false),
        [a, "=" | "==", b] => Some(a == b),
        [a, "!=", b] => Some(a != b),
        [a, "-eq", b] => Some(number(a)? == number(b)?),
        [a, "-ne", b] => Some(number(a)? != number(b)?),
        [a, "-lt", b] => Some(number(a)? < number(b)?),
        [a, "-le", b] => Some(number(a)? <= number(b)?),
        [a, "-gt", b] => Some(number(a)? > number(b)?),
        [a, "-ge", b] => Some(number(a)? >= number(b)?),
        _ => None,
    }
}
