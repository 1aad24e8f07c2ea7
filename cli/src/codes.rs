//! Every code a failure may carry, with its causes and what to do: what `bursar help CODE` says without a network.

use crate::exit::Exit;
use crate::form::text::wrap;

/// A code explained.
#[derive(Debug)]
pub struct Explained {
    /// The number in `B1203`.
    pub code: u16,
    /// What it means, in a few words.
    pub title: &'static str,
    /// How it comes about.
    pub causes: &'static str,
    /// What to do.
    pub fix: &'static str,
    /// How the process ends.
    pub exit: Exit,
}

/// Bad arguments.
pub const USAGE: u16 = 1001;
/// A length of time that is none.
pub const DURATION: u16 = 1002;
/// An amount of memory that is none.
pub const SIZE: u16 = 1003;
/// A confirmation is needed and nobody can be asked.
pub const CONFIRM: u16 = 1004;
/// `--priority`.
pub const NO_PRIORITY: u16 = 1005;
/// A moment that is none.
pub const MOMENT: u16 = 1006;
/// A command of jobs, outside of one.
pub const NOT_IN_JOB: u16 = 1007;
/// A file that cannot be read or written.
pub const FILE: u16 = 1011;
/// A file whose content is not what it should be.
pub const BAD_FILE: u16 = 1012;
/// The context is unknown, or there is none.
pub const CONTEXT: u16 = 1101;
/// No replica can be reached.
pub const UNREACHABLE: u16 = 1102;
/// Replicas answer, but none can act: no leader.
pub const NO_LEADER: u16 = 1103;
/// No token.
pub const NO_TOKEN: u16 = 1104;
/// The token opens nothing.
pub const BAD_TOKEN: u16 = 1105;
/// A replica answered what this client does not understand.
pub const PROTOCOL: u16 = 1106;
/// The wait is over before the job.
pub const TIMED_OUT: u16 = 1107;
/// A development cluster runs already.
pub const DEV_RUNS: u16 = 1110;
/// No development cluster runs.
pub const DEV_NOT: u16 = 1111;
/// The development cluster cannot start, or one of its steps failed.
pub const DEV_FAILED: u16 = 1112;
/// A replica or an agent cannot start, or stopped with an error.
pub const PROCESS: u16 = 1120;

/// Returns the explanation of a code.
pub fn find(code: u16) -> Option<&'static Explained> {
    CODES.iter().find(|explained| explained.code == code)
}

/// Returns what to do about any failure of a code, in lines; nothing where that is another thing each time.
pub fn way_out(code: u16) -> Vec<String> {
    // Their message is all there is to say, or says itself what would be right.
    const SELF_EXPLAINING: [u16; 5] = [FILE, BAD_FILE, DEV_FAILED, PROCESS, 1201];
    let explained = find(code).filter(|_| !SELF_EXPLAINING.contains(&code));
    explained.map_or_else(Vec::new, |explained| wrap(explained.fix, 90))
}

/// Returns how the process ends for a code; an unknown one is another failure.
pub fn exit_of(code: u16) -> Exit {
    find(code).map_or(Exit::Other, |explained| explained.exit)
}

const fn code(
    code: u16,
    exit: Exit,
    title: &'static str,
    causes: &'static str,
    fix: &'static str,
) -> Explained {
    Explained { code, title, causes, fix, exit }
}

/// All codes, in order. A code never changes its meaning.
pub const CODES: &[Explained] = &[
    code(
        USAGE,
        Exit::Usage,
        "wrong usage",
        "An argument is missing, is not known, or contradicts another one.",
        "`bursar help COMMAND` lists the arguments with examples.",
    ),
    code(
        DURATION,
        Exit::Usage,
        "not a length of time",
        "Lengths of time are whole numbers with a unit, zero or more, at most ten years.",
        "Write `90s`, `15m`, `4h`, `3d` or `1h30m`.",
    ),
    code(
        SIZE,
        Exit::Usage,
        "not an amount of memory",
        "Amounts of memory are whole numbers with a unit.",
        "Write `512MiB`, `64GiB` or `1TiB`.",
    ),
    code(
        CONFIRM,
        Exit::Usage,
        "a confirmation is needed",
        "The command changes something for others, and there is no terminal to ask on.",
        "Look at what it shows, then give `--yes`.",
    ),
    code(
        NO_PRIORITY,
        Exit::Usage,
        "there is no --priority",
        "When it costs nothing to say that a job matters more, every job does. Here budgets order teams: the one \
         with less use of its allocation goes first. Among the jobs of one budget `--turn` orders, and means nothing \
         to anybody else.",
        "Use `--turn first|normal|last` within your budget. To start sooner ask for a shorter `--min-runtime`, \
         fewer GPUs, or the free tier (`--unallocated`). If your group needs more, its share is what to change.",
    ),
    code(
        MOMENT,
        Exit::Usage,
        "not a moment",
        "A moment is a length of time from now (or, looking back, before now), a time of the day, or a date with one. It \
         lies ahead where something is planned, behind where something is looked up.",
        "Write `2h`, `17:30`, `2027-01-31 17:30`, or with an offset `2027-01-31T17:30:00+01:00`; `--utc` reads them as UTC.",
    ),
    code(
        NOT_IN_JOB,
        Exit::Usage,
        "not inside a job",
        "`bursar checkpoint` speaks to the node's agent, by a socket or a file that the job's environment names. There is \
         neither: it was typed outside of a job, or the environment was not passed on.",
        "Call it from the job itself, with BURSAR_CHECKPOINT_SOCKET or BURSAR_CHECKPOINT_FILE as the job got them.",
    ),
    code(
        FILE,
        Exit::Other,
        "a file cannot be read or written",
        "It is not there, it is a folder, or its permissions do not allow it.",
        "The message has the system's own words.",
    ),
    code(
        BAD_FILE,
        Exit::Refused,
        "a file is not what it should be",
        "It is not valid YAML, has a field that does not exist or stands twice, lacks one, or a value has the wrong kind.",
        "The message points to the line. `bursar submit --example` prints a submission that works, `bursar submit \
         --schema` its JSON Schema for editors.",
    ),
    code(
        CONTEXT,
        Exit::Usage,
        "no such context",
        "A context names a control plane: its replicas and a token. None was given, none is selected, or the name is unknown.",
        "`bursar context list` shows them, `bursar context use NAME` selects one; or set BURSAR_SERVER and \
         BURSAR_TOKEN. `bursar dev` makes a control plane to try and selects it.",
    ),
    code(
        UNREACHABLE,
        Exit::Unreachable,
        "no replica can be reached",
        "Every address was tried, again and again, and none answered: the addresses are wrong, the network is down, or all \
         replicas are. Running jobs are not touched by that.",
        "Check the addresses (`-v` shows each try). The call can be repeated safely: a write that was made in \
         spite of it is not made twice within the call that retries it; look with `bursar job list` first.",
    ),
    code(
        NO_LEADER,
        Exit::Unreachable,
        "replicas answer, but none can act",
        "There is no leader, because fewer than a majority of the replicas are up or they cannot reach each other, or the \
         control plane is overloaded. Running jobs are not touched by that.",
        "`bursar cluster status` shows what each replica says. Repeat the call when a majority is back.",
    ),
    code(
        NO_TOKEN,
        Exit::NotAllowed,
        "not logged in",
        "The call needs a token and none was given.",
        "Set BURSAR_TOKEN_FILE to a file that holds it (mode 0600), or BURSAR_TOKEN, or select a context that has one. An \
         operator makes tokens with `bursar principal add NAME --account ACCOUNT`.",
    ),
    code(
        BAD_TOKEN,
        Exit::NotAllowed,
        "the token opens nothing",
        "It is mistyped, belongs to another control plane, or was revoked.",
        "Ask an operator for a new one: `bursar principal add`.",
    ),
    code(
        PROTOCOL,
        Exit::Other,
        "an answer that this client does not understand",
        "Client and replica are of different versions, or something else answers at that address.",
        "`bursar version` shows the client's version, `bursar cluster status` the replicas'.",
    ),
    code(
        TIMED_OUT,
        Exit::TimedOut,
        "the wait is over before the job",
        "`bursar job wait --timeout` ended first. The job is not touched by that.",
        "Wait again, or look with `bursar explain`.",
    ),
    code(
        DEV_RUNS,
        Exit::Conflict,
        "a development cluster runs already",
        "One `bursar dev` at a time writes the context `dev`.",
        "Use it, or end it with Ctrl-C where it runs, or `bursar dev stop`.",
    ),
    code(
        DEV_NOT,
        Exit::NotFound,
        "no development cluster runs",
        "The command speaks to a running `bursar dev`, and there is none.",
        "Start one with `bursar dev` in another terminal.",
    ),
    code(
        DEV_FAILED,
        Exit::Other,
        "the development cluster failed",
        "A part of it did not come up, or a step of the tour did not see what it has to see.",
        "The message names the part and its log; `--keep` keeps the folder.",
    ),
    code(
        PROCESS,
        Exit::Other,
        "a replica or an agent stopped",
        "Its settings contradict each other, its address or data folder cannot be used, or its disk failed.",
        "The message has the cause; the log has what happened before.",
    ),
    code(
        1201,
        Exit::Refused,
        "a value that cannot be",
        "A field of the submission is empty, too long, out of its range, has characters that are not allowed, or \
         contradicts another field; or the whole is over 64 KiB.",
        "The message names the field and its range.",
    ),
    code(
        1202,
        Exit::Refused,
        "minimum runtime above the cap",
        "Protection is bounded, so that the wait at the head of the line is bounded too. The cap is 8 h by default.",
        "Ask for at most the cap and save checkpoints: after it the job runs on, charged, until one that goes before it \
         needs its GPUs.",
    ),
    code(
        1203,
        Exit::Refused,
        "minimum runtime longer than the time limit",
        "The job would be stopped before its protection ends; protected time is hard to place, and the rest would be wasted.",
        "Shorten `min_runtime`, or raise `time_limit`.",
    ),
    code(
        1204,
        Exit::Refused,
        "neither protection nor free tier was chosen",
        "No tier is chosen silently. The submission says nothing, and no budget on its path has a default.",
        "Say `--min-runtime 4h` (charged, protected so long) or `--unallocated` (free tier: not charged, never protected).",
    ),
    code(
        1205,
        Exit::Refused,
        "no set of nodes can hold this shape",
        "It asks for more GPUs on a node than any node has, for more such nodes than there are, or for a type that no node \
         has. Nodes that are down count, so waiting would not help.",
        "The message names what fits; `bursar node list -o wide` shows the nodes.",
    ),
    code(
        1301,
        Exit::Refused,
        "no such budget",
        "The path is mistyped, or the budget was never made.",
        "`bursar budget tree` shows all of them.",
    ),
    code(
        1302,
        Exit::Refused,
        "the budget has budgets below it",
        "Jobs are submitted to budgets without children; a budget above them divides.",
        "Name one of its children: `bursar budget tree`.",
    ),
    code(
        1303,
        Exit::Refused,
        "the budget is closed",
        "It takes no submissions any more; its running work finishes.",
        "Use another budget, or ask the owner of the one above.",
    ),
    code(
        1304,
        Exit::Refused,
        "the budget's allocation is zero",
        "Its share, or one above it, is zero: it can pay for no protection.",
        "Use `--unallocated`, or ask the owner of the budget above for a share.",
    ),
    code(
        1305,
        Exit::Refused,
        "siblings add up to more than the whole",
        "The shares of the children of one budget may add up to 100 % at most.",
        "Lower one of the shares that the message names.",
    ),
    code(
        1306,
        Exit::Refused,
        "a tree that cannot be",
        "A name stands twice below one budget, has characters that are not allowed, the tree is too deep or too large, or its \
         root has no owner.",
        "The message names the budget. A budget never moves: close it and open another.",
    ),
    code(
        1401,
        Exit::NotAllowed,
        "not allowed",
        "Members submit to their budget and below; a job's user, the owners of its budget and operators end, hold, release \
         and requeue it (with a reason if it is somebody else's; what an owner or operator holds its user cannot release); \
         owners edit what is below their budget; operators look after nodes and the control plane.",
        "`bursar whoami` shows what you are; `bursar budget tree -o wide` who owns what.",
    ),
    code(
        1402,
        Exit::NotFound,
        "no such thing",
        "No job, node, principal or decision of that name is known: there never was one, it is older than the history \
         keeps, or its part of the history is missing; the message says which.",
        "`bursar job list --since 7d`, `bursar node list`, `bursar principal list`.",
    ),
    code(
        1403,
        Exit::Conflict,
        "the name is taken",
        "A principal or node of that name exists, or existed.",
        "Take another name.",
    ),
    code(
        1404,
        Exit::NotAllowed,
        "the join token is unknown, used, or too old",
        "A join token is good for one node, once, for a limited time.",
        "Make another one: `bursar node token NAME`.",
    ),
    code(
        1405,
        Exit::Refused,
        "a simulated node",
        "The node's GPUs are simulated, and this control plane was not founded to take such nodes.",
        "Use real nodes; `bursar dev` makes a control plane for simulated ones.",
    ),
    code(
        1406,
        Exit::NotAllowed,
        "no token, or one that opens nothing",
        "The token is missing, mistyped, belongs to another control plane, or was revoked.",
        "Check BURSAR_TOKEN, BURSAR_TOKEN_FILE or `bursar context list`; an operator makes new tokens.",
    ),
    code(
        1407,
        Exit::NotFound,
        "no log there",
        "The attempt never ran, its log is gone, or the node that has it cannot be reached now.",
        "`bursar job show JOB` names the node, `bursar node list` says whether it answers.",
    ),
    code(
        1501,
        Exit::Conflict,
        "the same request id with another body",
        "A request id names one write; this id was used for something else within the last ten minutes.",
        "Leave `--idempotency-key` out, or take a new one.",
    ),
    code(
        1502,
        Exit::Conflict,
        "the request's own time is too far from the cluster's",
        "The request was made more than five minutes ago, or by a replica whose time is wrong. It was not carried out.",
        "Send it again.",
    ),
    code(
        1503,
        Exit::Conflict,
        "what the request was made for has changed",
        "Somebody changed it between the look and the word: another tree was applied, the job has started or ended, the \
         node is not being drained any more.",
        "Look again, then repeat it.",
    ),
    code(
        1504,
        Exit::Conflict,
        "made in another term",
        "The leader changed while the scheduler's plan was under way. It was dropped whole; the next one follows by itself.",
        "Nothing.",
    ),
    code(
        1601,
        Exit::Unreachable,
        "full for now",
        "A bound is reached: live jobs, calls under way, or free disk of a replica. Nothing was done.",
        "Try again later; `bursar cluster status` names what is short.",
    ),
    code(
        1602,
        Exit::Other,
        "the control plane is in safe mode",
        "An invariant would have been broken; the command was dropped whole and no job is started until a person has looked. \
         Running work goes on; cancels and reads work.",
        "An operator reads `bursar cluster status`, reports it, then `bursar cluster safe-mode end --reason TEXT`.",
    ),
    code(
        1603,
        Exit::Other,
        "already founded, or not founded yet",
        "A control plane is founded once, with `bursar cluster init`; before that its replicas wait.",
        "`bursar cluster init --help`.",
    ),
    code(
        1604,
        Exit::Unreachable,
        "no leader answered in time",
        "An election is going on, or a majority of the replicas is away. Work that runs goes on.",
        "Repeat it: the client does so by itself for a while, under the same request id.",
    ),
    code(
        1605,
        Exit::Refused,
        "a change of the replicas that cannot be",
        "A replica that is to go leaves too few that answer, one that is to come belongs elsewhere or does not answer, or one \
         that is to lead has no vote. Nothing was changed.",
        "`bursar cluster status` shows the replicas, `bursar cluster ok-to-stop` what can be spared.",
    ),
    code(
        1901,
        Exit::Other,
        "a fault of the control plane",
        "A command would have broken an invariant. Nothing was changed, and the control plane is in safe mode.",
        "Report it with the message; an operator ends safe mode with a reason.",
    ),
];

#[cfg(test)]
mod tests {
    use scheduler_core::command::Code;

    use super::{CODES, find};

    #[test]
    fn every_refusal_is_explained() {
        for code in Code::ALL {
            assert!(find(code.number()).is_some(), "B{} {code:?}", code.number());
        }
    }

    #[test]
    fn codes_stand_in_order_and_once() {
        assert!(CODES.windows(2).all(|pair| pair[0].code < pair[1].code));
    }
}
