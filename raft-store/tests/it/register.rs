//! A machine of named registers: `set NAME VALUE`, answered with the value before.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex};

use raft_store::{BoxError, Committed, Frozen, Machine};

/// What the machine holds; the test looks at it from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registers {
    pub values: BTreeMap<String, String>,
    pub index: u64,
    pub term: u64,
    pub installs: u64,
}

#[derive(Clone, Default)]
pub struct Register {
    pub state: Arc<Mutex<Registers>>,
}

impl Register {
    pub fn get(&self, name: &str) -> Option<String> {
        self.state.lock().expect("no test panics in the machine").values.get(name).cloned()
    }

    pub fn registers(&self) -> Registers {
        self.state.lock().expect("no test panics in the machine").clone()
    }
}

pub fn set(name: &str, value: &str) -> Vec<u8> {
    format!("{name} {value}").into_bytes()
}

impl Machine for Register {
    fn apply(&mut self, entries: &[Committed<'_>]) -> Vec<Vec<u8>> {
        let mut state = self.state.lock().expect("no test panics in the machine");
        let mut answers = Vec::new();
        for entry in entries {
            assert!(entry.index > state.index || state.index == 0, "entries come in order");
            (state.index, state.term) = (entry.index, entry.term);
            let text = std::str::from_utf8(entry.payload).expect("tests write text");
            let (name, value) = text.split_once(' ').expect("tests write a name and a value");
            let before = state.values.insert(name.to_owned(), value.to_owned());
            answers.push(before.unwrap_or_default().into_bytes());
        }
        answers
    }

    fn advanced(&mut self, index: u64, term: u64) {
        let mut state = self.state.lock().expect("no test panics in the machine");
        (state.index, state.term) = (index, term);
    }

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(Image(self.registers()))
    }

    fn install(&mut self, index: u64, term: u64, snapshot: &mut dyn Read) -> Result<(), BoxError> {
        let mut values = BTreeMap::new();
        for line in BufReader::new(snapshot).lines() {
            let line = line?;
            let (name, value) = line.split_once(' ').ok_or("a line without a value")?;
            values.insert(name.to_owned(), value.to_owned());
        }
        let mut state = self.state.lock().expect("no test panics in the machine");
        let installs = state.installs + 1;
        *state = Registers { values, index, term, installs };
        Ok(())
    }
}

struct Image(Registers);

impl Frozen for Image {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.0.values.iter().try_for_each(|(name, value)| writeln!(out, "{name} {value}"))
    }
}
