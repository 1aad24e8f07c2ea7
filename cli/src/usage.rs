//! What the parser of arguments finds wrong, told like every other failure.

use crate::codes;
use crate::failure::Failure;

/// Returns what is wrong with the arguments, and where the right ones are explained.
pub fn failure(error: &clap::Error) -> Failure {
    told(&error.render().to_string())
}

/// Reads the parser's own words: the fault, tips, and a line of usage, with empty lines between them.
fn told(text: &str) -> Failure {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let mut parts = text.split("\n\n").map(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        words.join(" ")
    });
    let what = parts.next().unwrap_or_default();
    let mut fix = Vec::new();
    let mut command = String::from("bursar help");
    for part in parts {
        if let Some(usage) = part.strip_prefix("Usage: bursar") {
            let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            let names = usage.split(' ').skip(1).take_while(|word| is_name(word) && !word.starts_with('-'));
            command.extend(names.map(|name| format!(" {name}")));
        }
        // How to pass it as a word of the job's command is no help to who meant a flag.
        let tips = part.split("tip: ").skip(1).map(str::trim).filter(|tip| !tip.starts_with("to pass "));
        fix.extend(tips.map(String::from));
    }
    fix.push(format!("{command} lists the arguments"));
    Failure::new(codes::USAGE, what).fix(fix.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::told;
    use crate::exit::Exit;

    #[test]
    fn the_parser_s_words_become_a_failure_with_a_way_out() {
        let failure = told(
            "error: unexpected argument '--topp' found\n\n  tip: a similar argument exists: '--top'\n  \
             tip: to pass '--topp' as a value, use '-- --topp'\n\n\
             Usage: bursar budget tree --stale [BUDGET]\n\nFor more information, try '--help'.\n",
        );
        assert_eq!((failure.exit, failure.code), (Exit::Usage, 1001));
        assert_eq!(failure.what, "unexpected argument '--topp' found");
        assert_eq!(
            failure.fix,
            "a similar argument exists: '--top'\nbursar help budget tree lists the arguments"
        );
        let failure = told(
            "error: the following required arguments were not provided:\n  <CMD>...\n\nUsage: bursar run -- <CMD>...\n",
        );
        assert_eq!(failure.what, "the following required arguments were not provided: <CMD>...");
        assert_eq!(failure.fix, "bursar help run lists the arguments");
        let failure =
            told("error: invalid value 'x' for '--gpus <N>': invalid digit found in string\n\nFor more\n");
        assert_eq!(failure.fix, "bursar help lists the arguments");
    }
}
