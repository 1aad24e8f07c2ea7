//! Moments: local time for people, RFC 3339 in JSON.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use super::duration;

/// How moments are shown.
#[derive(Debug, Clone)]
pub struct Zone(TimeZone);

impl Zone {
    /// The reader's own time.
    pub fn local() -> Self {
        Self(TimeZone::system())
    }

    /// UTC.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Returns hours and minutes; with the date if it is not the day of `now`.
    pub fn short(&self, ms: u64, now: u64) -> String {
        match (self.format(ms, "%Y-%m-%d"), self.format(now, "%Y-%m-%d")) {
            (day, today) if day == today => self.format(ms, "%H:%M"),
            _ => self.format(ms, "%-d %b %H:%M"),
        }
    }

    /// Returns hours, minutes and seconds.
    pub fn clock(&self, ms: u64) -> String {
        self.format(ms, "%H:%M:%S")
    }

    /// Returns date, time and offset.
    pub fn full(&self, ms: u64) -> String {
        self.format(ms, "%Y-%m-%d %H:%M:%S %:z")
    }

    /// Returns the day and the time: `Sun 29 Nov 14:02`.
    pub fn day(&self, ms: u64) -> String {
        self.format(ms, "%a %-d %b %H:%M")
    }

    /// Reads a moment still to come: a length of time from `now`, the next `17:30`, or a date with it.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn later(&self, text: &str, now: u64) -> Result<u64, String> {
        let at = self.at(text, now)?;
        if at < now { Err(format!("`{}` is over: {}", text.trim(), self.full(at))) } else { Ok(at) }
    }

    /// Reads a moment, past or to come: a length of time from `now`, the next `17:30`, or a date with it.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn at(&self, text: &str, now: u64) -> Result<u64, String> {
        let text = text.trim();
        match duration::parse(text.strip_prefix('+').unwrap_or(text)) {
            Ok(span) => Ok(now.saturating_add(span.as_millis())),
            Err(_) => self.moment(text, now).ok_or_else(|| {
                format!("`{text}` is not a moment: write `2h` (from now), `17:30`, or `2027-01-31 17:30`")
            }),
        }
    }

    /// Reads a moment that is past: a length of time before `now`, or a date, with its time or from its midnight.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn earlier(&self, text: &str, now: u64) -> Result<u64, String> {
        let text = text.trim();
        let at = match duration::parse(text) {
            Ok(span) => now.saturating_sub(span.as_millis()),
            Err(_) => self.date(text).ok_or_else(|| {
                format!(
                    "`{text}` is not a moment: write `7d` (before now), `2027-01-31`, or `2027-01-31 17:30`"
                )
            })?,
        };
        if at > now { Err(format!("`{text}` is still to come")) } else { Ok(at) }
    }

    /// Reads a time of the day, which is the next one, or a date with it.
    fn moment(&self, text: &str, now: u64) -> Option<u64> {
        // A date is read as a time of the day too, its date dropped: so it is tried first.
        if let Some(at) = self.date(text) {
            return Some(at);
        }
        let time = text.parse::<Time>().ok()?;
        let now = Timestamp::from_millisecond(i64::try_from(now).ok()?).ok()?;
        let today = now.to_zoned_datetime(self.0.clone()).date();
        let at = |date: jiff::civil::Date| date.to_datetime(time).to_zoned_datetime(self.0.clone()).ok();
        let next = at(today)?;
        let next = if next.timestamp() > now { next } else { at(today.checked_add(1.day()).ok()?)? };
        u64::try_from(next.timestamp().as_millisecond()).ok()
    }

    /// Reads a date, with a time or from its midnight, in the reader's own time unless it names its offset.
    fn date(&self, text: &str) -> Option<u64> {
        let at = match text.parse::<Timestamp>() {
            Ok(at) => at,
            Err(_) => text.parse::<DateTime>().ok()?.to_zoned_datetime(self.0.clone()).ok()?.timestamp(),
        };
        u64::try_from(at.as_millisecond()).ok()
    }

    fn format(&self, ms: u64, how: &str) -> String {
        let moment = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        moment.map_or_else(|| "?".into(), |at| at.to_zoned_datetime(self.0.clone()).strftime(how).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Zone;

    #[test]
    fn moments_of_today_need_no_date() {
        let zone = Zone::utc();
        let now = 1_795_972_127_001;
        assert_eq!(zone.short(now, now), "17:08");
        assert_eq!(zone.short(now - 86_400_000, now), "28 Nov 17:08");
        assert_eq!(zone.clock(now), "17:08:47");
        assert_eq!(zone.full(now), "2026-11-29 17:08:47 +00:00");
        assert_eq!(zone.day(now), "Sun 29 Nov 17:08");
        assert_eq!(zone.clock(u64::MAX), "?");
    }

    #[test]
    fn moments_are_typed_as_people_say_them() {
        let zone = Zone::utc();
        let now = 1_795_972_127_001;
        let later = |text: &str| zone.later(text, now).map(|at| zone.full(at));
        assert_eq!(later("2h").as_deref(), Ok("2026-11-29 19:08:47 +00:00"));
        assert_eq!(later("+30m").as_deref(), Ok("2026-11-29 17:38:47 +00:00"));
        assert_eq!(later("17:30").as_deref(), Ok("2026-11-29 17:30:00 +00:00"));
        assert_eq!(later("08:00").as_deref(), Ok("2026-11-30 08:00:00 +00:00"));
        assert_eq!(later("2027-01-31 17:30").as_deref(), Ok("2027-01-31 17:30:00 +00:00"));
        assert_eq!(later("2027-01-31T17:30:00+02:00").as_deref(), Ok("2027-01-31 15:30:00 +00:00"));
        for (wrong, said) in [
            ("soon", "not a moment"),
            ("-1h", "not a moment"),
            ("", "not a moment"),
            ("2020-01-01 00:00", "is over"),
        ] {
            assert!(later(wrong).expect_err(wrong).contains(said), "{wrong}");
        }
        let earlier = |text: &str| zone.earlier(text, now).map(|at| zone.full(at));
        assert_eq!(earlier("7d").as_deref(), Ok("2026-11-22 17:08:47 +00:00"));
        assert_eq!(earlier("2026-11-01 00:00").as_deref(), Ok("2026-11-01 00:00:00 +00:00"));
        assert_eq!(earlier("2026-11-01").as_deref(), Ok("2026-11-01 00:00:00 +00:00"));
        assert_eq!(earlier("2026-11-01T10:00:00Z").as_deref(), Ok("2026-11-01 10:00:00 +00:00"));
        for (wrong, said) in [("yesterday", "not a moment"), ("2027-01-01 00:00", "still to come")] {
            assert!(earlier(wrong).expect_err(wrong).contains(said), "{wrong}");
        }
    }
}
