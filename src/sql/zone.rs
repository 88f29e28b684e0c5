//! The session's time zone, and texts read in it. Imports `error` and `table`.

use chrono::{DateTime, FixedOffset, NaiveDateTime, Offset, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

use crate::error::{Error, Result};
use crate::table::timestamp_millis;

/// A time zone by its name in the zone database or its distance from UTC.
#[derive(Clone, Copy, Debug)]
enum Zone {
    Named(Tz),
    Fixed(FixedOffset),
}

impl Zone {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(named) = text.parse::<Tz>() {
            return Some(Self::Named(named));
        }
        let offset = text.strip_prefix("GMT").or_else(|| text.strip_prefix("UTC")).unwrap_or(text);
        let (sign, digits) = match offset.split_at_checked(1)? {
            ("+", digits) => (1, digits),
            ("-", digits) => (-1, digits),
            _ => return None,
        };
        let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
        let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok()?);
        if hours > 18 || minutes > 59 {
            return None;
        }
        FixedOffset::east_opt(sign * (i32::from(hours) * 3600 + i32::from(minutes) * 60)).map(Self::Fixed)
    }
}

/// The form in which the engine takes the zone `text`: a name of the zone database or `+08:00`; `UTC` for UTC.
///
/// # Errors
/// When there is no such zone.
pub(crate) fn canonical(text: &str) -> Result<String> {
    let zone = Zone::parse(text.trim()).ok_or_else(|| {
        Error::invalid(format!(
            "'{text}' is not a time zone; write a name such as Europe/Berlin or a distance such as +08:00"
        ))
    })?;
    Ok(match zone {
        Zone::Named(Tz::UTC | Tz::Etc__UTC | Tz::Zulu | Tz::UCT | Tz::Etc__Zulu | Tz::Etc__UCT) => "UTC".to_owned(),
        Zone::Named(named) => named.name().to_owned(),
        Zone::Fixed(offset) if offset.local_minus_utc() == 0 => "UTC".to_owned(),
        Zone::Fixed(offset) => offset.to_string(),
    })
}

/// A date and time, or milliseconds as digits, in milliseconds since 1970; read in `zone` unless the text names its own
/// ([`timestamp_millis`]).
///
/// # Errors
/// When the text is none of these.
pub(crate) fn millis(text: &str, zone: &str) -> Result<i64> {
    match Zone::parse(zone) {
        Some(Zone::Named(named)) => timestamp_millis(text, &named),
        Some(Zone::Fixed(offset)) => timestamp_millis(text, &offset),
        None => Err(Error::invalid(format!("'{zone}' is not a time zone"))),
    }
}

/// What a wall clock in `zone` shows at `millis` since 1970, as milliseconds since 1970 of that clock.
///
/// # Errors
/// When there is no such zone.
pub(crate) fn wall_clock(millis: i64, zone: &str) -> Result<i64> {
    let offset = match Zone::parse(zone) {
        Some(Zone::Named(Tz::UTC)) => 0,
        Some(Zone::Named(named)) => match DateTime::from_timestamp_millis(millis) {
            Some(instant) => named.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc(),
            // Beyond the calendar there are no clock changes.
            None => 0,
        },
        Some(Zone::Fixed(offset)) => offset.local_minus_utc(),
        None => return Err(Error::invalid(format!("'{zone}' is not a time zone"))),
    };
    Ok(millis.saturating_add(i64::from(offset) * 1000))
}

/// What a wall clock in `zone` shows at `instant`.
///
/// # Errors
/// When there is no such zone.
pub(crate) fn local_time(instant: DateTime<Utc>, zone: &str) -> Result<NaiveDateTime> {
    let shown = wall_clock(instant.timestamp_millis(), zone)?;
    let below = TimeDelta::nanoseconds(i64::from(instant.timestamp_subsec_nanos() % 1_000_000));
    Ok(DateTime::from_timestamp_millis(shown).unwrap_or(instant).naive_utc() + below)
}

/// The instant at which a wall clock in `zone` shows `millis`, the inverse of [`wall_clock`].
///
/// # Errors
/// When there is no such zone.
pub(crate) fn instant_of(millis: i64, zone: &str) -> Result<i64> {
    match DateTime::from_timestamp_millis(millis) {
        Some(shown) => self::millis(&shown.format("%Y-%m-%d %H:%M:%S%.3f").to_string(), zone),
        None => Ok(millis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millis_when_text_has_no_zone_then_the_sessions_counts() {
        assert_eq!(millis("1970-01-01", "UTC").unwrap(), 0);
        assert_eq!(millis("1970-01-01 08:00", "Asia/Shanghai").unwrap(), 0);
        assert_eq!(millis("1970-01-01T08:00:00.0019", "+08:00").unwrap(), 1);
        assert_eq!(millis("1970-01-01 00:00:00Z", "Asia/Shanghai").unwrap(), 0);
        assert!(millis("yesterday", "UTC").is_err());
    }

    #[test]
    fn wall_clock_when_zone_has_an_offset_then_it_is_added() {
        assert_eq!(wall_clock(5, "UTC").unwrap(), 5);
        assert_eq!(wall_clock(0, "Asia/Shanghai").unwrap(), 8 * 3_600_000);
        assert_eq!(wall_clock(0, "-03:30").unwrap(), -(3 * 60 + 30) * 60_000);
        assert_eq!(wall_clock(i64::MAX, "Europe/Berlin").unwrap(), i64::MAX);
        assert!(wall_clock(0, "Mars/Olympus").is_err());
    }

    #[test]
    fn canonical_when_zone_is_utc_by_any_name_then_utc() {
        for text in ["UTC", "Etc/UTC", "+00:00", "UTC+0", "Zulu"] {
            assert_eq!(canonical(text).unwrap(), "UTC", "{text}");
        }
        assert_eq!(canonical("GMT-3").unwrap(), "-03:00");
        assert_eq!(canonical("America/New_York").unwrap(), "America/New_York");
        assert!(canonical("Mars/Olympus").is_err());
        assert!(canonical("+99:00").is_err());
    }
}
