//! Colour. It never stands alone: what it marks has a word too.

/// Whether text gets colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    has_colour: bool,
}

impl Style {
    /// Text as it is.
    pub const fn plain() -> Self {
        Self { has_colour: false }
    }

    /// Text with colour.
    pub const fn colour() -> Self {
        Self { has_colour: true }
    }

    /// Marks a failure.
    pub fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.has_colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.into() }
    }
}
