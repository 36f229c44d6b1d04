//! The time zone of this machine, by its name in the zone database.

use chrono_tz::Tz;

use crate::config::values::parse_timezone;

/// The zone of `TZ`, or the one that the machine is set to.
///
/// # Errors
/// Why its name is not known: the sentence for a person.
pub fn machine_time_zone() -> Result<Tz, String> {
    let told = std::env::var("TZ").ok().filter(|name| !name.is_empty());
    let name = match told {
        Some(name) => name.trim_start_matches(':').to_owned(),
        None => iana_time_zone::get_timezone()
            .map_err(|error| format!("the machine does not tell its time zone ({error})"))?,
    };
    parse_timezone(&name).map_err(|error| format!("the machine's time zone is not known: {error}"))
}
