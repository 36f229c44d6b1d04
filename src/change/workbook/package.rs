//! The parts of a workbook: entries of a zip archive, unpacked up to a limit.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Cursor, Error, ErrorKind, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::change::workbook::error::{MAX_UNPACKED, WorkbookError};
use crate::change::workbook::xml::{Event, XmlReader, attribute};

/// The first bytes of an OLE file: an `.xls` file, or an `.xlsx` file with a password.
pub(super) const OLE: [u8; 8] = [0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1];

/// The format of a workbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Xlsx,
    Ods,
}

/// The parts of a workbook.
pub(super) struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    /// The places of the parts by their names in lower case.
    names: HashMap<String, usize>,
    /// The number of bytes that may still be unpacked.
    budget: u64,
}

impl<'a> Package<'a> {
    pub fn open(bytes: &'a [u8]) -> Result<Self, WorkbookError> {
        if bytes.starts_with(&OLE) {
            // The names of streams in an OLE file are UTF-16.
            let name: Vec<_> =
                "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
            return Err(match memchr::memmem::find(bytes, &name) {
                Some(_) => WorkbookError::Password,
                None => WorkbookError::OldFormat,
            });
        }
        // Counted before the directory is read, because an archive may state any number.
        WorkbookError::too_many(memchr::memmem::find_iter(bytes, b"PK\x01\x02").count(), "parts")?;
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(zip_error)?;
        let mut names = HashMap::new();
        for nth in 0..archive.len() {
            if let Some(Ok(name)) = archive.name_for_index(nth) {
                names.insert(name.replace('\\', "/").to_lowercase(), nth);
            }
        }
        Ok(Self { archive, names, budget: MAX_UNPACKED })
    }

    /// Begins to read parts again, with a new limit.
    pub fn begin_pass(&mut self) {
        self.budget = MAX_UNPACKED;
    }

    /// The format, by the parts of the archive.
    pub fn format(&mut self) -> Result<Format, WorkbookError> {
        const ODS: &str = "application/vnd.oasis.opendocument.spreadsheet";
        let mut kind = String::new();
        if let Some(part) = self.part("mimetype")? {
            part.take(100).read_to_string(&mut kind).map_err(WorkbookError::damaged)?;
        }
        if !kind.is_empty() {
            if kind.trim().trim_end_matches("-template") != ODS {
                return Err(WorkbookError::NoWorkbook);
            }
            return match self.is_encrypted_ods()? {
                true => Err(WorkbookError::Password),
                false => Ok(Format::Ods),
            };
        }
        if self.names.contains_key("xl/workbook.bin") {
            return Err(WorkbookError::BinaryFormat);
        }
        match self.names.contains_key("[content_types].xml") {
            true if self.names.keys().any(|name| name.starts_with("xl/")) => Ok(Format::Xlsx),
            _ => Err(WorkbookError::NoWorkbook),
        }
    }

    fn is_encrypted_ods(&mut self) -> Result<bool, WorkbookError> {
        let Some(mut xml) = self.xml("META-INF/manifest.xml")? else { return Ok(false) };
        loop {
            match xml.next()? {
                Event::Start(it) if it.local_name().as_ref() == "encryption-data" => {
                    return Ok(true);
                }
                Event::Start(it) if it.local_name().as_ref() == "file-entry" => {
                    let path = attribute(&it, "full-path")?.unwrap_or_default();
                    if path == "encrypted-package" {
                        return Ok(true);
                    }
                }
                Event::Eof => return Ok(false),
                _ => {}
            }
        }
    }

    /// The XML part called `name`, in any case. `None` if there is none.
    pub fn xml(
        &mut self,
        name: &str,
    ) -> Result<Option<XmlReader<impl BufRead + use<'_, 'a>>>, WorkbookError> {
        Ok(self.part(name)?.map(XmlReader::new))
    }

    /// The part called `name`, in any case. `None` if there is none.
    pub fn part(
        &mut self,
        name: &str,
    ) -> Result<Option<impl BufRead + use<'_, 'a>>, WorkbookError> {
        let Some(nth) = self.names.get(&name.to_lowercase()) else { return Ok(None) };
        let file = self.archive.by_index(*nth).map_err(zip_error)?;
        Ok(Some(BufReader::new(Budgeted { inner: file, budget: &mut self.budget })))
    }
}

/// Fails when more is read than the budget allows, whatever sizes the archive states.
struct Budgeted<'b, R> {
    inner: R,
    budget: &'b mut u64,
}

impl<R: Read> Read for Budgeted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.budget.checked_sub(count as u64) {
            Some(left) => *self.budget = left,
            None => return Err(Error::from(ErrorKind::FileTooLarge)),
        }
        Ok(count)
    }
}

fn zip_error(error: ZipError) -> WorkbookError {
    match error {
        ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) => WorkbookError::Password,
        error => WorkbookError::damaged(error),
    }
}
