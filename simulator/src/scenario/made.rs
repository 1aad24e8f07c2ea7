//! Made-up jobs.

use scheduler_core::unit::{Span, Timestamp};

use super::draw::{Draw, Purpose};
use super::{Error, Made};
use crate::trace::{Trace, TraceEnd, TraceJob};

/// A made-up job, and which of the scenario's streams it came from.
pub(super) struct Drawn {
    pub job: TraceJob,
    pub stream: usize,
}

/// Draws all streams; jobs come in order of submission.
pub(super) fn draw(streams: &[Made], seed: u64, length: Span) -> Result<(Trace, Vec<usize>), Error> {
    let mut all = Vec::new();
    for (at, made) in streams.iter().enumerate() {
        check(at, made, length)?;
        all.extend(stream(at, made, seed, length));
    }
    all.sort_by_key(|drawn: &Drawn| (drawn.job.submitted_at, drawn.stream, drawn.job.line));
    let streams = all.iter().map(|drawn| drawn.stream).collect();
    let jobs = all.into_iter().enumerate().map(|(at, drawn)| TraceJob { line: at as u64 + 1, ..drawn.job });
    Ok((Trace { name: "made".into(), jobs: jobs.collect(), ..Trace::default() }, streams))
}

fn check(at: usize, made: &Made, length: Span) -> Result<(), Error> {
    let place = |field: &str| format!("jobs.made[{at}].{field}");
    if made.sizes.is_empty() || made.sizes.iter().any(|size| size.gpus == 0) {
        return Err(Error::value(
            place("sizes"),
            "a size has no GPUs",
            "write at least one size with 1 GPU or more",
        ));
    }
    if made.sizes.iter().any(|size| !(size.weight.is_finite() && size.weight > 0.0)) {
        return Err(Error::value(
            place("sizes"),
            "a weight is not above 0",
            "leave it out, or write how often the size comes",
        ));
    }
    if !(made.varies >= 1.0 && made.varies.is_finite()) {
        return Err(Error::value(
            place("varies"),
            format!("{} is below 1", made.varies),
            "write 1 for jobs that all run alike",
        ));
    }
    if made.runs.0.is_zero() {
        return Err(Error::value(place("runs"), "they run for no time", "write how long, like `4h`"));
    }
    let (from, until) = bounds(made, length);
    if from > until {
        return Err(Error::value(
            place("until"),
            "it is before `from`, or `from` is after the end",
            "write them the other way round",
        ));
    }
    Ok(())
}

fn bounds(made: &Made, length: Span) -> (Span, Span) {
    (made.from.map_or(Span::ZERO, |from| from.0), made.until.map_or(length, |until| until.0).min(length))
}

fn stream(at: usize, made: &Made, seed: u64, length: Span) -> Vec<Drawn> {
    let (from, until) = bounds(made, length);
    let width = until.as_millis() - from.as_millis();
    let weights: Vec<f64> = made.sizes.iter().map(|size| size.weight).collect();
    let one = |number: u32| {
        let mut draw = Draw::of(seed, Purpose::Made, (at as u64) << 32 | u64::from(number));
        let later = if made.at_once { 0 } else { draw.below(width.max(1)) };
        let size = made.sizes[draw.weighted(&weights)];
        // Log-normal: the median times the factor to a standard normal power.
        let factor = made.varies.powf(draw.normal());
        let user = made.user.clone().or_else(|| made.budget.clone());
        let job = TraceJob {
            name: format!("{}-{number}", made.user.as_deref().or(made.budget.as_deref()).unwrap_or("made")),
            line: u64::from(number),
            submitted_at: Timestamp::ZERO.plus(from).plus(Span::from_millis(later)),
            duration: times(made.runs.0, factor).max(Span::from_secs(1)),
            gpus: size.gpus,
            nodes: None,
            gpu_type: None,
            team: made.budget.clone(),
            user: user.or_else(|| Some(format!("user-{}", number % 40))),
            time_limit: made.time_limit.map(|limit| limit.0),
            min_runtime: made.min_runtime.map(|minimum| minimum.0),
            is_free: made.min_runtime.map(|minimum| minimum.0.is_zero()),
            waited: None,
            end: TraceEnd::Completed,
        };
        Drawn { job, stream: at }
    };
    (0..made.count).map(one).collect()
}

/// Returns a span times a factor, at most the longest span there is.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a made-up time needs no exact millisecond, and is bounded"
)]
pub(super) fn times(span: Span, factor: f64) -> Span {
    let ms = (span.as_millis() as f64 * factor).clamp(0.0, Span::MAX.as_millis() as f64);
    Span::from_millis(ms as u64)
}
