//! What a job said of its progress, as its shim received it.

use super::fields::{Error, Fields, Writer};

/// The time of a marker file, as its file system says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Marker {
    /// Seconds since 1970.
    pub seconds: i64,
    /// And so many ns.
    pub nanos: i64,
}

/// What tells one version of a file from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Its inode.
    pub inode: u64,
    /// When it was changed.
    pub changed: Marker,
}

/// A job's progress. Times are ms of the boot clock, always the shim's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Saves {
    /// Boot id that the times belong to.
    pub boot: String,
    /// When the newest checkpoint was heard of.
    pub saved_ms: Option<u64>,
    /// When the first sign of progress was heard of.
    pub signed_ms: Option<u64>,
    /// The newest marker that was seen, so that a nurse takes none for new that isn't.
    pub marker: Option<Marker>,
    /// The report file that was read last, for the same reason.
    pub file: Option<Version>,
}

impl Saves {
    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.put("boot", self.boot.as_bytes());
        out.maybe("saved_ms", self.saved_ms);
        out.maybe("signed_ms", self.signed_ms);
        out.maybe("marker_s", self.marker.map(|marker| marker.seconds));
        out.maybe("marker_ns", self.marker.map(|marker| marker.nanos));
        out.maybe("file_inode", self.file.map(|file| file.inode));
        out.maybe("file_s", self.file.map(|file| file.changed.seconds));
        out.maybe("file_ns", self.file.map(|file| file.changed.nanos));
        out.finish()
    }

    /// Decodes the file.
    ///
    /// # Errors
    ///
    /// The file isn't whole, or a field is missing or wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let fields = Fields::parse(bytes)?;
        let time = |seconds: &'static str, nanos: &'static str| -> Result<Option<Marker>, Error> {
            let parts = fields.optional(seconds)?.zip(fields.optional(nanos)?);
            Ok(parts.map(|(seconds, nanos)| Marker { seconds, nanos }))
        };
        let inode = fields.optional("file_inode")?;
        let file = inode.zip(time("file_s", "file_ns")?);
        Ok(Self {
            boot: fields.text("boot")?,
            saved_ms: fields.optional("saved_ms")?,
            signed_ms: fields.optional("signed_ms")?,
            marker: time("marker_s", "marker_ns")?,
            file: file.map(|(inode, changed)| Version { inode, changed }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Marker, Saves, Version};

    #[test]
    fn progress_survives_its_file() {
        let marker = Marker { seconds: i64::MIN, nanos: 7 };
        let full = Saves {
            boot: "b".to_owned(),
            saved_ms: Some(5),
            signed_ms: Some(2),
            marker: Some(marker),
            file: Some(Version { inode: 9, changed: marker }),
        };
        for saves in [full, Saves { boot: "b".to_owned(), ..Saves::default() }] {
            assert_eq!(Saves::decode(&saves.encode()), Ok(saves));
        }
    }
}
