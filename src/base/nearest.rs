//! The nearest of several names, for "did you mean".

/// The candidate whose name is nearest to `name`, if one is near: equal but for letter case, or at most a third of its letters
/// put in, taken out, changed or swapped. The name itself is no candidate.
#[must_use]
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let wanted: Vec<char> = lower(name);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name && candidate.len().abs_diff(name.len()) <= MAX_LENGTH)
        .filter_map(|candidate| {
            let found = lower(candidate);
            if found.len() > MAX_LENGTH || wanted.len() > MAX_LENGTH {
                return None;
            }
            let distance = of_letters(&wanted, &found);
            (distance * 3 <= wanted.len().max(found.len())).then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Longer names are not compared.
const MAX_LENGTH: usize = 256;

fn lower(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// How many letters must be put in, taken out or changed to make one of the other (Levenshtein).
#[must_use]
pub fn levenshtein(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// As [`levenshtein`], where two neighbours that changed places count as one.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    of_letters(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
}

fn of_letters(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{distance, levenshtein, nearest};

    #[test]
    fn distances() {
        assert_eq!((levenshtein("pods", "pods"), levenshtein("pods", "podz"), levenshtein("", "abc")), (0, 1, 3));
        assert_eq!((levenshtein("modle", "model"), distance("modle", "model")), (2, 1), "neighbours that changed places");
    }

    #[test]
    fn what_is_near_is_found_and_what_is_far_is_not() {
        for (name, candidates, expected) in [
            ("modle", &["uuid", "model", "index"][..], Some("model")),
            ("Model", &["model"], Some("model")),
            ("gpu.exmaple.com", &["gpu.example.com", "nic.example.com"], Some("gpu.example.com")),
            ("model", &["model"], None),
            ("nvlink", &["model", "uuid"], None),
            ("", &["a"], None),
        ] {
            assert_eq!(nearest(name, candidates.iter().copied()), expected, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(10_000), ["y"]), None);
    }
}
