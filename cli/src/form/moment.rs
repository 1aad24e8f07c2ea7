//! Moments: local time for people, RFC 3339 in JSON.

use jiff::Timestamp;
use jiff::tz::TimeZone;

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
}
