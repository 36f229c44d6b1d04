//! `linkvault man`: prints or writes man pages.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::{App, CliError, Exit, OpErrorKind};
use crate::ops::output_files::{OutputKind, require_output};

/// Print the manual page, or write the pages of all commands
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault man | man -l -
  linkvault man --to ~/.local/share/man/man1")]
pub struct Args {
    /// Write the pages of all commands to this folder
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}

/// Prints or writes the pages of the whole command line.
pub fn run(args: &Args, whole: clap::Command, app: &App) -> Result<Exit, CliError> {
    match &args.to {
        None => print(whole, app)?,
        Some(folder) => write(whole, app, folder)?,
    }
    Ok(Exit::Done)
}

fn print(whole: clap::Command, app: &App) -> Result<(), CliError> {
    let mut page = Vec::new();
    clap_mangen::Man::new(whole).render(&mut page)?;
    if app.out.is_json() {
        return app.out.json(&json!({"format": 1, "page": String::from_utf8_lossy(&page)}));
    }
    app.out.raw(&page)
}

fn write(mut whole: clap::Command, app: &App, folder: &Path) -> Result<(), CliError> {
    let fault = |error| {
        let folder = folder.display();
        CliError::new(
            OpErrorKind::Failed,
            format_args!("cannot write the pages to {folder}: {error}"),
        )
    };
    std::fs::create_dir_all(folder).map_err(fault)?;
    let made = tempfile::tempdir().map_err(fault)?;
    // Building adds the global flags to the pages of the commands.
    whole.build();
    clap_mangen::generate_to(whole, made.path()).map_err(fault)?;
    let pages: Vec<_> = std::fs::read_dir(made.path())
        .and_then(Iterator::collect::<Result<_, _>>)
        .map_err(fault)?;
    let target = |page: &std::fs::DirEntry| folder.join(page.file_name());
    for page in &pages {
        require_output(&target(page), OutputKind::ManPage, app.env.force)?;
    }
    for page in &pages {
        let text = std::fs::read(page.path()).map_err(fault)?;
        // Unlike other outputs, pages are for all users.
        let _ = std::fs::remove_file(target(page));
        std::fs::write(target(page), text).map_err(fault)?;
    }
    if app.out.is_json() {
        return app.out.json(&json!({"format": 1, "folder": folder.display().to_string()}));
    }
    app.out.summary(format_args!("The pages are in {}", crate::cli::Escaped(folder.display())))
}
