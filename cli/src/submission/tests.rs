use std::path::Path;

use proto::v1::launch::Program;

use super::{EXAMPLE, Flags, Origin, Ready, SCHEMA, Submission, build, read, yaml};
use crate::failure::Failure;
use crate::form::Style;

fn ready(text: &str, flags: &Flags, argv: &[&str]) -> Result<Ready, Failure> {
    let origin = Origin { file: "job.yaml".into(), text: text.into() };
    let file = if text.is_empty() { Submission::default() } else { yaml(&origin)? };
    build((file, origin), flags, argv.iter().map(|word| (*word).to_string()).collect(), None)
}

/// Returns the failure of a submission as a person sees it.
fn told(text: &str) -> String {
    match ready(text, &Flags::default(), &[]) {
        Err(failure) => failure.render(Style::plain()),
        Ok(ready) => panic!("accepted: {:?}", ready.job),
    }
}

#[test]
fn the_examples_are_submissions() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for name in ["debug.yaml", "train.yaml", "gang.yaml", "sweep.yaml"] {
        let (file, origin) = read(&examples.join(name)).expect(name);
        let ready = build((file, origin), &Flags::default(), Vec::new(), None).expect(name);
        assert!(ready.job.min_runtime_ms.is_some_and(|ms| ms > 0), "{name}");
        assert!(ready.tier_from.contains(name), "{}", ready.tier_from);
    }
    let ready = ready(EXAMPLE, &Flags::default(), &[]).expect("the printed example");
    assert_eq!((ready.job.min_runtime_ms, ready.job.signal), (Some(1_800_000), Some(15)));
}

#[test]
fn every_field_arrives() {
    let text = "
name: n
budget: a/b
command: [prog, --x, '1']
working_dir: /w
output: o
env: { B: two, A: 1 }
secrets: [s]
cluster: main
resources: { gpus: 8, gpus_per_node: 8, gpu_type: h100, cpus: 4, memory: 64GiB }
contract: { min_runtime: 4h, time_limit: 3d, resumable: true, grace: 120s, signal: TERM, checkpoint_every: 15m,
  checkpoint_glob: 'c/*', requeue_code: 85, turn: last, retries: 2 }
";
    let Ready { job, launch, tier_from, .. } = ready(text, &Flags::default(), &[]).expect("all fields");
    let shape = job.shape.clone().expect("always there");
    assert_eq!((shape.nodes, shape.gpus_per_node, shape.cpus), (1, 8, Some(4)));
    assert_eq!((shape.gpu_type.as_deref(), shape.memory_bytes), (Some("h100"), Some(64 << 30)));
    assert_eq!((job.min_runtime_ms, job.time_limit_ms), (Some(14_400_000), Some(259_200_000)));
    assert_eq!((job.grace_ms, job.signal, job.checkpoint_every_ms), (Some(120_000), Some(15), Some(900_000)));
    assert_eq!((job.requeue_code, job.retries, job.turn.as_deref()), (Some(85), 2, Some("last")));
    assert_eq!((job.resumable, job.cluster.as_deref()), (Some(true), Some("main")));
    assert_eq!(
        (job.checkpoint_glob.clone(), launch.checkpoint_glob),
        (Some("c/*".into()), Some("c/*".into()))
    );
    assert_eq!((launch.working_dir.as_str(), launch.output.as_deref()), ("/w", Some("o")));
    let env: Vec<_> = launch.env.iter().map(|var| (var.name.as_str(), var.value.as_str())).collect();
    assert_eq!(env, [("A", "1"), ("B", "two")]);
    assert_eq!(launch.secrets, ["s"]);
    assert_eq!(tier_from, "min_runtime in job.yaml");
    assert!(
        matches!(launch.program, Some(Program::Command(command)) if command.argv == ["prog", "--x", "1"])
    );
}

#[test]
fn what_a_job_waits_for_its_tasks_and_its_places_arrive() {
    let text = "
budget: a
command: [x]
array: 0-99:10%4
after: [4190, '4191:ok', '4200[7]']
resources: { gpu_type: [h100, a100], within: 2, exclude: [node-03, node-04] }
";
    let Ready { job, .. } = ready(text, &Flags::default(), &[]).expect("all fields");
    let shape = job.shape.clone().expect("always there");
    assert_eq!(
        (shape.gpu_type.as_deref(), shape.or_types, shape.within),
        (Some("h100"), vec!["a100".into()], Some(2))
    );
    assert_eq!(job.exclude, ["node-03", "node-04"]);
    assert_eq!(job.array.as_deref(), Some("0-90:10%4"));
    let after: Vec<_> = job.after.iter().map(|after| (after.job, after.task, after.ok)).collect();
    assert_eq!(after, [(4190, None, false), (4191, None, true), (4200, Some(7), false)]);
    let flags = Flags {
        array: Some("7".into()),
        after: vec!["5:ok".into()],
        gpu_type: vec!["l40".into()],
        exclude: vec!["n1".into()],
        within: Some(1),
        ..Flags::default()
    };
    let Ready { job, .. } = ready(text, &flags, &[]).expect("flags win");
    let shape = job.shape.clone().expect("always there");
    assert_eq!((shape.gpu_type.as_deref(), shape.or_types, shape.within), (Some("l40"), vec![], Some(1)));
    assert_eq!((job.array.as_deref(), job.after.len(), job.exclude), (Some("7"), 1, vec!["n1".to_string()]));
}

#[test]
fn asks_that_cannot_be_are_told_where_they_stand() {
    let wrong = |field: &str| told(&format!("budget: a\ncommand: [x]\n{field}\n"));
    for (field, said) in [
        ("array: 9-0", "its end is below its start"),
        ("array: 0-9%0", "no task could ever run"),
        ("array: 0-1999999", "at most 1,000,000"),
        ("array: 1,1", "twice"),
        ("after: [x]", "is not a job"),
        ("after: ['4190:failed']", "the only word behind a job is `ok`"),
        ("resources: { gpu_type: [] }", "empty list"),
    ] {
        let told = wrong(field);
        assert!(told.contains(said), "{field}: {told}");
    }
    assert!(wrong("array: 9-0").contains("job.yaml:3"), "{}", wrong("array: 9-0"));
}

#[test]
fn flags_go_before_the_file() {
    let text = "budget: a/b\ncommand: [x]\nresources: { nodes: 2, gpus_per_node: 8 }\ncontract: { min_runtime: 4h }\n";
    let flags = Flags {
        gpus: Some(1),
        min_runtime: Some("30m".into()),
        not_resumable: true,
        env: vec!["A=b=c".into()],
        ..Flags::default()
    };
    let Ready { job, launch, tier_from, .. } = ready(text, &flags, &[]).expect("flags and a file");
    assert_eq!(job.shape.map(|shape| (shape.nodes, shape.gpus_per_node)), Some((1, 1)));
    assert_eq!(
        (job.min_runtime_ms, job.resumable, tier_from.as_str()),
        (Some(1_800_000), Some(false), "--min-runtime")
    );
    assert_eq!(launch.env[0].value, "b=c");
    let flags = Flags { unallocated: true, ..Flags::default() };
    assert_eq!(ready(text, &flags, &[]).expect("free tier").job.min_runtime_ms, Some(0));
}

#[test]
fn a_command_behind_the_dashes_needs_no_file() {
    let flags = Flags { budget: Some("a".into()), ..Flags::default() };
    let Ready { job, launch, .. } = ready("", &flags, &["/bin/echo", "hi"]).expect("a command");
    assert_eq!((job.name.as_str(), job.min_runtime_ms), ("echo", None));
    assert!(launch.working_dir.starts_with('/'));
}

#[test]
fn no_tier_is_chosen_silently() {
    assert_eq!(
        ready("budget: a\ncommand: [x]\n", &Flags::default(), &[]).expect("no tier").job.min_runtime_ms,
        None
    );
}

#[test]
fn unknown_fields_point_to_their_line() {
    assert_eq!(
        told("budget: a/b\ncommand: [x]\ncontract:\n  min_runtme: 8h\n"),
        "error[B1012]: unknown field `min_runtme`
  job.yaml:4:3
   4 |   min_runtme: 8h
     |   ^^^^^^^^^^ no such field
  fix   did you mean `min_runtime`?
"
    );
    let said = told("budget: a/b\ncommand: [x]\npriority: high\n");
    assert!(said.contains("unknown field `priority`") && said.contains("job.yaml:3:1"), "{said}");
    assert!(told("budget: a\nbudget: b\ncommand: [x]\n").contains("budget"), "a field stands twice");
}

#[test]
fn wrong_values_point_to_their_line() {
    for (value, said) in [("-1h", "negative"), ("1e99", "not a length of time"), ("4000d", "ten years")] {
        let text = told(&format!("budget: a\ncommand: [x]\ncontract: {{ min_runtime: {value} }}\n"));
        assert!(text.contains(said) && text.contains("job.yaml:3:"), "{text}");
    }
    for (field, value) in [("gpus", "-1"), ("gpus", "many"), ("memory", "64"), ("gpus", "5000000000")] {
        let text = told(&format!("budget: a\ncommand: [x]\nresources: {{ {field}: {value} }}\n"));
        assert!(text.contains("job.yaml:3:"), "{text}");
    }
    assert!(told("budget: [\n").contains("not valid YAML"), "{}", told("budget: [\n"));
}

#[test]
fn shapes_that_contradict_themselves_are_refused() {
    for shape in
        ["gpus: 10, gpus_per_node: 8", "gpus: 9, nodes: 2", "gpus: 8, nodes: 2, gpus_per_node: 8", "nodes: 2"]
    {
        let text = told(&format!("budget: a\ncommand: [x]\nresources: {{ {shape} }}\n"));
        assert!(text.starts_with("error[B1201]"), "{text}");
    }
    assert!(told("budget: a\ncommand: [x]\nscript: y\n").contains("both"));
    assert!(told("budget: a\n").contains("nothing to run"));
    assert!(told("command: [x]\n").contains("no budget is named"));
    let both = told("budget: a\ncommand: [x]\ncontract: { min_runtime: 1h, unallocated: true }\n");
    assert!(both.contains("contradict"), "{both}");
}

#[test]
fn a_refusal_points_to_the_fields_it_is_about() {
    let text = "budget: a\ncommand: [x]\ncontract:\n  min_runtime: 8h\n  time_limit: 30m\n";
    let file = ready(text, &Flags::default(), &[]).expect("judged by the control plane");
    let told = file
        .point(Failure::new(1203, "minimum runtime is longer than the time limit"))
        .render(Style::plain());
    assert_eq!(
        told,
        "error[B1203]: minimum runtime is longer than the time limit
  job.yaml:4:16
   4 |   min_runtime: 8h
     |                ^^ 8 h of protection
   5 |   time_limit: 30m
     |               ^^^ but the job is stopped after 30 min
  fix   Shorten `min_runtime`, or raise `time_limit`.
nothing was submitted
"
    );
    let flags = Flags { min_runtime: Some("9h".into()), ..Flags::default() };
    let flagged =
        ready(text, &flags, &[]).expect("judged by the control plane").point(Failure::new(1202, "x"));
    assert_eq!(flagged.place, None, "the flag is at fault, not the file");
}

#[test]
fn priority_says_what_replaced_it() {
    let flags = Flags { priority: Some("high".into()), budget: Some("a".into()), ..Flags::default() };
    let failure = ready("", &flags, &["x"]).expect_err("there is none");
    assert_eq!(failure.code, crate::codes::NO_PRIORITY);
    assert!(failure.fix.contains("--turn"), "{}", failure.fix);
}

/// The schema names the same fields as the reader: what it does not know is refused, and the other way round.
#[test]
fn the_schema_has_every_field_and_no_other() {
    let schema: serde_json::Value = serde_json::from_str(SCHEMA).expect("JSON");
    let properties = schema["properties"].as_object().expect("an object");
    let names = |value: &serde_json::Value| -> Vec<String> {
        value["properties"].as_object().expect("an object").keys().cloned().collect()
    };
    for group in ["", "resources", "contract"] {
        let known = if group.is_empty() { names(&schema) } else { names(&properties[group]) };
        let text = if group.is_empty() {
            "no_such_field: 1\n".into()
        } else {
            format!("{group}: {{ no_such_field: 1 }}\n")
        };
        let listed = told(&text);
        let listed: Vec<&str> = listed
            .lines()
            .find_map(|line| line.trim().strip_prefix("fix   fields here are: "))
            .expect("the fields are listed")
            .split(", ")
            .collect();
        let (mut known, mut listed) = (known, listed);
        known.sort();
        listed.sort_unstable();
        assert_eq!(known, listed, "{group}");
    }
}
