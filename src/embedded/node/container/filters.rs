//! Commands that read text and print text.

use super::shell::Io;
use super::world::World;

/// Runs a filter; `None` when there is none of that name.
pub(super) fn run(world: &World, name: &str, arguments: &[String], io: &Io) -> Option<i32> {
    let (flags, words): (Vec<&str>, Vec<&str>) = arguments.iter().map(String::as_str).partition(|a| a.starts_with('-') && a.len() > 1);
    match name {
        "cat" | "tac" | "sort" | "uniq" | "wc" | "head" | "tail" | "grep" | "egrep" | "fgrep" | "tee" | "cut" | "tr" | "seq"
        | "basename" | "dirname" | "ls" => {}
        _ => return None,
    }
    let has = |flag: char| flags.iter().any(|f| !f.starts_with("--") && f.contains(flag));
    let mut filter = Filter { world, io, name, status: 0 };
    match name {
        "seq" => filter.seq(&words),
        "basename" => filter.print(&format!("{}\n", words.first()?.trim_end_matches('/').rsplit('/').next()?)),
        "dirname" => {
            filter.print(&format!("{}\n", words.first()?.rsplit_once('/').map_or(".", |(d, _)| if d.is_empty() { "/" } else { d })));
        }
        "ls" => filter.ls(&words),
        "cat" | "tac" | "sort" | "uniq" => {
            let text = filter.input(&words);
            let mut lines: Vec<&str> = text.lines().collect();
            match name {
                "tac" => lines.reverse(),
                "sort" => {
                    if has('n') {
                        lines.sort_by_key(|l| l.split_whitespace().next().and_then(|n| n.parse::<i64>().ok()).unwrap_or(0));
                    } else {
                        lines.sort_unstable();
                    }
                    if has('r') {
                        lines.reverse();
                    }
                    if has('u') {
                        lines.dedup();
                    }
                }
                "uniq" => lines.dedup(),
                _ => {}
            }
            filter.lines(&lines);
        }
        "wc" => {
            let text = filter.input(&words);
            let counts = [("l", text.lines().count()), ("w", text.split_whitespace().count()), ("c", text.len())];
            let shown: Vec<String> = counts
                .iter()
                .filter(|(flag, _)| flags.is_empty() || flags.iter().any(|f| f.contains(flag)))
                .map(|(_, n)| n.to_string())
                .collect();
            filter.print(&format!("{}\n", shown.join(" ")));
        }
        "head" | "tail" => {
            let (count, files) = count_of(arguments);
            let text = filter.input(&files);
            let lines: Vec<&str> = text.lines().collect();
            let count = count.min(lines.len());
            let lines = if name == "head" { &lines[..count] } else { &lines[lines.len() - count..] };
            filter.lines(lines);
        }
        "grep" | "egrep" | "fgrep" => filter.grep(&words, has('i'), has('v'), has('c'), has('q'), has('o'), name == "fgrep" || has('F')),
        "tee" => {
            let text = filter.input(&[]);
            for file in &words {
                let sink = world.open(file, has('a'));
                world.print(&sink, &text);
            }
            filter.print(&text);
        }
        "cut" => filter.cut(arguments),
        "tr" => {
            let text = filter.input(&[]);
            let replaced = match words.as_slice() {
                [set] if has('d') => text.chars().filter(|c| !set_of(set).contains(c)).collect::<String>(),
                [from, to] => {
                    let (from, to) = (set_of(from), set_of(to));
                    text.chars()
                        .map(|c| from.iter().position(|f| *f == c).and_then(|at| to.get(at).or(to.last()).copied()).unwrap_or(c))
                        .collect()
                }
                _ => text,
            };
            filter.print(&replaced);
        }
        _ => return None,
    }
    Some(filter.status)
}

struct Filter<'a> {
    world: &'a World,
    io: &'a Io,
    name: &'a str,
    status: i32,
}

impl Filter<'_> {
    fn print(&self, text: &str) {
        self.world.print(&self.io.out, text);
    }

    fn lines(&self, lines: &[&str]) {
        let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
        self.print(&text);
    }

    /// The text of the files, or of the input.
    fn input(&mut self, files: &[&str]) -> String {
        if files.is_empty() || files == ["-"] {
            return self.io.stdin.as_deref().cloned().unwrap_or_default();
        }
        let mut all = String::new();
        for file in files {
            match self.world.read(file) {
                Some(text) => all.push_str(&text),
                None => {
                    self.world.print(&self.io.err, &format!("{}: {file}: No such file or directory\n", self.name));
                    self.status = 1;
                }
            }
        }
        all
    }

    #[expect(clippy::fn_params_excessive_bools, reason = "one per flag of grep")]
    #[expect(clippy::too_many_arguments, reason = "one per flag of grep")]
    fn grep(&mut self, words: &[&str], ignore_case: bool, invert: bool, count: bool, quiet: bool, only: bool, fixed: bool) {
        let Some((pattern, files)) = words.split_first() else {
            self.status = 2;
            return;
        };
        let pattern = if fixed { regex::escape(pattern) } else { pattern.replace("\\|", "|") };
        let Ok(pattern) = regex::RegexBuilder::new(&pattern).case_insensitive(ignore_case).build() else {
            self.status = 2;
            return;
        };
        let text = self.input(files);
        let lines: Vec<&str> = text.lines().filter(|l| pattern.is_match(l) != invert).collect();
        self.status = i32::from(lines.is_empty());
        if quiet {
            return;
        }
        if count {
            self.print(&format!("{}\n", lines.len()));
        } else if only && !invert {
            let found: Vec<&str> = lines.iter().flat_map(|l| pattern.find_iter(l)).map(|m| m.as_str()).collect();
            self.lines(&found);
        } else {
            self.lines(&lines);
        }
    }

    fn seq(&self, words: &[&str]) {
        let numbers: Vec<i64> = words.iter().filter_map(|w| w.parse().ok()).collect();
        let (first, step, last) = match numbers.as_slice() {
            [last] => (1, 1, *last),
            [first, last] => (*first, 1, *last),
            [first, step, last] if *step > 0 => (*first, *step, *last),
            _ => return,
        };
        // Bounded, as everything a container prints.
        let mut text = String::new();
        let mut number = first;
        for _ in 0..10_000 {
            if number > last {
                break;
            }
            text.push_str(&format!("{number}\n"));
            number = number.saturating_add(step);
        }
        self.print(&text);
    }

    fn ls(&mut self, words: &[&str]) {
        let names = self.world.names();
        if words.is_empty() {
            return self.print(&names.iter().map(|n| format!("{n}\n")).collect::<String>());
        }
        for word in words {
            let found: Vec<&str> = names
                .iter()
                .filter_map(|n| if n == word { Some(n.as_str()) } else { n.strip_prefix(&format!("{}/", word.trim_end_matches('/'))) })
                .collect();
            if found.is_empty() {
                self.world.print(&self.io.err, &format!("ls: cannot access '{word}': No such file or directory\n"));
                self.status = 2;
            }
            self.lines(&found);
        }
    }

    fn cut(&mut self, arguments: &[String]) {
        let value = |flag: &str| {
            arguments.iter().enumerate().find_map(|(i, a)| match a.strip_prefix(flag) {
                Some("") => arguments.get(i + 1).cloned(),
                Some(rest) => Some(rest.to_owned()),
                None => None,
            })
        };
        let delimiter = value("-d").unwrap_or_else(|| "\t".to_owned());
        let field = value("-f").unwrap_or_default();
        let text = self.input(&[]);
        let (first, last) = match field.split_once('-') {
            Some((a, b)) => (a.parse().unwrap_or(1usize), b.parse().unwrap_or(usize::MAX)),
            None => field.parse().map_or((1, usize::MAX), |n| (n, n)),
        };
        let mut out = String::new();
        for line in text.lines() {
            let parts: Vec<&str> = line.split(delimiter.as_str()).collect();
            let from = first.saturating_sub(1).min(parts.len());
            let to = last.min(parts.len()).max(from);
            out.push_str(&format!("{}\n", if parts.len() == 1 { line.to_owned() } else { parts[from..to].join(&delimiter) }));
        }
        self.print(&out);
    }
}

/// `-n N`, `-nN` or `-N`, and the files.
fn count_of(arguments: &[String]) -> (usize, Vec<&str>) {
    let mut count = 10;
    let mut files = Vec::new();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        if argument == "-n" || argument == "-c" {
            count = rest.next().and_then(|n| n.parse().ok()).unwrap_or(count);
        } else if let Some(number) = argument.strip_prefix("-n").or_else(|| argument.strip_prefix('-')) {
            count = number.parse().unwrap_or(count);
        } else {
            files.push(argument);
        }
    }
    (count, files)
}

/// The characters of a set such as `a-z` or `\n`.
fn set_of(text: &str) -> Vec<char> {
    let text = text.replace("\\n", "\n").replace("\\t", "\t").replace("[:lower:]", "a-z").replace("[:upper:]", "A-Z");
    let chars: Vec<char> = text.chars().collect();
    let mut set = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        match (chars.get(at + 1), chars.get(at + 2)) {
            (Some('-'), Some(to)) => {
                set.extend(chars[at]..=*to);
                at += 3;
            }
            _ => {
                set.push(chars[at]);
                at += 1;
            }
        }
    }
    set
}
