//! Dates in headers of servers.

use std::time::{Duration, SystemTime};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses a date of RFC 9110, section 5.6.7: `Sun, 06 Nov 1994 08:49:37 GMT`, and the two older forms.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|word| !word.is_empty()).collect();
    let (day, month, year, time) = match words[..] {
        [_, month, day, time, year] if time.contains(':') => (day, month, year, time),
        [_, day, month, year, time, "GMT"] => (day, month, year, time),
        _ => return None,
    };
    let number = |text: &str| -> Option<u64> {
        let is_number = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok())?
    };
    let month = (1..).zip(MONTHS).find(|(_, name)| *name == month)?.0;
    let year = match (number(year)?, year.len()) {
        // Not more than 50 years ahead.
        (short, 2) => short + if short < 76 { 2000 } else { 1900 },
        (year, _) => year,
    };
    let mut clock = time.split(':').map(number);
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let days = days(year, month, number(day)?)?;
    let is_time = hour < 24 && minute < 60 && second <= 60 && clock.next().is_none();
    is_time.then(|| SystemTime::UNIX_EPOCH + Duration::from_secs(((days * 24 + hour) * 60 + minute) * 60 + second))
}

/// Returns the number of days since 1970.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=31).contains(&day) {
        return None;
    }
    // From March on, so that a leap day is the last one of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    Some(before + (month * 153 + 2) / 5 + day - 1 - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_parsed() {
        let seconds = |text| parse(text).map(|date| date.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs());
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(seconds(text), Some(784_111_777), "{text}");
        }
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Thu, 29 Feb 2024 23:59:60 GMT", 1_709_251_200),
            ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200),
            ("Sat, 28 Nov 2026 10:51:15 GMT", 1_795_863_075),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "120",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Non 1994 08:49:37 GMT",
            "Sun, 06 Nov 0001 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 +8:49:37 GMT",
            "Sun, 06 Nov 99999 08:49:37 GMT",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
