//! The time zone of this machine.

use chrono_tz::Tz;

use crate::config::values::parse_timezone;

/// The time zone in `TZ`, else the one of the operating system.
///
/// # Errors
/// A sentence: the operating system reports no time zone, or its name is not in the database.
pub fn machine_time_zone() -> Result<Tz, String> {
    let variable = std::env::var("TZ").ok().filter(|name| !name.is_empty());
    let name = match variable {
        Some(name) => name.trim_start_matches(':').to_owned(),
        None => iana_time_zone::get_timezone()
            .map_err(|error| format!("cannot determine the machine's time zone: {error}"))?,
    };
    parse_timezone(&name).map_err(|error| format!("cannot use the machine's time zone: {error}"))
}
