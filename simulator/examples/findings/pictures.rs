//! Pictures of the timeline: of a run's own page, as Chromium draws it, cut out and made small.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use simulator::report::page;
use simulator::sweep::Variant;

use crate::parts::REAL;
use crate::rows::{Runs, real};

/// Names under which a browser is installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// Two days in the middle, wide enough that a job of minutes is seen.
const FROM_DAY: u64 = 6;
const UNTIL_DAY: u64 = 8;
const DAY_MS: u64 = 86_400_000;

/// The window; high enough for the timeline of 48 nodes.
const WIDTH: u32 = 1200;
const HEIGHT: u32 = 2400;

/// What stands above the timeline and belongs to it: its legend.
const LEGEND: usize = 64;

/// A picture of a page is at most so large.
const BYTES_MAX: usize = 300_000;

/// Where a browser is, if any.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let named = BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    named.into_iter().find(|program| program.is_file())
}

/// Makes the pictures beside the page, and the text that shows them.
pub fn pictures(runs: &Runs, docs: &Path) -> Result<String> {
    let mut text = String::from("## Two days of each\n");
    writeln!(
        text,
        "\nThe timeline of the page that `bursar simulate report` writes, demand 3, first seed, days {} and {}: a row a node. \
         Hue: the team. Solid: protected. Hatched: interruptible. Pale with a dotted outline: free tier. Red right edge: preempted. \
         The number at the right: preemptions on that node in the whole run.",
        FROM_DAY + 1,
        UNTIL_DAY
    )?;
    let browser = browser().context("not available: pictures of the page need Chromium")?;
    for name in REAL {
        let scenario = real(name, 3.0)?;
        eprintln!("  {name}");
        let html = page(&runs.once(&scenario, Variant::new())?.record)?;
        let file = format!("pictures/{name}.png");
        let bytes = timeline(&browser, &html)?;
        ensure!(bytes.len() <= BYTES_MAX, "{file} has {} bytes", bytes.len());
        std::fs::create_dir_all(docs.join("pictures"))?;
        std::fs::write(docs.join(&file), bytes)?;
        writeln!(text, "\n**{name}**\n\n![Which job was on which GPUs of {name}, two days]({file})")?;
    }
    Ok(text)
}

/// Loads a page in the browser and returns its timeline, as PNG.
fn timeline(browser: &Path, html: &str) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let (file, picture) = (folder.path().join("page.html"), folder.path().join("picture.png"));
    std::fs::write(&file, html)?;
    let address = format!("file://{}#from={}&to={}", file.display(), FROM_DAY * DAY_MS, UNTIL_DAY * DAY_MS);
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-dev-shm-usage", "--force-device-scale-factor=1"])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=20000"])
        .arg("--blink-settings=preferredColorScheme=1")
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--window-size={WIDTH},{HEIGHT}"))
        .arg(format!("--screenshot={}", picture.display()))
        .args(["--dump-dom", &address])
        .output()
        .context("failed to start the browser")?;
    ensure!(output.status.success(), "the browser failed: {}", String::from_utf8_lossy(&output.stderr));
    let dom = String::from_utf8(output.stdout)?;
    let geometry = dom.split_once("data-geometry=\"").and_then(|(_, rest)| rest.split_once('"'));
    let (geometry, _) = geometry.context("the timeline was not drawn")?;
    let geometry: serde_json::Value = serde_json::from_str(&geometry.replace("&quot;", "\""))?;
    let rows = geometry["rows"].as_array().context("rows")?;
    let last = rows.last().and_then(|row| row[0].as_f64()).context("a row")?;
    let top = whole(geometry["y"].as_f64().context("its place")?)?;
    cut(&picture, top.saturating_sub(LEGEND), top + whole(last)? + 24)
}

fn whole(number: f64) -> Result<usize> {
    Ok(format!("{number:.0}").parse()?)
}

/// Cuts rows out of a picture, in few colours.
fn cut(picture: &Path, from: usize, until: usize) -> Result<Vec<u8>> {
    let mut reader = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(picture)?)).read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().context("a picture of a known size")?];
    let info = reader.next_frame(&mut bytes)?;
    ensure!(info.bit_depth == png::BitDepth::Eight, "not 8 bits a channel");
    let (width, channels) = (usize::try_from(info.width)?, info.color_type.samples());
    let line = width * channels;
    let until = until.min(bytes.len() / line);
    let pixels = bytes[from * line..until * line].chunks(channels);
    // Sixteen levels a channel: enough for a dozen of hues, and half the bytes.
    let few = |level: u8| (level / 16) * 17;
    let data: Vec<u8> = pixels.flat_map(|pixel| [few(pixel[0]), few(pixel[1]), few(pixel[2])]).collect();
    let mut made = Vec::new();
    let mut encoder = png::Encoder::new(&mut made, info.width, u32::try_from(until - from)?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&data)?;
    writer.finish()?;
    Ok(made)
}
