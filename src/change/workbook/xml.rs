//! Reads XML event by event.

use std::io::{BufRead, ErrorKind};

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::BytesRef;
pub(super) use quick_xml::events::{BytesStart, Event};

use crate::change::workbook::error::{MAX_DEPTH, WorkbookError};

/// A reader of XML. Elements without content have a start and an end, too.
pub(super) struct XmlReader<R> {
    reader: Reader<R>,
    buffer: Vec<u8>,
    /// The number of open elements.
    depth: usize,
}

impl<R: BufRead> XmlReader<R> {
    pub fn new(source: R) -> Self {
        let mut reader = Reader::from_reader(source);
        reader.config_mut().expand_empty_elements = true;
        Self { reader, buffer: Vec::new(), depth: 0 }
    }

    pub fn next(&mut self) -> Result<Event<'_>, WorkbookError> {
        self.buffer.clear();
        let event = self.reader.read_event_into(&mut self.buffer).map_err(xml_error)?;
        match event {
            Event::Start(_) => self.depth += 1,
            Event::End(_) => self.depth = self.depth.saturating_sub(1),
            Event::Eof if self.depth > 0 => {
                return Err(WorkbookError::damaged("a part of it ends too early"));
            }
            _ => {}
        }
        if self.depth > MAX_DEPTH {
            return Err(WorkbookError::damaged("its elements are nested too deeply"));
        }
        Ok(event)
    }
}

fn xml_error(error: quick_xml::Error) -> WorkbookError {
    match error {
        quick_xml::Error::Io(error) if error.kind() == ErrorKind::FileTooLarge => {
            WorkbookError::TooLarge
        }
        error => WorkbookError::damaged(error),
    }
}

/// The value of the attribute called `name`, without its prefix.
pub(super) fn attribute(
    element: &BytesStart<'_>,
    name: &str,
) -> Result<Option<String>, WorkbookError> {
    for attribute in element.attributes().with_checks(false) {
        let attribute = attribute.map_err(WorkbookError::damaged)?;
        if attribute.key.local_name().as_ref() == name {
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            return Ok(Some(value.map_err(WorkbookError::damaged)?.into_owned()));
        }
    }
    Ok(None)
}

/// Adds the text of an event to `text`.
pub(super) fn push_text(event: &Event<'_>, text: &mut String) -> Result<(), WorkbookError> {
    match event {
        Event::Text(it) => text.push_str(&it.xml10_content()),
        Event::CData(it) => text.push_str(&it.xml10_content()),
        Event::GeneralRef(it) => push_reference(it, text)?,
        _ => {}
    }
    Ok(())
}

/// Only characters and the five predefined entities: others would have to be defined by the file.
fn push_reference(reference: &BytesRef<'_>, text: &mut String) -> Result<(), WorkbookError> {
    if let Some(character) = reference.resolve_char_ref().map_err(WorkbookError::damaged)? {
        text.push(character);
        return Ok(());
    }
    let name = reference.xml10_content();
    match resolve_predefined_entity(&name) {
        Some(character) => text.push_str(character),
        None => return Err(WorkbookError::damaged(format_args!("unknown entity &{name};"))),
    }
    Ok(())
}
