#!/usr/bin/env python3
"""A stand-in for training that may be stopped at any moment and loses little.

Every step changes a small state, and the result depends on every step: a run that was killed and resumed ends
with the same result as one that was not, or it has a fault.

What a real training script has to do too:

* save by writing a new file, flushing it to the disk and renaming it over the old one, so that a kill in the
  middle of a save leaves the old checkpoint whole;
* look for a checkpoint at the start, and go on from it;
* on the notice signal (USR1) save now; on TERM save and leave, with an exit code that is not 0, since the work is
  not done;
* say where the last checkpoint is, by replacing the file that BURSAR_CHECKPOINT_FILE names: after a notice a new
  one says that nothing more has to be waited for.

Only the standard library is used.
"""

import argparse
import json
import os
import signal
import sys
import time

MODULUS = 2**61 - 1
LEFT_BY_SIGNAL = 128

asked = {"save": False, "leave": 0}


def on_notice(_number, _frame):
    asked["save"] = True


def on_stop(number, _frame):
    asked["save"] = True
    asked["leave"] = number


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
    """Writes a file whole or not at all."""
    new = f"{path}.new"
    with open(new, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def report(path, step):
    """Tells the node's agent of a checkpoint; that this fails is no reason to stop training."""
    told = os.environ.get("BURSAR_CHECKPOINT_FILE")
    if told:
        try:
            replace(told, {"step": step, "path": os.path.abspath(path)})
        except OSError as error:
            print(f"could not report the checkpoint: {error}", file=sys.stderr, flush=True)


def save(path, step, value):
    """Replaces the checkpoint: afterwards either the old or the new one is there, also after a power cut."""
    replace(path, {"step": step, "value": value})
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    report(path, step)


def train(options):
    os.makedirs(options.dir, exist_ok=True)
    path = os.path.join(options.dir, "checkpoint.json")
    step, value = load(path)
    print(f"resumed at step {step}" if step else "started fresh", flush=True)
    saved_at = step
    while step < options.steps:
        time.sleep(options.step_ms / 1000)
        value = next_value(value, step)
        step += 1
        if step % options.save_every == 0 or asked["save"]:
            save(path, step, value)
            saved_at = step
            asked["save"] = False
            print(f"step {step}/{options.steps} saved", flush=True)
        if asked["leave"]:
            print(f"leaving at step {step}", flush=True)
            return LEFT_BY_SIGNAL + asked["leave"]
    if saved_at != step:
        save(path, step, value)
    print(f"result {value:016x} after {step} steps", flush=True)
    return 0


def read_arguments():
    parser = argparse.ArgumentParser(description="Train nothing, safely.")
    parser.add_argument("--steps", type=int, default=600, help="steps in all")
    parser.add_argument("--step-ms", type=int, default=100, help="length of a step in milliseconds")
    parser.add_argument("--save-every", type=int, default=100, help="steps between checkpoints")
    job = os.environ.get("BURSAR_JOB_ID", "local")
    parser.add_argument("--dir", default=f"checkpoints/{job}", help="where the checkpoint is kept")
    return parser.parse_args()


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, on_notice)
    signal.signal(signal.SIGTERM, on_stop)
    sys.exit(train(read_arguments()))
