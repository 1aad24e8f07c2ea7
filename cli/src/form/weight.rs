//! Weights of types of GPU: `1`, `0.35`.

/// Reads a weight in thousandths: digits with at most three after a point, more than nothing.
pub fn parse(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 3 {
        return None;
    }
    let milli: u32 = format!("{part:0<3}").parse().ok()?;
    let milli = whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(milli)?;
    (milli > 0 && milli <= 1_000_000).then_some(milli)
}

/// Writes a weight of thousandths.
pub fn show(milli: u32) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_read_as_it_is_written() {
        for (text, milli) in
            [("1", 1_000), ("0.35", 350), ("12.5", 12_500), ("0.001", 1), ("1000", 1_000_000)]
        {
            assert_eq!(parse(text), Some(milli), "{text}");
            assert_eq!(show(milli), text);
        }
        for bad in ["", "0", "0.0", "-1", "1.2345", "1,5", "1e3", "1001", ".5", "1.", "99999999999"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
