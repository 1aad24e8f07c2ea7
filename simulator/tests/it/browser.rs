//! A headless Chromium, as far as the page's tests need one: it loads a file and tells what came of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::not_available;

/// Names under which it is installed, the first one found is taken.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// How it is started, whatever the page.
const SWITCHES: [&str; 14] = [
    "--headless=new",
    // In a container the browser's own sandbox has no rights to set itself up; the page is ours.
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
    // Nothing is to be asked for, and nothing would be reached.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
];

/// A browser on this machine.
#[derive(Debug)]
pub struct Browser {
    program: PathBuf,
    folder: tempfile::TempDir,
}

/// What came of a page.
#[derive(Debug)]
pub struct Seen {
    /// The document after the scripts ran, as HTML.
    pub dom: String,
    /// The picture of it.
    pub picture: Picture,
    /// What the scripts wrote to the console, errors included.
    pub console: Vec<String>,
    /// Every address that the page asked for over any network.
    pub requests: Vec<String>,
}

/// A picture, as red, green and blue of each pixel.
#[derive(Debug)]
pub struct Picture {
    width: usize,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// Returns the colour at a place, rounded down.
    pub fn at(&self, x: f64, y: f64) -> [u8; 3] {
        self.pixels[whole(y) * self.width + whole(x)]
    }

    /// Returns the colours of a block.
    pub fn block(&self, (x, y): (f64, f64), (width, height): (u32, u32)) -> Vec<[u8; 3]> {
        let rows = (0..height).map(|row| y + f64::from(row));
        rows.flat_map(|y| (0..width).map(move |column| (x + f64::from(column), y)))
            .map(|(x, y)| self.at(x, y))
            .collect()
    }
}

/// Returns a place on a picture.
fn whole(place: f64) -> usize {
    format!("{:.0}", place.floor()).parse().expect("a place on the picture")
}

impl Browser {
    /// Finds one; says that there is none, if so.
    pub fn find() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let named = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        let Some(program) = named.into_iter().find(|program| program.is_file()) else {
            not_available("the page in a browser: no Chromium is installed");
            return None;
        };
        Some(Self { program, folder: tempfile::tempdir().expect("a folder for the browser's files") })
    }

    /// Writes a page, and loads it with a fragment, in a window as wide as given and 3,000 pixels high.
    pub fn load(&self, page: &str, fragment: &str, (width, is_dark): (u32, bool)) -> Seen {
        let file = self.folder.path().join("page.html");
        std::fs::write(&file, page).expect("the page is written");
        let address = format!("file://{}#{fragment}", file.display());
        let picture = self.folder.path().join("picture.png");
        let net = self.folder.path().join("net.json");
        // A browser that hangs is ended: a page takes seconds.
        let output = Command::new("timeout")
            .arg("240")
            .arg(&self.program)
            .args(SWITCHES)
            .arg(format!("--user-data-dir={}", self.folder.path().join("profile").display()))
            .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)))
            .arg(format!("--window-size={width},3000"))
            .arg(format!("--log-net-log={}", net.display()))
            .arg(format!("--screenshot={}", picture.display()))
            .args(["--dump-dom", &address])
            .output()
            .expect("the browser starts");
        let talk = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the browser failed: {talk}");
        Seen {
            dom: String::from_utf8(output.stdout).expect("HTML is UTF-8"),
            picture: decoded(&picture),
            console: talk.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect(),
            requests: requests(&net),
        }
    }
}

/// Returns the addresses that the page asked for over a network, from the browser's log: an event a line. What the browser
/// asks on its own account has no origin.
fn requests(log: &Path) -> Vec<String> {
    let log = std::fs::read_to_string(log).expect("the browser logs the network");
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let asked = log.lines().filter_map(|line| {
        let of_page = field(line, "initiator").is_some_and(|initiator| initiator != "not an origin");
        field(line, "url").filter(|url| of_page && !url.starts_with("file:") && !url.starts_with("data:"))
    });
    let mut asked: Vec<String> = asked.collect();
    asked.dedup();
    asked
}

fn decoded(path: &Path) -> Picture {
    let file = std::fs::File::open(path).expect("there is a picture");
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().expect("a PNG");
    let mut bytes = vec![0; reader.output_buffer_size().expect("a picture of a known size")];
    let info = reader.next_frame(&mut bytes).expect("a whole picture");
    assert_eq!(info.bit_depth, png::BitDepth::Eight);
    let channels = info.color_type.samples();
    let pixels = bytes[..info.buffer_size()].chunks(channels).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
    Picture { width: usize::try_from(info.width).expect("a width"), pixels: pixels.collect() }
}
