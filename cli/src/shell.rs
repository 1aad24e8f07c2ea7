//! What every command has in hand: how to speak, how to show, whom to ask.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;
use std::{env, fs};

use clap::ValueEnum;
use serde::Serialize;

use crate::args::Global;
use crate::client::{Client, Learned};
use crate::codes;
use crate::config::{self, Context};
use crate::failure::Failure;
use crate::form::moment::Zone;
use crate::form::{Style, duration};

/// How data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people, at most 100 columns.
    #[default]
    Table,
    /// For people, with everything.
    Wide,
    /// One JSON document.
    Json,
    /// One JSON document a line, one line a thing.
    Jsonl,
    /// Only names or numbers, one a line.
    Name,
}

/// When there is colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How screens look: the reader's time, and how much there is room for.
#[derive(Debug, Clone)]
pub struct Look {
    /// Moments.
    pub zone: Zone,
    /// Everything, however wide.
    pub is_wide: bool,
}

/// What a command has in hand.
#[derive(Debug)]
pub struct Shell {
    global: Global,
    /// How data is written.
    pub format: Format,
    /// How screens look.
    pub look: Look,
    /// Where the replicas are, if one said so.
    learned: Learned,
}

impl Shell {
    /// Makes it from the arguments.
    pub fn new(global: Global) -> Self {
        let format = global.output.unwrap_or_default();
        let zone = if global.utc { Zone::utc() } else { Zone::local() };
        let look = Look { zone, is_wide: format == Format::Wide };
        Self { global, format, look, learned: Learned::default() }
    }

    /// Returns the colour of what goes to stderr.
    pub fn error_style(colour: Colour) -> Style {
        style_for(colour, io::stderr().is_terminal())
    }

    /// Writes data to stdout.
    ///
    /// # Errors
    /// When the reader left, or stdout cannot be written.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        self.print_bytes(text.as_bytes())
    }

    /// Writes bytes to stdout.
    ///
    /// # Errors
    /// When the reader left, or stdout cannot be written.
    pub fn print_bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::reader_left(),
            _ => Failure::new(codes::FILE, "cannot write the output").why(error.to_string()),
        })
    }

    /// Writes a job's own stderr.
    pub fn print_error_bytes(&self, bytes: &[u8]) {
        // Nobody is left to tell if stderr is closed.
        let _ = io::stderr().lock().write_all(bytes);
    }

    /// Writes a message as JSON or, by `render`, for people; `names` are what `-o name` prints.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn show<T: Serialize>(
        &self,
        message: &T,
        names: &[String],
        render: impl FnOnce(&Look) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table | Format::Wide => self.print(&render(&self.look)),
            Format::Json => self.print(&format!("{}\n", json(message, true)?)),
            Format::Jsonl => self.print(&format!("{}\n", json(message, false)?)),
            Format::Name => self.print(&names.iter().map(|name| format!("{name}\n")).collect::<String>()),
        }
    }

    /// Writes a list: like [`Shell::show`], but `-o jsonl` prints each row on a line of its own.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn show_rows<T: Serialize, R: Serialize>(
        &self,
        message: &T,
        rows: &[R],
        names: &[String],
        render: impl FnOnce(&Look) -> String,
    ) -> Result<(), Failure> {
        if self.format != Format::Jsonl {
            return self.show(message, names, render);
        }
        let mut out = String::new();
        for row in rows {
            out.push_str(&json(row, false)?);
            out.push('\n');
        }
        self.print(&out)
    }

    /// Returns whether nothing but data and errors is wanted.
    pub fn is_quiet(&self) -> bool {
        self.global.quiet
    }

    /// Says something that is not data.
    pub fn say(&self, text: &str) {
        if !self.global.quiet {
            // Nobody is left to tell if stderr is closed.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Says what a question is about, also to those who want to hear little.
    pub fn tell(&self, text: &str) {
        // Nobody is left to tell if stderr is closed.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Returns whether there is a terminal to ask on.
    pub fn can_ask(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks before something is done that others feel.
    ///
    /// # Errors
    /// When nobody can be asked.
    pub fn confirm(&self, question: &str) -> Result<bool, Failure> {
        if !self.can_ask() {
            return Err(Failure::new(
                codes::CONFIRM,
                "a confirmation is needed, and there is no terminal to ask on",
            )
            .fix("look at what is shown, then give --yes"));
        }
        let mut err = io::stderr().lock();
        let _ = write!(err, "{question} [y/N] ");
        let _ = err.flush();
        let mut answer = String::new();
        io::stdin()
            .lock()
            .read_line(&mut answer)
            .map_err(|error| Failure::new(codes::FILE, "cannot read the answer").why(error.to_string()))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Returns the selected context: flags first, then the environment, then the file.
    ///
    /// # Errors
    /// When the file cannot be read, or the context is unknown.
    pub fn context(&self) -> Result<Context, Failure> {
        let config = config::load()?;
        let name = self.global.context.clone().or_else(|| config.context.clone());
        // Addresses given by hand are for that call; a context named by hand has to exist all the same.
        let mut context = match &name {
            Some(name) => match config.contexts.get(name) {
                Some(context) => context.clone(),
                None if self.global.context.is_none() && self.global.server.is_some() => Context::default(),
                None => return Err(unknown_context(name, &config)),
            },
            None => Context::default(),
        };
        if let Some(servers) = &self.global.server {
            let given: Vec<String> = servers.split(',').map(str::trim).map(String::from).collect();
            let known = context.addresses();
            if !given.iter().all(|address| known.contains(address)) {
                // The token of one control plane is not shown to another.
                context = Context { budget: context.budget, ..Context::default() };
            }
            (context.servers, context.learned) = (given, Vec::new());
        }
        if let Some(token) = env_text("BURSAR_TOKEN") {
            context.token = Some(token);
        } else if let Some(file) = env_text("BURSAR_TOKEN_FILE") {
            (context.token, context.token_file) = (None, Some(PathBuf::from(file)));
        }
        if let Some(budget) = env_text("BURSAR_BUDGET") {
            context.budget = Some(budget);
        }
        Ok(context)
    }

    /// Returns the client of the selected control plane.
    ///
    /// # Errors
    /// When none is selected, or its token cannot be read.
    pub fn client(&self) -> Result<Client, Failure> {
        let context = self.context()?;
        if context.servers.is_empty() {
            return Err(no_context());
        }
        let servers = context.addresses();
        let client = Client::new(&servers, token_of(context)?, self.patience()?, self.global.verbose > 0)?;
        Ok(client.learning(&self.learned))
    }

    /// Returns the addresses of the selected control plane, and the token, if there is one.
    ///
    /// # Errors
    /// When none is selected, or its token cannot be read.
    pub fn servers_and_token(&self) -> Result<(Vec<String>, Option<String>), Failure> {
        let context = self.context()?;
        if context.servers.is_empty() {
            return Err(no_context());
        }
        Ok((context.addresses(), token_of(context)?))
    }

    /// Keeps with the selected context where the replicas are, if a replica has named others than it has.
    pub fn keep_learned(&self) {
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(learned) = learned else { return };
        let kept = config::load().and_then(|mut config| {
            let name = self.global.context.clone().or_else(|| config.context.clone());
            let Some(context) = name.and_then(|name| config.contexts.get_mut(&name)) else { return Ok(()) };
            // Addresses given by hand may be of another control plane; one that both know tells.
            let known = context.addresses();
            let is_ours = self.global.server.as_ref().is_none_or(|servers| {
                servers.split(',').any(|address| known.iter().any(|known| known == address.trim()))
            });
            if is_ours && context.learn(&learned) { config::save(&config) } else { Ok(()) }
        });
        if let Err(failure) = kept
            && self.global.verbose > 0
        {
            self.tell(&format!("the replicas' new addresses are not kept: {}", failure.what));
        }
    }

    fn patience(&self) -> Result<Duration, Failure> {
        let Some(text) = &self.global.patience else { return Ok(Duration::from_secs(30)) };
        let span = duration::parse(text).map_err(|what| Failure::new(codes::DURATION, what))?;
        Ok(Duration::from_millis(span.as_millis()))
    }
}

/// Returns a message as JSON.
///
/// # Errors
/// When a value cannot be written, which no message has.
pub fn json<T: Serialize>(message: &T, is_pretty: bool) -> Result<String, Failure> {
    let text = if is_pretty { serde_json::to_string_pretty(message) } else { serde_json::to_string(message) };
    text.map_err(|error| {
        Failure::new(codes::PROTOCOL, "cannot write the answer as JSON").why(error.to_string())
    })
}

/// Reads a file of text that the user named; `-` is stdin.
///
/// # Errors
/// When it cannot be read.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let text =
        if path == Path::new("-") { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) };
    text.map_err(|error| {
        Failure::new(codes::FILE, format!("cannot read {}", path.display())).why(error.to_string())
    })
}

fn env_text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

fn no_context() -> Failure {
    Failure::new(codes::CONTEXT, "no control plane is selected")
        .fix("bursar context use NAME, or --server ADDRESS[,ADDRESS...]; `bursar dev` makes one to try")
}

fn token_of(context: Context) -> Result<Option<String>, Failure> {
    match (context.token, context.token_file) {
        (Some(token), _) => Ok(Some(token)),
        (None, Some(file)) => read_token(&file).map(Some),
        (None, None) => Ok(None),
    }
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::new(codes::NO_TOKEN, format!("cannot read the token in {}", file.display()))
            .why(error.to_string())
    })?;
    Ok(text.trim().to_string())
}

fn unknown_context(name: &str, config: &config::Config) -> Failure {
    let known: Vec<&str> = config.contexts.keys().map(String::as_str).collect();
    let fix = match (crate::form::suggest::closest(name, &known), known.as_slice()) {
        (Some(close), _) => format!("did you mean `{close}`?"),
        (None, []) => {
            "there is none yet; `bursar dev` makes one, or set BURSAR_SERVER and BURSAR_TOKEN".into()
        }
        (None, known) => format!("known are: {}", known.join(", ")),
    };
    Failure::new(codes::CONTEXT, format!("no context `{name}`")).fix(fix)
}

fn style_for(colour: Colour, is_terminal: bool) -> Style {
    let is_on = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto if env_text("NO_COLOR").is_some() => false,
        Colour::Auto => is_terminal || env_text("CLICOLOR_FORCE").is_some_and(|force| force != "0"),
    };
    if is_on { Style::colour() } else { Style::plain() }
}
