#!/usr/bin/env python3
"""A stand-in for training that may be stopped at any moment and loses little.

Every step changes a small state, and the result depends on every step: a run that was stopped and resumed ends
with the same result as one that was not, or it has a fault.

What a real training script has to do too:

* save by writing a new file, flushing it to the disk and renaming it over the old one, so that an end in the
  middle of a save leaves the old checkpoint whole;
* look for a checkpoint at the start, go on from it, and say so: what a preemption cost ends with that word;
* on the notice save now and leave: the GPUs are free at once for whom they were taken, and nothing is lost. The
  notice is a signal (USR1) and a file (BURSAR_NOTICE_FILE); either of them will do. Leave with an exit code that
  is not 0, since the work is not done;
* on TERM do the same, in the little time that is left;
* report each checkpoint: one that is newer than the notice says that nothing more has to be waited for.

Reports are JSON: to the socket that BURSAR_CHECKPOINT_SOCKET names, else into the file that BURSAR_CHECKPOINT_FILE
names, which is replaced whole. `bursar checkpoint` does the same from a shell.

Only the standard library is used. Outside Bursar it trains all the same.
"""

import argparse
import json
import os
import signal
import socket
import sys
import time

MODULUS = 2**61 - 1
LEFT_BY_SIGNAL = 128

# The signal that asked to save and leave; 0 as long as nobody did.
asked = {"leave": 0}


def on_signal(number, _frame):
    # TERM after the notice is the last word.
    asked["leave"] = max(asked["leave"], number)


def has_notice():
    """Returns whether it was told to leave: by a signal, or by the notice file if the signal got lost on its way."""
    told = os.environ.get("BURSAR_NOTICE_FILE")
    if not asked["leave"] and told and os.path.exists(told):
        asked["leave"] = signal.SIGUSR1
    return asked["leave"] != 0


def next_value(value, step):
    """Returns the state after one step: deterministic, and different after every lost or repeated step."""
    return (value * 48271 + step * 69621 + 1) % MODULUS


def load(path):
    """Returns the saved (steps done, value), or a fresh start."""
    try:
        with open(path, encoding="utf-8") as file:
            saved = json.load(file)
    except FileNotFoundError:
        return 0, 1
    return saved["step"], saved["value"]


def replace(path, content):
    """Writes a file whole or not at all, and returns its size: afterwards either the old or the new one is there,
    also after a power cut."""
    new = f"{path}.new"
    with open(new, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    os.replace(new, path)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size


def tell(message):
    """Tells the node's agent of a checkpoint, or of having resumed; that this fails is no reason to stop training."""
    to_socket = os.environ.get("BURSAR_CHECKPOINT_SOCKET")
    to_file = os.environ.get("BURSAR_CHECKPOINT_FILE")
    try:
        if to_socket:
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                    out.settimeout(1)
                    out.sendto(json.dumps(message).encode(), to_socket)
                return
            except OSError:
                # The file is read too; without one the failure is worth a line.
                if not to_file:
                    raise
        if to_file:
            replace(to_file, message)
    except OSError as error:
        print(f"could not report the checkpoint: {error}", file=sys.stderr, flush=True)


def save(path, step, value):
    """Replaces the checkpoint and reports it once it is on the disk."""
    began = time.time()
    size = replace(path, {"step": step, "value": value})
    tell(
        {
            "step": step,
            "path": os.path.abspath(path),
            "began": began,
            "finished": time.time(),
            "bytes": size,
        }
    )


def train(options):
    os.makedirs(options.dir, exist_ok=True)
    path = os.path.join(options.dir, "checkpoint.json")
    step, value = load(path)
    if step:
        tell({"resumed": True, "step": step})
    print(f"resumed at step {step}" if step else "started fresh", flush=True)
    saved_at, next_save = step, time.monotonic() + options.save_every
    while step < options.steps:
        time.sleep(options.step_ms / 1000)
        value = next_value(value, step)
        step += 1
        is_leaving = has_notice()
        is_due = time.monotonic() >= next_save or (options.save_steps and step % options.save_steps == 0)
        if is_leaving or is_due:
            save(path, step, value)
            saved_at, next_save = step, time.monotonic() + options.save_every
            print(f"step {step}/{options.steps} saved", flush=True)
        if is_leaving:
            print(f"leaving at step {step}", flush=True)
            return LEFT_BY_SIGNAL + asked["leave"]
    if saved_at != step:
        save(path, step, value)
    print(f"result {value:016x} after {step} steps", flush=True)
    return 0


def read_arguments():
    parser = argparse.ArgumentParser(description="Train nothing, safely.")
    parser.add_argument("--steps", type=int, default=600, help="steps in all")
    parser.add_argument("--step-ms", type=float, default=100, help="length of a step in milliseconds")
    parser.add_argument("--save-every", type=float, default=10, help="seconds between checkpoints")
    parser.add_argument("--save-steps", type=int, default=0, help="steps between checkpoints too; 0: none")
    job = os.environ.get("BURSAR_JOB_ID", "local")
    parser.add_argument("--dir", default=f"checkpoints/{job}", help="where the checkpoint is kept")
    return parser.parse_args()


if __name__ == "__main__":
    # First of all: the notice is sent only to processes that catch it.
    signal.signal(signal.SIGUSR1, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    sys.exit(train(read_arguments()))
