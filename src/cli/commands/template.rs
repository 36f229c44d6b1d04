//! `linkvault template`: the header of a CSV file that an import understands.

use serde_json::json;

use crate::cli::values::{self, Sheet};
use crate::cli::{App, Exit, Failure, Kind};
use crate::model::{Field, Resource, Role, Verb};

/// Print the header of a resource's CSV file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault template campaigns > campaigns.csv
  linkvault template campaign_links > campaign_links.csv")]
pub struct Args {
    /// The resource
    #[arg(value_parser = values::sheet())]
    pub resource: Sheet,
}

/// Prints the header.
///
/// # Errors
/// When it cannot be written.
pub fn run(args: &Args, app: &App) -> Result<Exit, Failure> {
    let name = args.resource.name();
    let columns = columns(args.resource);
    if app.out.is_json() {
        app.out.json(&json!({"format": 1, "resource": name, "columns": columns}))?;
        return Ok(Exit::Done);
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = writer.write_record(&columns).ok().and_then(|()| writer.into_inner().ok());
    let header = header.ok_or_else(|| Failure::new(Kind::Failed, "the header cannot be made"))?;
    app.out.raw(&header)?;
    if !is_writable(args.resource) {
        app.out.note(format_args!("the API can neither create nor change {name}"));
    }
    Ok(Exit::Done)
}

/// The columns of a CSV file: what identifies a record, to the service and to
/// its owner, and what can be set. A password never stands in a file.
#[must_use]
pub fn columns(sheet: Sheet) -> Vec<&'static str> {
    let Sheet::Resource(resource) = sheet else {
        return vec!["campaign", "link"];
    };
    let spec = resource.spec();
    let wanted = |field: &&Field| match field.role {
        Role::Identity => true,
        Role::Writable | Role::WriteOnly => field.name != "password",
        Role::ReadOnly | Role::Counter => spec.natural_key.contains(&field.name),
    };
    spec.fields.iter().filter(wanted).map(|field| field.name).collect()
}

fn is_writable(sheet: Sheet) -> bool {
    let writes = |resource: Resource| {
        let write = |verb| resource.spec().endpoint(verb).is_some();
        [Verb::Create, Verb::Update, Verb::Assign].into_iter().any(write)
    };
    match sheet {
        Sheet::Resource(resource) => writes(resource),
        Sheet::CampaignLinks => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_what_an_import_can_use() {
        let headers: Vec<_> = Resource::ALL
            .into_iter()
            .map(Sheet::Resource)
            .chain([Sheet::CampaignLinks])
            .map(|sheet| format!("{}: {}", sheet.name(), columns(sheet).join(",")))
            .collect();
        let expected = [
            "account: id,email",
            "domains: id,domain,redirectroot,redirect404",
            "campaigns: id,name,public,slug",
            "channels: id,name,description,color,starred",
            "channel_items: channel,type,id",
            "qr_codes: id,type,data,background,foreground,logo",
            "pixels: id,type,name,tag",
            "overlays: id,name",
            "splash_pages: id,name",
            "campaign_links: campaign,link",
        ];
        assert_eq!(headers, expected);
    }
}
