//! Laws that a whole control plane keeps, as real processes on this machine.
//!
//! The laws run one after the other and share a cluster: founding one takes longer than most laws do, and a cluster
//! with a past is the harder test. Before each law everything is up and no job is left.

mod agents;
mod docs;
mod failover;
mod misfits;
mod outage;
mod pressure;
mod refusals;
mod refusals_of_nodes;
mod requests;
mod seen;
mod shares;
mod stage;
mod way;
mod writes;

use libtest_mimic::{Arguments, Trial};

macro_rules! laws {
    ($($law:path),* $(,)?) => { vec![$(stage::law(stringify!($law), $law)),*] };
}

fn laws() -> Vec<Trial> {
    laws![
        way::job_ends_as_it_exits_and_is_charged_from_go_to_end_exactly,
        way::cancelled_job_ends_and_its_gpus_are_idle_again,
        requests::one_request_id_at_two_replicas_is_one_job,
        requests::one_request_id_with_another_body_is_a_conflict,
        shares::running_gpus_follow_the_shares_while_both_want_more,
        shares::burst_waits_behind_a_budget_with_less_use,
        shares::free_tier_starts_only_on_what_funded_work_leaves_idle,
        refusals::bad_submission_is_refused_with_its_code_and_nothing_is_queued,
        refusals::bad_argument_never_reaches_a_replica,
        refusals::bad_tree_is_refused_and_the_old_one_stays,
        refusals::nobody_acts_for_somebody_else,
        refusals::output_into_a_closed_pipe_is_no_failure,
        refusals_of_nodes::launch_that_cannot_work_is_told_with_its_cause,
        misfits::second_process_on_a_data_directory_ends_and_the_first_goes_on,
        misfits::agent_that_claims_another_node_is_refused,
        misfits::garbage_on_a_port_harms_nobody,
        agents::restarted_agent_adopts_every_process_and_starts_nothing_twice,
        agents::shim_s_death_costs_no_job_and_its_end_is_seen,
        outage::work_goes_on_without_any_replica,
        failover::leader_s_death_costs_no_job_no_submission_and_no_call,
        writes::killed_replica_always_starts_again_and_misses_nothing_acknowledged,
        misfits::process_of_another_control_plane_is_refused,
        pressure::full_disk_refuses_new_jobs_and_recovers_by_itself,
        docs::every_command_in_the_pages_is_known,
    ]
}

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let conclusion = libtest_mimic::run(&arguments, laws());
    stage::clear();
    conclusion.exit();
}
