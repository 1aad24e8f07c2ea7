//! Fields: the encoding that all files share.

use std::fmt;

/// The version that is written. A reader takes any version: what changes is which keys there are.
const FORMAT: &[u8] = b"1";

/// Why a file can't be read as fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The file doesn't begin with its format or doesn't end with its closing field.
    Incomplete,
    /// A needed field isn't there.
    Missing(&'static str),
    /// A field's value isn't what it should be.
    Invalid(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete => formatter.write_str("the file is not complete"),
            Self::Missing(key) => write!(formatter, "the field {key} is missing"),
            Self::Invalid(key) => write!(formatter, "the field {key} is not valid"),
        }
    }
}

impl std::error::Error for Error {}

/// The fields of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields(Vec<(Vec<u8>, Vec<u8>)>);

impl Fields {
    /// Splits a file.
    ///
    /// # Errors
    ///
    /// The file isn't whole.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut fields = Vec::new();
        for field in bytes.strip_suffix(b"\0").ok_or(Error::Incomplete)?.split(|byte| *byte == 0) {
            let at = field.iter().position(|byte| *byte == b'=').ok_or(Error::Incomplete)?;
            fields.push((field[..at].to_vec(), field[at + 1..].to_vec()));
        }
        let starts = fields.first().is_some_and(|(key, _)| key == b"format");
        let ends = fields.last().is_some_and(|(key, _)| key == b"end");
        if starts && ends { Ok(Self(fields)) } else { Err(Error::Incomplete) }
    }

    /// Returns the first value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.iter().find(|(name, _)| name == key.as_bytes()).map(|(_, value)| value.as_slice())
    }

    /// Returns the values of a key, in order.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |(name, _)| name == key.as_bytes()).map(|(_, value)| value.as_slice())
    }

    /// Returns the first value of a key as text.
    ///
    /// # Errors
    ///
    /// The field is missing or not UTF-8.
    pub fn text(&self, key: &'static str) -> Result<String, Error> {
        let value = self.get(key).ok_or(Error::Missing(key))?;
        String::from_utf8(value.to_vec()).map_err(|_| Error::Invalid(key))
    }

    /// Returns the first value of a key as a number.
    ///
    /// # Errors
    ///
    /// The field is missing or not such a number.
    pub fn number<T: std::str::FromStr>(&self, key: &'static str) -> Result<T, Error> {
        self.text(key)?.parse().map_err(|_| Error::Invalid(key))
    }

    /// Returns the first value of a key as a number, or `None` if there is no such field.
    ///
    /// # Errors
    ///
    /// The field isn't such a number.
    pub fn optional<T: std::str::FromStr>(&self, key: &'static str) -> Result<Option<T>, Error> {
        if self.get(key).is_none() { Ok(None) } else { self.number(key).map(Some) }
    }
}

/// Builds a file.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// Begins a file.
    pub fn new() -> Self {
        let mut writer = Self(Vec::with_capacity(512));
        writer.put("format", FORMAT);
        writer
    }

    /// Adds a field. Zero bytes can't be part of a value and are left out.
    pub fn put(&mut self, key: &str, value: &[u8]) {
        self.0.extend_from_slice(key.as_bytes());
        self.0.push(b'=');
        self.0.extend(value.iter().copied().filter(|byte| *byte != 0));
        self.0.push(0);
    }

    /// Adds a field with a number or other displayed value.
    pub fn show(&mut self, key: &str, value: impl fmt::Display) {
        self.put(key, value.to_string().as_bytes());
    }

    /// Adds a field if there is a value.
    pub fn maybe(&mut self, key: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.show(key, value);
        }
    }

    /// Closes the file.
    pub fn finish(mut self) -> Vec<u8> {
        self.put("end", b"");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, Fields, Writer};

    #[test]
    fn half_a_file_is_never_taken_for_a_whole_one() {
        let mut writer = Writer::new();
        writer.put("argv", b"a=b c\n");
        writer.show("n", 42);
        let whole = writer.finish();
        for length in 0..whole.len() {
            assert_eq!(Fields::parse(&whole[..length]), Err(Error::Incomplete), "of {length} bytes");
        }
        let fields = Fields::parse(&whole).unwrap();
        assert_eq!(fields.get("argv"), Some(b"a=b c\n".as_slice()));
        assert_eq!(fields.number::<u32>("n"), Ok(42));
        assert_eq!(fields.number::<u32>("argv"), Err(Error::Invalid("argv")));
        assert_eq!(fields.optional::<u32>("none"), Ok(None));
    }
}
