//! What `dev` prints once it is up: things to try, all of which work.

use super::place::Place;
use super::state::State;
use crate::form::text::count;

/// Returns the screen.
pub fn screen(place: &Place, nodes: u32, gpus: u32, addresses: &[String]) -> String {
    let replicas = count(u64::try_from(addresses.len()).unwrap_or(u64::MAX), "replica");
    let folder = place.folder().display();
    format!(
        "{replicas} ({addresses}), {nodes} nodes with {gpus} simulated GPUs each
folder {folder}     context `dev` is selected; you are `ceo`, who owns the lab

try, in another terminal:
  1. bursar budget tree                              the lab, and whose turn it is
  2. bursar submit examples/debug.yaml               read the receipt; then: bursar logs -f JOB
  3. bursar run --budget science/agents --min-runtime 1m -- sh -c 'echo $CUDA_VISIBLE_DEVICES'
  4. bursar submit --budget language/pretrain --gpus 8 --min-runtime 5m -- sleep 600   once for each node and
     once more; then: bursar queue; bursar explain JOB      why it waits, with both sides' numbers
  5. bursar dev kill-leader                          work goes on, nothing is lost: bursar cluster status
  6. bursar dev stop-replicas; sleep 20; bursar dev start-replicas      jobs run on meanwhile
  7. edit a copy of examples/budgets.yaml, bursar budget apply -f COPY --reason \"try it\"
  8. bursar dev preempt-demo                         one preemption, from the right to the price
  9. bursar node drain node-01 --reason \"try it\"      it says when the node is empty; bursar node undrain node-01
 10. bursar cluster transfer-leader; bursar cluster ok-to-stop r1; bursar doctor      who leads, who can be spared, what
     is wrong
 11. BURSAR_TOKEN_FILE={folder}/tokens/ana bursar whoami       be somebody else

Ctrl-C ends everything here, jobs included, and removes the folder.
",
        addresses = addresses.join(", "),
    )
}

/// Returns the parts and their processes.
pub fn status(state: &State) -> String {
    let mut table = crate::form::table::Table::new(&["PART", ">PID", ">STARTS", "ADDRESS", "LOG"]);
    for part in state.replicas.iter().chain(&state.agents) {
        table.row([
            part.name.clone(),
            part.process.map_or("down".into(), |process| process.pid.to_string()),
            part.starts.to_string(),
            part.address.clone().unwrap_or_default(),
            part.log.clone(),
        ]);
    }
    let ready = if state.ready { "up" } else { "coming up" };
    format!("{ready}, folder {}\n\n{}", state.folder, table.render())
}
