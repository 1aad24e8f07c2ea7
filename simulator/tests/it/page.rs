//! The page, as a browser shows it: colours at known places, tables equal to the data, nothing asked of anybody.

use std::sync::OnceLock;

use scheduler_core::unit::Timestamp;
use simulator::measure::measure;
use simulator::record::{AttemptEnd, AttemptRecord, GpuPlace, Record};
use simulator::report::{details, page};

use crate::browser::{Browser, Seen};
use crate::made::{Size, WEEK, at, week};

const DAY: u64 = 86_400_000;

/// The made week's page; in this one the tests look for what they know.
fn made() -> &'static (Record, String) {
    static MADE: OnceLock<(Record, String)> = OnceLock::new();
    MADE.get_or_init(|| {
        let record = week(1, WEEK);
        let page = page(&record).expect("numbers have a place in JSON");
        std::fs::write(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("week.html"), &page)
            .expect("the page is written");
        (record, page)
    })
}

/// Where the timeline lies on the page, as it says itself.
struct Geometry(serde_json::Value);

impl Geometry {
    fn of(seen: &Seen) -> Self {
        let (_, rest) = seen.dom.split_once("data-geometry=\"").expect("the timeline was drawn");
        let (json, _) = rest.split_once('"').expect("the attribute ends");
        Self(serde_json::from_str(&json.replace("&quot;", "\"")).expect("JSON"))
    }

    fn number(&self, path: &str) -> f64 {
        self.0.pointer(path).and_then(serde_json::Value::as_f64).expect("a number")
    }

    /// Returns where a moment lies.
    fn x(&self, ms: u64) -> f64 {
        let (from, until) = (self.number("/from"), self.number("/until"));
        let part = (real(ms) - from) / (until - from);
        self.number("/x").round() + self.number("/left") + part * self.number("/plot")
    }

    /// Returns where a GPU's row begins.
    fn y(&self, gpu: GpuPlace) -> f64 {
        let (node, slot) = (gpu.node(), gpu.slot());
        let (top, high) = (self.number(&format!("/rows/{node}/0")), self.high(node));
        // A canvas is put on whole pixels.
        self.number("/y").round() + top + f64::from(slot) * high
    }

    fn high(&self, node: usize) -> f64 {
        self.number(&format!("/rows/{node}/1"))
    }
}

fn real(ms: u64) -> f64 {
    f64::from(u32::try_from(ms).expect("weeks fit"))
}

fn since_begin(record: &Record, at: Timestamp) -> u64 {
    at.since(record.begin).as_millis()
}

/// Returns the hue in degrees, none of a grey.
fn hue([r, g, b]: [u8; 3]) -> Option<f64> {
    let [r, g, b] = [r, g, b].map(f64::from);
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    let range = most - least;
    if range < 12.0 {
        return None;
    }
    let sixth = if (most - r).abs() < 0.5 {
        ((g - b) / range).rem_euclid(6.0)
    } else if (most - g).abs() < 0.5 {
        (b - r) / range + 2.0
    } else {
        (r - g) / range + 4.0
    };
    Some(sixth * 60.0)
}

fn is_red([r, g, b]: [u8; 3]) -> bool {
    r > 180 && g < 110 && b < 110
}

fn brightness([r, g, b]: [u8; 3]) -> u32 {
    u32::from(r) + u32::from(g) + u32::from(b)
}

/// Returns the colour of a team's swatch in the legend.
fn swatch(seen: &Seen, budget: usize) -> [u8; 3] {
    let place = format!("data-team=\"{budget}\" style=\"background: rgb(");
    let (_, rest) = seen.dom.split_once(&place).expect("the legend has the team");
    let (numbers, _) = rest.split_once(')').expect("a colour");
    let numbers: Vec<u8> =
        numbers.split(',').map(|number| number.trim().parse().expect("a number")).collect();
    [numbers[0], numbers[1], numbers[2]]
}

/// Returns an attempt on whole nodes that ended within the first two days.
fn find(record: &Record, is_meant: impl Fn(&AttemptRecord, bool) -> bool) -> &AttemptRecord {
    let is_free = |attempt: &AttemptRecord| record.jobs[attempt.job].is_free;
    let found = record.attempts.iter().find(|attempt| {
        attempt.gpus.len() >= 8
            && attempt.ended_at.is_some_and(|ended| ended < at(2880))
            && is_meant(attempt, is_free(attempt))
    });
    found.expect("the made week has such an attempt")
}

fn minutes(attempt: &AttemptRecord) -> (u64, u64) {
    let (started, ended) = (attempt.started_at.expect("it ran"), attempt.ended_at.expect("it ended"));
    let protected = attempt.protected_until.map_or(0, |until| until.since(started).as_millis() / 60_000);
    (protected, ended.since(started).as_millis() / 60_000)
}

fn same_hue(colours: &[[u8; 3]], team: [u8; 3]) -> bool {
    let team = hue(team).expect("teams have hues");
    colours.iter().filter_map(|colour| hue(*colour)).all(|hue| (hue - team).abs() < 12.0)
}

fn spread(colours: &[[u8; 3]]) -> u32 {
    let bright = || colours.iter().map(|colour| brightness(*colour));
    bright().max().expect("a block") - bright().min().expect("a block")
}

#[test]
fn every_state_has_its_look_in_light_and_dark() {
    let Some(browser) = Browser::find() else { return };
    let (record, page) = made();
    for is_dark in [false, true] {
        let seen = browser.load(page, &format!("from=0&to={}", 2 * DAY), (1400, is_dark));
        let geometry = Geometry::of(&seen);
        let background = seen.picture.at(2.0, 2.0);
        assert_eq!(brightness(background) > 600, !is_dark, "{background:?}");
        solid_then_hatched_then_red(record, &seen, &geometry);
        pale_with_dots(record, &seen, &geometry, background);
        let (gpu, from, until) = gap(record);
        let at = (geometry.x(u64::midpoint(from, until)), geometry.y(gpu) + 2.0);
        assert_eq!(seen.picture.at(at.0, at.1), background, "an idle GPU is blank");
    }
}

/// Returns a GPU that nobody had for an hour within the first two days, and from when until when.
fn gap(record: &Record) -> (GpuPlace, u64, u64) {
    let gaps = record.attempts.iter().enumerate().filter_map(|(place, attempt)| {
        let next = record.attempts[place + 1..].iter().find(|next| next.gpus[0] == attempt.gpus[0])?;
        let freed = attempt.freed_at.filter(|_| next.placed_at < at(2880))?;
        Some((attempt.gpus[0], since_begin(record, freed), since_begin(record, next.placed_at)))
    });
    let mut long = gaps.filter(|(_, from, until)| until - from > 3_600_000);
    long.next().expect("the made week has a gap")
}

fn solid_then_hatched_then_red(record: &Record, seen: &Seen, geometry: &Geometry) {
    let attempt = find(record, |attempt, is_free| {
        let (protected, ran) = minutes(attempt);
        !is_free && attempt.end == Some(AttemptEnd::Preempted) && protected > 60 && ran > protected + 60
    });
    let team = swatch(seen, record.jobs[attempt.job].budget);
    let place = attempt.gpus[1];
    let y = geometry.y(place) + 1.0;
    let ms = |at: Option<Timestamp>| since_begin(record, at.expect("it ran and ended"));
    let (started, safe) = (ms(attempt.started_at), ms(attempt.protected_until));
    let ended = ms(attempt.ended_at);

    let solid = seen.picture.block((geometry.x(started) + 8.0, y), (12, 5));
    assert!(solid.iter().all(|colour| *colour == solid[0]), "protected is solid");
    assert!(same_hue(&solid, team), "{:?} is not of the team {team:?}", solid[0]);
    let hatched = seen.picture.block((geometry.x(safe) + 8.0, y), (12, 5));
    assert!(spread(&hatched) > 90, "interruptible is hatched");
    assert!(same_hue(&hatched, team));
    let edge = seen.picture.block((geometry.x(ended) - 3.0, y), (5, 5));
    assert!(edge.iter().any(|colour| is_red(*colour)), "a preempted attempt ends red: {edge:?}");
    assert!(!hatched.iter().chain(&solid).any(|colour| is_red(*colour)), "red means nothing else");
}

fn pale_with_dots(record: &Record, seen: &Seen, geometry: &Geometry, background: [u8; 3]) {
    let attempt = find(record, |attempt, is_free| is_free && minutes(attempt).1 > 120);
    let x = geometry.x(since_begin(record, attempt.started_at.expect("it ran"))) + 20.0;
    let y = geometry.y(attempt.gpus[1]);
    let inside = seen.picture.block((x, y + 2.0), (12, 3));
    assert!(inside.iter().all(|colour| *colour == inside[0]), "the free tier is not hatched");
    let shade = brightness(inside[0]).abs_diff(brightness(background));
    assert!((8..250).contains(&shade), "it is pale: {:?} on {background:?}", inside[0]);
    let outline = seen.picture.block((x, y), (16, 1));
    assert!(spread(&outline) > 60, "and has a dotted outline");
}

#[test]
fn a_node_that_is_away_is_cross_hatched_in_grey() {
    let Some(browser) = Browser::find() else { return };
    let (record, page) = made();
    let seen = browser.load(page, &format!("from={}&to={}", 2 * DAY, 3 * DAY), (1400, false));
    let geometry = Geometry::of(&seen);
    let last = u32::try_from(record.nodes.len() - 1).expect("a small number");
    // Beside the line at noon.
    let x = geometry.x(2 * DAY + DAY / 2) + 20.0;
    let block = seen.picture.block((x, geometry.y(GpuPlace::new(last, 1))), (14, 14));
    assert!(spread(&block) > 60, "hatched");
    assert!(block.iter().all(|colour| hue(*colour).is_none()), "grey");
}

/// Returns the rows of a table twin: the text of each cell.
fn rows(seen: &Seen, name: &str) -> Vec<Vec<String>> {
    let (_, rest) = seen.dom.split_once(&format!("id=\"{name}-table\"")).expect("there is such a twin");
    let (_, rest) = rest.split_once("<tbody>").expect("it has rows");
    let (body, _) = rest.split_once("</tbody>").expect("they end");
    let rows = body.split("<tr>").skip(1);
    let cells = |row: &str| {
        let cells = row.split('<').filter(|piece| piece.starts_with("th ") || piece.starts_with("td"));
        cells.map(|cell| unescaped(cell.split_once('>').expect("a tag ends").1)).collect()
    };
    rows.map(cells).collect()
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ").replace("&amp;", "&")
}

/// Writes a moment as the page does.
fn moment(record: &Record, at: Option<Timestamp>) -> String {
    let Some(at) = at else { return "-".to_owned() };
    let minutes = since_begin(record, at.min(record.end)) / 60_000;
    format!("day {} {:02}:{:02}", minutes / 1440 + 1, minutes / 60 % 24, minutes % 60)
}

#[test]
fn tables_have_the_rows_of_the_pictures_and_nothing_is_asked_of_anybody() {
    let Some(browser) = Browser::find() else { return };
    let (record, page) = made();
    let seen = browser.load(page, "table=timeline,use,delivery,waits,bill,room", (1400, false));
    assert_eq!(seen.console, Vec::<String>::new());
    assert_eq!(seen.requests, Vec::<String>::new());

    let shown = rows(&seen, "timeline");
    assert_eq!(shown.len(), record.attempts.len().min(2000));
    for (row, attempt) in shown.iter().zip(&record.attempts) {
        let job = &record.jobs[attempt.job];
        assert_eq!((row[0].as_str(), row[5].as_str()), (&*job.name, job.gpus.to_string().as_str()));
        let times = [Some(attempt.placed_at), attempt.go_at, attempt.started_at, attempt.protected_until];
        let times = times.into_iter().chain([attempt.ended_at, attempt.freed_at]);
        assert_eq!(row[7..13], times.map(|at| moment(record, at)).collect::<Vec<_>>());
    }
    let measures = measure(record);
    let tables = details(&measures);
    let (leaves, waits) = (&tables[0].rows, &tables[1].rows);
    let delivery = rows(&seen, "delivery");
    assert_eq!(delivery.len(), leaves.len());
    for (shown, told) in delivery.iter().zip(leaves) {
        assert_eq!(shown[..7], told[..7], "the page says what the terminal says");
    }
    assert_eq!(rows(&seen, "waits"), *waits);
    assert_eq!(rows(&seen, "use").len(), record.budgets.len() * 7 * 24);
    let lost: usize = rows(&seen, "bill").iter().map(|row| row[3].parse::<usize>().unwrap()).sum();
    assert_eq!(lost, record.preemptions.len());
    assert_eq!(rows(&seen, "room").len(), 7 * 24 - 1);
}

#[test]
fn above_256_gpus_nodes_are_folded_and_the_address_says_which_are_not() {
    let Some(browser) = Browser::find() else { return };
    let page = page(&week(2, Size { nodes: 40, days: 3 })).unwrap();
    let seen = browser.load(&page, "unfold=3&at=5", (1400, false));
    assert_eq!((&*seen.console, &*seen.requests), (&[][..], &[][..]));
    let geometry = Geometry::of(&seen);
    assert!((geometry.high(2) - 2.0).abs() < 1e-9 && (geometry.high(3) - 8.0).abs() < 1e-9);
    assert!(seen.dom.contains(", attempt 1: "), "the pinned span is told");
}

#[test]
fn names_of_a_trace_are_text_on_the_page() {
    let Some(browser) = Browser::find() else { return };
    let mut record = week(3, Size { nodes: 4, days: 1 });
    let hostile = "</script><img src=x onerror=alert(1)>{{data}}&\"'";
    record.scenario = hostile.to_owned();
    record.jobs.iter_mut().for_each(|job| job.name = hostile.into());
    record.nodes[0].name = hostile.to_owned();
    record.budgets[1].path = hostile.to_owned();
    let seen = browser.load(&page(&record).unwrap(), "table=timeline,delivery&at=0", (360, true));
    assert_eq!((seen.console, seen.requests), (Vec::<String>::new(), Vec::<String>::new()));
    assert!(!seen.dom.contains("<img"), "a name became an element");
    assert!(seen.dom.contains("data-drawn=\"yes\""));
}

/// Presses keys on the timeline and notes, after each, what is told and what the address says.
const KEYS: &str = r##"<pre id="log"></pre><script>
const canvas = document.getElementById("timeline-canvas");
for (const key of ["ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "+", "0", "t", "t", "Escape"]) {
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const told = document.getElementById("detail").textContent.split(",")[0];
  document.getElementById("log").append(`${told} ${location.hash}\n`);
}
</script></body>"##;

#[test]
fn spans_are_stepped_through_by_keys_and_the_address_follows() {
    let Some(browser) = Browser::find() else { return };
    let (record, page) = made();
    let seen = browser.load(&page.replace("</body>", KEYS), "", (1400, false));
    assert_eq!(seen.console, Vec::<String>::new());
    let (_, log) = seen.dom.split_once("<pre id=\"log\">").expect("the log is there");
    let log = unescaped(log.split_once("</pre>").expect("it ends").0);
    let on_first = |attempt: &&AttemptRecord| attempt.gpus.contains(&GpuPlace::new(0, 0));
    let first: Vec<&AttemptRecord> = record.attempts.iter().filter(on_first).take(2).collect();
    let name = |attempt: &AttemptRecord| record.jobs[attempt.job].name.clone();
    let lines: Vec<&str> = log.lines().collect();
    let begins = |line: usize, with: &str| assert!(lines[line].starts_with(with), "{line}: {log}");
    begins(0, &format!("{} #at=", name(first[0])));
    begins(1, &format!("{} #at=", name(first[1])));
    assert_eq!(lines[2], lines[0], "back again");
    assert_ne!(lines[3], lines[2], "another row");
    assert!(lines[4].contains("&to="), "zoomed in: {log}");
    assert_eq!(lines[5], lines[3], "the whole run");
    assert!(lines[6].contains("table=timeline") && !lines[7].contains("table"), "a table and back: {log}");
    begins(8, "Point at a span");
}

#[test]
fn a_page_that_asked_for_something_would_be_found_out() {
    let Some(browser) = Browser::find() else { return };
    let asks = "<!doctype html><img src=\"http://elsewhere.invalid/x.png\"><script>nobody.calls();</script>";
    let seen = browser.load(asks, "", (400, false));
    assert_eq!(seen.requests, ["http://elsewhere.invalid/x.png"]);
    assert!(seen.console.iter().any(|line| line.contains("nobody is not defined")), "{:?}", seen.console);
}

#[test]
fn a_page_is_one_file_with_every_place_filled() {
    let (_, page) = made();
    assert!(page.starts_with("<!doctype html>"));
    assert!(!page.contains("{{"), "a place was not filled in");
    for elsewhere in ["http://", "https://", "url(", "@import", "src="] {
        assert!(!page.contains(elsewhere), "the page asks for something: {elsewhere}");
    }
}
