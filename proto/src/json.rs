//! How read-side messages look as JSON: moments are RFC 3339 in UTC with milliseconds.

use serde::Serializer;

/// Writes a moment of cluster time, milliseconds since 1970, as RFC 3339.
///
/// # Errors
/// When the serializer refuses the text.
pub fn moment<S: Serializer>(ms: &u64, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&rfc3339(*ms))
}

/// Writes an optional moment; `null` if there is none.
///
/// # Errors
/// When the serializer refuses the text.
pub fn maybe_moment<S: Serializer>(ms: &Option<u64>, out: S) -> Result<S::Ok, S::Error> {
    match ms {
        Some(ms) => moment(ms, out),
        None => out.serialize_none(),
    }
}

/// Returns `2026-11-29T17:08:47.120Z` for milliseconds since 1970; the civil date by Howard Hinnant's algorithm
/// (*chrono-compatible low-level date algorithms*, `civil_from_days`).
#[must_use]
pub fn rfc3339(ms: u64) -> String {
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let z = days + 719_468;
    let era = z / 146_097;
    let doe = z % 146_097;
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    let (secs, milli) = (of_day / 1000, of_day % 1000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{milli:03}Z",
        secs / 3600,
        secs / 60 % 60,
        secs % 60
    )
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn moments_are_rfc_3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_827_696_789), "2000-02-29T12:34:56.789Z");
        assert_eq!(rfc3339(1_795_972_127_001), "2026-11-29T17:08:47.001Z");
    }
}
