//! What the tour says.

use crate::failure::Failure;
use crate::shell::Shell;

/// Counts and prints.
#[derive(Debug)]
pub struct Report<'a> {
    shell: &'a Shell,
    failed: usize,
}

impl<'a> Report<'a> {
    /// Begins.
    pub fn new(shell: &'a Shell) -> Self {
        Self { shell, failed: 0 }
    }

    /// Begins a step.
    ///
    /// # Errors
    /// When the reader left.
    pub fn step(&mut self, letter: &str, title: &str) -> Result<(), Failure> {
        self.shell.print(&format!("\n{letter}  {title}\n"))
    }

    /// Says what was seen, and whether it is as it should be.
    pub fn check(&mut self, is_ok: bool, saw: &str) {
        let word = if is_ok { "ok" } else { "FAILED" };
        self.failed += usize::from(!is_ok);
        // A reader that left is told by the next step.
        let _ = self.shell.print(&format!("   {word:<7} {saw}\n"));
    }

    /// Returns how much was not as it should be.
    pub fn failed(&self) -> usize {
        self.failed
    }
}
