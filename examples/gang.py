#!/usr/bin/env python3
"""A stand-in for training over several nodes: one process a node, in step, stopped together, resumed together.

Rank 0 listens at MASTER_ADDR:MASTER_PORT and the others connect to it, as a rendezvous of real training does. Each
step needs a number of every rank, so no rank is ever ahead; the result depends on every step of every rank.

What matters in a gang besides what `train.py` shows:

* an attempt has a port of its own, so ranks of an older attempt cannot join; their word is refused all the same;
* a checkpoint is one only if every rank has it. Each rank keeps its two newest, and at the start all go back to
  the newest step that every rank has;
* ranks hear of the notice at different moments. The step to stop at is agreed: a rank that stopped by itself would
  leave the others waiting in the middle of a step. They go on until each was told, then all save the same step;
* rank 0 reports a checkpoint once all ranks have theirs on the disk.

Only the standard library is used. Without Bursar: MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 NNODES=2 NODE_RANK=0|1.
"""

import argparse
import json
import os
import signal
import socket
import sys
import time

# The folder may be shared, or not ours to write to.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import train  # noqa: E402 (its checkpoints and reports, beside this file)

KEPT = 2


class Peer:
    """A line of JSON out, a line of JSON in."""

    def __init__(self, connection, within):
        connection.settimeout(within)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.lines = connection.makefile("r", encoding="utf-8")

    def say(self, message):
        self.connection.sendall((json.dumps(message) + "\n").encode())

    def hear(self):
        line = self.lines.readline()
        if not line:
            raise ConnectionError("a rank has left")
        return json.loads(line)

    def close(self):
        self.lines.close()
        self.connection.close()


class Gang:
    """All ranks of one attempt; each exchange is also a barrier."""

    def __init__(self, options):
        names = [name for name in os.environ.get("BURSAR_NODELIST", "").split(",") if name]
        self.rank = int(os.environ.get("NODE_RANK") or os.environ.get("BURSAR_RANK") or 0)
        self.size = int(os.environ.get("NNODES") or len(names) or 1)
        self.attempt = f"{os.environ.get('BURSAR_JOB_ID', 'local')}.{os.environ.get('BURSAR_ATTEMPT', '1')}"
        address = os.environ.get("MASTER_ADDR", "127.0.0.1")
        port = int(os.environ.get("MASTER_PORT", "29500"))
        deadline = time.monotonic() + options.join_within
        self.others = {}
        if self.size > 1 and self.rank == 0:
            self.gather(address, port, deadline, options.peer_within)
        elif self.size > 1:
            self.join(address, port, deadline, options.peer_within)

    def gather(self, address, port, deadline, within):
        with socket.create_server((address, port), backlog=self.size) as listener:
            while len(self.others) < self.size - 1:
                listener.settimeout(max(deadline - time.monotonic(), 0.001))
                connection, _ = listener.accept()
                peer = Peer(connection, within)
                try:
                    hello = peer.hear()
                    is_ours = hello["attempt"] == self.attempt and 0 < hello["rank"] < self.size
                except (OSError, ValueError, KeyError, TypeError):
                    is_ours = False
                if is_ours:
                    self.others[hello["rank"]] = peer
                else:
                    peer.close()

    def join(self, address, port, deadline, within):
        while True:
            try:
                connection = socket.create_connection((address, port), timeout=5)
                break
            except OSError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.1)
        self.others[0] = Peer(connection, within)
        self.others[0].say({"attempt": self.attempt, "rank": self.rank})

    def exchange(self, mine, decide):
        """Gives every rank's word to `decide` on rank 0, and what it decided to every rank."""
        if self.rank != 0:
            self.others[0].say(mine)
            return self.others[0].hear()
        words = [mine] + [self.others[rank].hear() for rank in sorted(self.others)]
        decided = decide(words)
        for peer in self.others.values():
            peer.say(decided)
        return decided


def shard(options, rank, step):
    return os.path.join(options.dir, f"rank-{rank}.step-{step}.json")


def steps_kept(options, rank):
    """Returns the steps whose checkpoints this rank has, oldest first."""
    start, end = f"rank-{rank}.step-", ".json"
    names = [name for name in os.listdir(options.dir) if name.startswith(start) and name.endswith(end)]
    return sorted(int(name[len(start) : -len(end)]) for name in names)


def common(words):
    """Returns the newest step that every rank has; 0 is a fresh start."""
    kept = set(words[0]["kept"]).intersection(*(word["kept"] for word in words[1:]))
    return {"step": max(kept, default=0)}


def save(options, gang, step, value):
    """Saves this rank's part; once all ranks have theirs, rank 0 reports the checkpoint."""
    began = time.time()
    path = shard(options, gang.rank, step)
    size = train.replace(path, {"step": step, "value": value})
    total = gang.exchange({"bytes": size}, lambda words: {"bytes": sum(word["bytes"] for word in words)})
    if gang.rank == 0:
        train.tell(
            {
                "step": step,
                "path": os.path.abspath(options.dir),
                "began": began,
                "finished": time.time(),
                "bytes": total["bytes"],
            }
        )
    for old in steps_kept(options, gang.rank)[:-KEPT]:
        os.remove(shard(options, gang.rank, old))


class Clock:
    """Decides, on rank 0, when to save and when to leave."""

    def __init__(self, options):
        self.options = options
        self.next_save = time.monotonic() + options.save_every
        self.told_since = None

    def decide(self, words):
        now = time.monotonic()
        told = [word["told"] for word in words]
        if any(told) and self.told_since is None:
            self.told_since = now
        # All were told, or one was and the others wait too long for it, or the time is nearly up.
        is_leaving = self.told_since is not None and (
            all(told) or signal.SIGTERM in told or now - self.told_since >= self.options.agree_within
        )
        step = words[0]["step"]
        is_due = now >= self.next_save or (self.options.save_steps and step % self.options.save_steps == 0)
        if is_due:
            self.next_save = now + self.options.save_every
        return {
            "sum": sum(word["part"] for word in words) % train.MODULUS,
            "save": bool(is_due or is_leaving),
            "leave": max(told) if is_leaving else 0,
        }


def run(options):
    os.makedirs(options.dir, exist_ok=True)
    gang = Gang(options)
    print(f"rank {gang.rank} of {gang.size} joined", flush=True)
    step = gang.exchange({"kept": steps_kept(options, gang.rank)}, common)["step"]
    for newer in (kept for kept in steps_kept(options, gang.rank) if kept > step):
        # Not every rank got so far, so it is no checkpoint and must not push one out.
        os.remove(shard(options, gang.rank, newer))
    value = 1
    if step:
        _, value = train.load(shard(options, gang.rank, step))
        if gang.rank == 0:
            train.tell({"resumed": True, "step": step})
    print(f"resumed at step {step}" if step else "started fresh", flush=True)
    clock, saved_at = Clock(options), step
    while step < options.steps:
        time.sleep(options.step_ms / 1000)
        train.has_notice()
        part = train.next_value(value, step * gang.size + gang.rank)
        step += 1
        agreed = gang.exchange({"step": step, "part": part, "told": train.asked["leave"]}, clock.decide)
        value = agreed["sum"]
        if agreed["save"]:
            save(options, gang, step, value)
            saved_at = step
            print(f"step {step}/{options.steps} saved", flush=True)
        if agreed["leave"]:
            print(f"leaving at step {step}", flush=True)
            return train.LEFT_BY_SIGNAL + agreed["leave"]
    if saved_at != step:
        save(options, gang, step, value)
    print(f"result {value:016x} after {step} steps", flush=True)
    return 0


def read_arguments():
    parser = argparse.ArgumentParser(description="Train nothing on several nodes, in step.")
    parser.add_argument("--steps", type=int, default=600, help="steps in all")
    parser.add_argument("--step-ms", type=float, default=100, help="length of a step in milliseconds")
    parser.add_argument("--save-every", type=float, default=10, help="seconds between checkpoints")
    parser.add_argument("--save-steps", type=int, default=0, help="steps between checkpoints too; 0: none")
    job = os.environ.get("BURSAR_JOB_ID", "local")
    parser.add_argument("--dir", default=f"checkpoints/{job}", help="where the checkpoints of all ranks are kept")
    parser.add_argument("--join-within", type=float, default=300, help="seconds to wait for all ranks")
    parser.add_argument("--peer-within", type=float, default=300, help="seconds to wait for one in a step")
    parser.add_argument("--agree-within", type=float, default=3, help="seconds for the notice to reach all ranks")
    return parser.parse_args()


def main():
    # First of all: the notice is sent only to processes that catch it.
    signal.signal(signal.SIGUSR1, train.on_signal)
    signal.signal(signal.SIGTERM, train.on_signal)
    try:
        return run(read_arguments())
    except OSError as error:
        # A rank that is gone, or never came: nobody can go on alone.
        print(f"giving up: {error}", file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
