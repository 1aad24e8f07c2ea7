//! Made-up jobs.

use scheduler_core::unit::{Span, Timestamp};

use super::draw::{Draw, Purpose};
use super::{Error, Made};
use crate::trace::{TraceEnd, TraceJob};

/// When a made-up job comes, and which of its stream it is: in order of submission.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Coming {
    at: Timestamp,
    stream: usize,
    number: u32,
}

/// Draws all streams: returns each job with its stream's place, in order of submission. Only when they come is drawn at
/// once; the rest of a job is drawn as it is taken, so that a year of them is never there at a time.
pub(super) fn draw(
    streams: &[Made],
    seed: u64,
    length: Span,
) -> Result<impl Iterator<Item = (usize, TraceJob)>, Error> {
    let mut made = Vec::new();
    let mut all = Vec::new();
    for (place, stream) in streams.iter().enumerate() {
        check(place, stream, length)?;
        let stream = Stream::new(place, stream, seed, length);
        let coming = |number| Coming { at: stream.begin(number).1, stream: place, number };
        all.extend((0..stream.made.count).map(coming));
        made.push(stream);
    }
    all.sort_unstable();
    let job = move |(at, coming): (usize, Coming)| {
        let job = made[coming.stream].job(coming.number);
        (coming.stream, TraceJob { line: at as u64 + 1, ..job })
    };
    Ok(all.into_iter().enumerate().map(job))
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

/// One of the scenario's streams.
struct Stream<'a> {
    place: u64,
    made: &'a Made,
    seed: u64,
    from: Span,
    /// Its jobs come within so long.
    width: Span,
    weights: Vec<f64>,
}

impl<'a> Stream<'a> {
    fn new(place: usize, made: &'a Made, seed: u64, length: Span) -> Self {
        let (from, until) = bounds(made, length);
        Self {
            place: place as u64,
            made,
            seed,
            from,
            width: Span::from_millis(until.as_millis() - from.as_millis()),
            weights: made.sizes.iter().map(|size| size.weight).collect(),
        }
    }

    /// Returns a job's chances, of which the first is drawn: when it comes.
    fn begin(&self, number: u32) -> (Draw, Timestamp) {
        let mut draw = Draw::of(self.seed, Purpose::Made, self.place << 32 | u64::from(number));
        let later = if self.made.at_once { 0 } else { draw.below(self.width.as_millis().max(1)) };
        (draw, Timestamp::ZERO.plus(self.from).plus(Span::from_millis(later)))
    }

    fn job(&self, number: u32) -> TraceJob {
        let (mut draw, submitted_at) = self.begin(number);
        let made = self.made;
        let size = made.sizes[draw.weighted(&self.weights)];
        // Log-normal: the median times the factor to a standard normal power.
        let factor = made.varies.powf(draw.normal());
        let user = made.user.clone().or_else(|| made.budget.clone());
        TraceJob {
            name: format!("{}-{number}", made.user.as_deref().or(made.budget.as_deref()).unwrap_or("made")),
            line: u64::from(number),
            submitted_at,
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
        }
    }
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
