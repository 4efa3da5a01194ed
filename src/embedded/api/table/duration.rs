//! Durations as kubectl shows them (k8s.io/apimachinery `duration.HumanDuration`).

use jiff::Timestamp;
use serde_json::Value;

/// A duration of whole seconds in at most two units: `45s`, `3m5s`, `17m`, `2h5m`, `3d4h`, `412d`, `3y10d`.
pub(super) fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let years = days / 365;
    let two = |big: i64, unit: &str, small: i64, smaller: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{smaller}") }
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

/// The time in `value` (RFC 3339), if there is one.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// How long ago `at` was; `<unknown>` without a time.
pub(super) fn since(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "<unknown>".to_owned(), |at| human(now.duration_since(at).as_secs()))
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn as_kubectl_shows_them() {
        let (m, h, d, y) = (60, 3600, 86400, 365 * 86400);
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (321, "5m21s"),
            (10 * m + 59, "10m"),
            (179 * m, "179m"),
            (3 * h, "3h"),
            (7 * h + 59 * m, "7h59m"),
            (8 * h + 59 * m, "8h"),
            (47 * h, "47h"),
            (48 * h, "2d"),
            (2 * d + 3 * h, "2d3h"),
            (8 * d + 3 * h, "8d"),
            (729 * d, "729d"),
            (2 * y, "2y"),
            (3 * y + 10 * d, "3y10d"),
            (9 * y + 10 * d, "9y"),
        ];
        for (seconds, shown) in cases {
            assert_eq!(human(seconds), shown, "{seconds}");
        }
    }
}
