//! A submission that works, with every field explained.

/// What `bursar submit --example` prints.
pub const EXAMPLE: &str = r##"# A submission. Only the program is needed here; the rest has defaults, flags, or defaults of the budget's owner.
# Unknown fields are errors. Flags of `bursar submit` go before the file.
name: train-demo
budget: language/posttrain   # a leaf of the tree: bursar budget tree
resources:
  gpus: 4                    # on one node; more than a node has: on whole nodes
# nodes: 2                   # instead: so many nodes, with
# gpus_per_node: 4           # so many GPUs on each; one process a node, all or none
# gpu_type: h100             # a part of the GPU's name; or in order of preference: [h100, a100]
# within: 2                  # all nodes in one group of this level of topology; 1 is the outermost
# exclude: [node-03]         # never on these
# cpus: 16                   # default: the GPUs' part of the node
# memory: 64GiB
contract:
  min_runtime: 30m           # protected, and charged, so long from its start; or `unallocated: true` (free tier)
  time_limit: 4h             # of one attempt; it is stopped then
  resumable: true            # goes on from its checkpoint when it is started again
  grace: 120s                # from the notice to the end, if its GPUs are taken
  signal: TERM               # of the notice; default USR1, sent only to processes that catch it
  checkpoint_every: 10m      # what it says; what is lost can then be priced
# checkpoint_glob: "ckpt/*"  # which files are complete checkpoints
# requeue_code: 85           # the exit code that asks for another attempt
# retries: 0                 # how often a failed attempt is tried again
# turn: normal               # first, normal, last among the jobs of the same budget
command: ["python3", "train.py", "--config", "demo.toml"]
# script: |                  # instead of command
#   #!/bin/sh
#   exec python3 train.py
# array: 0-9%4              # ten tasks, at most four at once; each has its BURSAR_ARRAY_TASK_ID
# begin: "2027-01-31 17:30"  # held until then; also 2h (from now) or 17:30
# after: [4190, "4191:ok"]   # held until 4190 has ended in any way and 4191 has completed
# working_dir: /shared/me    # default: where it is submitted; must exist on the node
# output: logs/%j.%a.log     # default: kept by the node, read by `bursar logs`
env: { PYTHONUNBUFFERED: "1" }
# secrets: [wandb]           # files on the node; their content never enters the log
"##;
