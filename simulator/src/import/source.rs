//! Bytes of a source, unpacked on the way, and its lines. Nothing here holds more than one line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::error::Error;

/// What is looked at to tell the format.
const HEAD_BYTES: u64 = 64 * 1024;

/// A longer line is no row of any format; it is passed over without being held.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// How a source is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packed {
    No,
    Gzip,
    Zstd,
}

/// An open source.
pub(super) struct Source<'s> {
    path: String,
    packed: Packed,
    head: Vec<u8>,
    bytes: Box<dyn BufRead + 's>,
}

impl Source<'static> {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let shown = path.display().to_string();
        let file = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
            true => Err(io::Error::from(io::ErrorKind::IsADirectory)),
            false => Ok(file),
        });
        let file = file.map_err(|source| Error::Open { path: shown.clone(), source })?;
        Self::new(shown, file)
    }
}

impl<'s> Source<'s> {
    /// Takes bytes from anywhere; `path` is what messages call them.
    pub(super) fn new(path: String, bytes: impl Read + 's) -> Result<Self, Error> {
        let mut bytes = BufReader::with_capacity(256 * 1024, bytes);
        let failed = |source| Error::Read { path: path.clone(), line: 0, source };
        let mut magic = Vec::new();
        bytes.by_ref().take(4).read_to_end(&mut magic).map_err(failed)?;
        let packed = match magic.as_slice() {
            [0x1f, 0x8b, ..] => Packed::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Packed::Zstd,
            [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Packed::Zstd,
            _ => Packed::No,
        };
        let bytes = Cursor::new(magic).chain(bytes);
        let mut bytes: Box<dyn BufRead + 's> = match packed {
            Packed::No => Box::new(bytes),
            Packed::Gzip => Box::new(BufReader::new(MultiGzDecoder::new(bytes))),
            Packed::Zstd => Box::new(BufReader::new(Zstd::new(bytes).map_err(failed)?)),
        };
        let mut head = Vec::new();
        let read = bytes.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
        read.map_err(|source| failed_at(&path, packed, lines_of(&head), source))?;
        Ok(Self { path, packed, head, bytes })
    }

    /// Returns what the source is called.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns how the unpacked content begins.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the lines.
    pub(super) fn lines(self) -> Lines<'s> {
        let bytes = Box::new(Cursor::new(self.head).chain(self.bytes));
        Lines {
            path: self.path,
            packed: self.packed,
            bytes,
            line: 0,
            buffer: Vec::new(),
            is_too_long: false,
            is_peeked: false,
        }
    }
}

fn lines_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(u64::MAX)
}

fn failed_at(path: &str, packed: Packed, line: u64, source: io::Error) -> Error {
    let path = path.to_owned();
    match packed {
        Packed::No => Error::Read { path, line, source },
        Packed::Gzip => Error::Packed { path, packed: "gzip", line, test: "gzip -t", source },
        Packed::Zstd => Error::Packed { path, packed: "zstd", line, test: "zstd -t", source },
    }
}

/// The lines of a source, one after the other.
pub(super) struct Lines<'s> {
    path: String,
    packed: Packed,
    bytes: Box<dyn BufRead + 's>,
    line: u64,
    buffer: Vec<u8>,
    is_too_long: bool,
    is_peeked: bool,
}

impl Lines<'_> {
    /// Returns what the source is called.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the number of the current line, from 1.
    pub(super) fn number(&self) -> u64 {
        self.line
    }

    /// Goes to the next line; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool, Error> {
        if std::mem::take(&mut self.is_peeked) {
            return Ok(true);
        }
        self.buffer.clear();
        self.is_too_long = false;
        let mut is_any = false;
        loop {
            let (path, packed, line) = (&self.path, self.packed, self.line);
            let chunk = self.bytes.fill_buf().map_err(|source| failed_at(path, packed, line, source))?;
            if chunk.is_empty() {
                break;
            }
            is_any = true;
            let (taken, is_end) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (chunk.len(), false),
            };
            if self.buffer.len().saturating_add(taken) > LINE_BYTES_MAX {
                self.is_too_long = true;
            } else {
                self.buffer.extend_from_slice(&chunk[..taken]);
            }
            self.bytes.consume(taken);
            if is_end {
                break;
            }
        }
        self.line += u64::from(is_any);
        Ok(is_any)
    }

    /// Returns the first line that is not empty, and comes to it again; empty at the end.
    pub(super) fn peek(&mut self) -> Result<String, Error> {
        while self.advance()? {
            let text = self.text().unwrap_or_default();
            if !text.trim().is_empty() {
                self.is_peeked = true;
                return Ok(text);
            }
        }
        Ok(String::new())
    }

    /// Returns the current line without its end. What is not UTF-8 is replaced: it is never a number or a time.
    ///
    /// # Errors
    ///
    /// When it is longer than any row.
    pub(super) fn text(&self) -> Result<String, &'static str> {
        if self.is_too_long {
            return Err("is longer than 1 MiB");
        }
        let text = String::from_utf8_lossy(&self.buffer);
        let text = text.trim_end_matches(['\n', '\r']);
        Ok(if self.line == 1 { text.trim_start_matches('\u{feff}').to_owned() } else { text.to_owned() })
    }

    /// Returns the bytes that follow, for formats without lines; the count of lines goes on in [`Self::consume`].
    pub(super) fn fill(&mut self) -> Result<&[u8], Error> {
        let (path, packed, line) = (&self.path, self.packed, self.line);
        self.bytes.fill_buf().map_err(|source| failed_at(path, packed, line, source))
    }

    /// Passes over bytes that [`Self::fill`] returned, with this many line ends among them.
    pub(super) fn consume(&mut self, bytes: usize, line_ends: u64) {
        self.bytes.consume(bytes);
        self.line += line_ends;
    }
}

/// Unpacks all frames of a file, one after the other; the library unpacks one.
struct Zstd<R: BufRead> {
    source: R,
    decoder: FrameDecoder,
}

/// So much is unpacked at once, at least.
const STEP_BYTES: usize = 64 * 1024;

/// A frame with nothing in it: header, then one empty last block.
const EMPTY_FRAME: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x00, 0x01, 0x00, 0x00];

impl<R: BufRead> Zstd<R> {
    /// Begins with an empty frame: the library checks how much memory a frame asks for from its second frame on.
    fn new(source: R) -> io::Result<Self> {
        let mut decoder = FrameDecoder::new();
        let mut empty = EMPTY_FRAME;
        decoder.init(&mut empty).map_err(io::Error::other)?;
        decoder.decode_blocks(&mut empty, BlockDecodingStrategy::All).map_err(io::Error::other)?;
        Ok(Self { source, decoder })
    }

    /// Begins the next frame; false at the end of the source.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let passed = io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
                    if passed < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let read = self.decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            if self.decoder.is_finished() {
                if !self.begin()? {
                    return Ok(0);
                }
            } else {
                let step = BlockDecodingStrategy::UptoBytes(STEP_BYTES);
                self.decoder.decode_blocks(&mut self.source, step).map_err(io::Error::other)?;
            }
        }
    }
}
