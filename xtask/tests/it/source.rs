//! The scanner tells code from text.

use xtask::rules::Text;
use xtask::rules::source::Source;

fn scan(text: &str) -> Source {
    Source::scan(&Text::new("server/src/a.rs", text))
}

#[test]
fn comments_and_literals_are_not_code() {
    let source = scan(
        "fn a() { let s = \"todo!() \\\" {\"; } // dbg!\n/* { /* nested */ } */ let r = r#\"a \" } \"#;\n\
         let c = '\\''; let b = b'{'; fn f<'a>(x: &'a str) {}\n",
    );
    assert!(!source.code.contains("todo") && !source.code.contains("dbg"), "{}", source.code);
    assert_eq!(source.code.matches('{').count(), 2);
    assert_eq!(source.code.matches('}').count(), 2);
    let strings: Vec<_> = source.strings.iter().map(|s| (s.line, s.text.as_str())).collect();
    assert_eq!(strings, [(1, "todo!() \\\" {"), (2, "a \" } ")]);
    assert_eq!(source.lines().count(), 3);
}

#[test]
fn functions_are_measured_from_fn_to_closing_brace() {
    let source = scan(
        "pub fn one() {}\nfn two(a: [u8; 4]) -> u8 {\n  if a { 1 } else { 2 }\n}\ntrait T { fn none(&self); }\n",
    );
    let functions: Vec<_> = source.functions().into_iter().map(|f| (f.name, f.line, f.lines)).collect();
    assert_eq!(functions, [("one".into(), 1, 1), ("two".into(), 2, 3)]);
}

#[test]
fn test_code_is_known_by_place_and_attribute() {
    let source = scan("fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\nfn c() {}\n");
    let tests: Vec<_> = (1..=6).map(|line| source.is_test(line)).collect();
    assert_eq!(tests, [false, true, true, true, true, false]);
    let file = Source::scan(&Text::new("server/tests/it/main.rs", "fn a() {}\n"));
    assert!(file.is_test(1));
}

#[test]
fn doc_comments_are_kept_as_text() {
    let source = scan("//! Inner.\n/// Outer.\n// plain\n//// rule\nfn a() {}\n");
    let docs: Vec<_> = source.docs.iter().map(|d| (d.line, d.text.trim())).collect();
    assert_eq!(docs, [(1, "Inner."), (2, "Outer.")]);
}
