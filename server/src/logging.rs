//! A replica's own log: one line an event, on standard error. Tokens and values of environments are never in it.

use std::fmt;

use proto::json::rfc3339;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::clock;
use crate::config::LogFormat;

/// What is logged unless `BURSAR_LOG` says otherwise.
const FILTER: &str = "info,openraft=error,h2=warn,hyper=warn,tonic=warn";

/// Starts logging. Does nothing if the process logs already.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env("BURSAR_LOG").unwrap_or_else(|_| EnvFilter::new(FILTER));
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // An error means that somebody else's lines are in place.
    let _ = match format {
        LogFormat::Text => lines.with_timer(Wall).with_target(false).try_init(),
        LogFormat::Json => lines.event_format(Json).try_init(),
    };
}

struct Wall;

impl FormatTime for Wall {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        out.write_str(&rfc3339(clock::wall().as_millis()))
    }
}

/// One JSON object a line.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let meta = event.metadata();
        fields.0.insert("at".to_owned(), rfc3339(clock::wall().as_millis()).into());
        fields.0.insert("level".to_owned(), meta.level().as_str().to_lowercase().into());
        fields.0.insert("target".to_owned(), meta.target().into());
        writeln!(out, "{}", serde_json::Value::Object(fields.0))
    }
}

#[derive(Default)]
struct Fields(serde_json::Map<String, serde_json::Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}
