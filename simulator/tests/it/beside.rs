//! The page about two runs: what it says is what both runs say, and it asks nobody for anything.

use simulator::measure::{Measures, measure};
use simulator::report::{FIGURES, beside, figures};

use crate::browser::Browser;
use crate::made::{WEEK, week};

/// Two made weeks that differ.
fn two() -> [Measures; 2] {
    let of = |seed: u64, policy: &str| {
        let mut record = week(seed, WEEK);
        record.policy = policy.to_owned();
        measure(&record)
    };
    [of(1, "bursar"), of(2, "fifo")]
}

/// Returns the text of each cell of a figure's row.
fn row(page: &str, key: &str) -> Vec<String> {
    let (_, rest) = page.split_once(&format!("<tr id=\"figure-{key}\">")).expect("each figure has a row");
    let (row, _) = rest.split_once("</tr>").expect("rows end");
    let cells = row.split("<td class=\"n\">").skip(1);
    cells.map(|cell| cell.split_once('<').expect("cells end").0.replace("&gt;", ">")).collect()
}

#[test]
fn each_figure_of_both_runs_stands_in_its_row() {
    let runs = two();
    let page = beside(&runs[0], &runs[1]);
    let names = figures(&runs).headers;
    assert!(names[1].starts_with("bursar") && names[2].starts_with("fifo"), "{names:?}");
    assert!(
        page.contains(&format!("<th scope=\"col\">{}</th><th scope=\"col\">{}</th>", names[1], names[2]))
    );
    for figure in FIGURES {
        let shown = runs.each_ref().map(|run| (figure.value)(run).shown());
        assert_eq!(row(&page, figure.key)[..2], shown, "{}", figure.key);
    }
    assert!(!page.contains("{{"), "a place was not filled in");
    for elsewhere in ["http://", "https://", "url(", "@import", "src=", "<script"] {
        assert!(!page.contains(elsewhere), "the page asks for something: {elsewhere}");
    }
}

#[test]
fn a_change_is_from_the_first_to_the_second_and_nothing_where_nothing_changed() {
    let [one, _] = two();
    let mut two = one.clone();
    two.bill.wasted = one.bill.wasted + 1_234;
    two.delivery.period.mean_ratio = one.delivery.period.mean_ratio.map(|ratio| ratio - 0.125);
    two.heads.longest = None;
    let page = beside(&one, &two);
    assert_eq!(row(&page, "wasted")[2], "+1,234");
    assert_eq!(row(&page, "owed_mean")[2], "−12.5");
    assert_eq!(row(&page, "head_longest_ms")[2], "", "nobody knows");
    assert_eq!(row(&page, "occupancy")[2], "=");
}

#[test]
fn names_are_text_on_it() {
    let mut runs = two();
    runs[0].run.scenario = "</title><img src=x>{{style}}".to_owned();
    runs[0].delivery.leaves[0].budget = "<svg onload=x>".to_owned();
    let page = beside(&runs[0], &runs[1]);
    assert!(!page.contains("<img") && !page.contains("<svg onload"), "a name became an element");
}

#[test]
fn a_browser_draws_both_runs_in_light_and_dark_and_is_asked_for_nothing_else() {
    let Some(browser) = Browser::find() else { return };
    let [one, two] = two();
    // Where its first bars are, the page itself says: they are the first rectangles in it.
    let probe = "<pre id=\"at\"></pre><script>const at = [...document.querySelectorAll(\"#delivery rect\")].slice(0, 2)\
                 .map((bar) => { const box = bar.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; });\
                 document.getElementById(\"at\").textContent = JSON.stringify(at);</script></body>";
    let page = beside(&one, &two);
    for (is_dark, filled) in [(false, [11, 107, 203]), (true, [88, 166, 255])] {
        let seen = browser.load(&page, "", (1200, is_dark));
        assert_eq!((seen.console, seen.requests), (Vec::<String>::new(), Vec::<String>::new()));
        // The page allows no script, so the probe stands in one that does.
        let probed =
            page.replace("style-src", "script-src 'unsafe-inline'; style-src").replace("</body>", probe);
        let seen = browser.load(&probed, "", (1200, is_dark));
        let (_, at) = seen.dom.split_once("<pre id=\"at\">").expect("the probe ran");
        let at: Vec<[f64; 4]> = serde_json::from_str(at.split_once('<').expect("it ends").0).expect("places");
        let middle = |bar: [f64; 4]| seen.picture.at(bar[0] + bar[2] / 2.0, bar[1] + bar[3] / 2.0);
        assert_eq!(middle(at[0]), filled, "the first run is filled");
        assert_eq!(middle(at[1]), seen.picture.at(2.0, 2.0), "the second is an outline");
        assert_ne!(seen.picture.at(at[1][0] + at[1][2] / 2.0, at[1][1]), seen.picture.at(2.0, 2.0));
    }
}
