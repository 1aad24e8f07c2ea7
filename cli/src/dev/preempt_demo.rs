//! `bursar dev preempt-demo`: the story of a preemption on a control plane of its own, told by the commands that people
//! use: what was taken and by which right, what the victim saved, what it cost, and how it went on.

use super::args::Args;
use super::tour::{Guide, until_running};
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// A script that saves at its notice, reports, and resumes.
const TRAIN: &str = include_str!("../../../examples/train.py");

/// Tells the story.
///
/// # Errors
/// When the cluster does not come up, or the story takes another course.
pub fn run(shell: &Shell, args: &Args) -> Result<Exit, Failure> {
    let has_python = std::process::Command::new("python3").arg("--version").output();
    if !has_python.is_ok_and(|output| output.status.success()) {
        return Err(Failure::new(codes::DEV_FAILED, "not available: there is no python3 here")
            .why("the job of the story is examples/train.py")
            .fix("install python3, or take `bursar dev tour --only i`, which needs none"));
    }
    shell.say("raising a control plane with 2 nodes of 4 GPUs");
    let guide = Guide::start(args, 0)?;
    let story = Story { shell, guide: &guide, node: guide.gpus.to_string() };
    story.tell().map_err(|why| Failure::new(codes::DEV_FAILED, "the story took another course").why(why))?;
    shell.say("ending it");
    Ok(Exit::Done)
}

struct Story<'a> {
    shell: &'a Shell,
    guide: &'a Guide,
    /// GPUs of a node.
    node: String,
}

impl Story<'_> {
    fn tell(&self) -> Result<(), String> {
        self.guide.write("train.py", TRAIN)?;
        self.say("Science takes both nodes: one job in the free tier, one funded and protected for 5 s.")?;
        let train = ["--", "python3", "-u", "train.py", "--steps", "100000", "--save-every", "5"];
        let science = ["--budget", "science/agents", "--gpus", &self.node, "--resumable"];
        let free = self.submit(&[&science[..], &["--unallocated", "--name", "explore"], &train].concat())?;
        let flags = ["--min-runtime", "5s", "--grace", "10s", "--name", "train"];
        let funded = self.submit(&[&science[..], &flags, &train].concat())?;
        until_running(self.guide, free)?;
        until_running(self.guide, funded)?;
        self.show(&["queue"])?;
        self.say("Language, which used nothing yet, wants a node. The free tier makes way at once.")?;
        let first = self.takes("first")?;
        self.show(&["explain", &format!("{free}.1")])?;
        self.say(
            "It wants another one. The funded job gives way once its protection is over and science is \
             further above language than the margin.",
        )?;
        let second = self.takes("second")?;
        self.show(&["explain", &format!("{funded}.1")])?;
        self.show(&["logs", &format!("{funded}.1")])?;
        self.say("Language leaves; the job goes on under its number, from its checkpoint.")?;
        for job in [first, second] {
            self.show(&["job", "cancel", "--now", &job.to_string()])?;
        }
        until_running(self.guide, funded)?;
        self.until_resumed(funded)?;
        self.show(&["logs", &funded.to_string()])?;
        self.show(&["job", "attempts", &funded.to_string()])?;
        self.say("The price, with the restart as it was measured:")?;
        self.show(&["bill"])
    }

    fn takes(&self, name: &str) -> Result<u64, String> {
        let flags = ["--budget", "language/posttrain", "--gpus", &self.node, "--min-runtime", "20s"];
        let job = self.submit(&[&flags[..], &["--name", name, "--", "sleep", "600"]].concat())?;
        until_running(self.guide, job)?;
        Ok(job)
    }

    fn until_resumed(&self, job: u64) -> Result<(), String> {
        self.guide.until("the job to say where it goes on", || {
            let log = self.guide.run(&["logs", &job.to_string()]);
            log.out.contains("resumed at step").then_some(())
        })
    }

    fn submit(&self, args: &[&str]) -> Result<u64, String> {
        self.print(&format!("$ bursar submit {}\n\n", args.join(" ")))?;
        self.guide.submit(args)
    }

    fn show(&self, args: &[&str]) -> Result<(), String> {
        let said = self.guide.run(args).well()?;
        self.print(&format!("$ bursar {}\n{}\n", args.join(" "), said.out))
    }

    fn say(&self, text: &str) -> Result<(), String> {
        self.print(&format!("\n# {text}\n\n"))
    }

    fn print(&self, text: &str) -> Result<(), String> {
        self.shell.print(text).map_err(|_| "the reader left".to_owned())
    }
}
