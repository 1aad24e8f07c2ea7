//! Amounts of memory: `64GiB`, `512MiB`.

/// Reads an amount of memory, in bytes.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit: u64 = match &text[digits..] {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong(text)),
    };
    if digits == 0 {
        return Err(wrong(text));
    }
    let bytes = text[..digits].parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    bytes.ok_or_else(|| format!("`{text}` is more memory than can be counted"))
}

fn wrong(text: &str) -> String {
    format!(
        "`{text}` is not an amount of memory: write a whole number with B, KiB, MiB, GiB or TiB, like `64GiB`"
    )
}

/// Returns an amount of memory in the largest unit that keeps one decimal useful.
pub fn show(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in units {
        if bytes >= unit {
            let tenths = bytes / unit * 10 + bytes % unit * 10 / unit;
            let (whole, tenth) = (tenths / 10, tenths % 10);
            return if tenth == 0 { format!("{whole} {name}") } else { format!("{whole}.{tenth} {name}") };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::{parse, show};

    #[test]
    fn sizes_name_their_unit() {
        assert_eq!(parse("64GiB"), Ok(64 << 30));
        assert_eq!(parse("512MiB"), Ok(512 << 20));
        for bad in ["64", "64GB", "GiB", "-1GiB", "1.5GiB", "99999999999999999999GiB", "99999999999TiB"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(show(64 << 30), "64 GiB");
        assert_eq!(show((3 << 30) / 2), "1.5 GiB");
        assert_eq!(show(12), "12 B");
    }
}
