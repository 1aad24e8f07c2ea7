//! Laws that a whole control plane keeps, as real processes on this machine.
//!
//! The laws run one after the other and share a cluster of their kind: founding one takes longer than most laws do, and
//! a cluster with a past is the harder test. Before each law everything is up and no job is left.

mod agents;
mod clocks;
mod commands;
mod disk_damage;
mod disk_errors;
mod disk_full;
mod disk_lab;
mod disk_stall;
mod docs;
mod drain;
mod failover;
mod floods;
mod gangs;
mod members;
mod misfits;
mod outage;
mod power;
mod preempt;
mod pressure;
mod races;
mod refusals;
mod refusals_of_nodes;
mod requests;
mod seen;
mod shares;
mod stage;
mod story;
mod stubborn;
mod way;
mod words;
mod writes;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use stage::Kind;

macro_rules! laws {
    ($kind:path: $($law:path),* $(,)?) => { vec![$(stage::law($kind, stringify!($law), $law)),*] };
}

macro_rules! lone_laws {
    ($($law:path),* $(,)?) => { vec![$(stage::alone(stringify!($law), $law)),*] };
}

fn usual() -> Vec<Trial> {
    laws![Kind::Usual:
        way::job_ends_as_it_exits_and_is_charged_from_go_to_end_exactly,
        way::cancelled_job_ends_and_its_gpus_are_idle_again,
        requests::one_request_id_at_two_replicas_is_one_job,
        requests::one_request_id_with_another_body_is_a_conflict,
        shares::free_tier_starts_only_on_what_funded_work_leaves_idle,
        refusals::bad_submission_is_refused_with_its_code_and_nothing_is_queued,
        refusals::bad_argument_never_reaches_a_replica,
        refusals::bad_tree_is_refused_and_the_old_one_stays,
        refusals::nobody_acts_for_somebody_else,
        refusals::output_into_a_closed_pipe_is_no_failure,
        commands::following_into_a_closed_pipe_ends_by_itself,
        commands::exit_codes_are_those_of_the_page,
        commands::every_reading_command_has_json_that_names_its_schema,
        commands::revoked_token_opens_nothing_and_a_join_token_only_its_node,
        commands::replicas_listen_on_loopback_and_agents_and_shims_nowhere,
        refusals_of_nodes::launch_that_cannot_work_is_told_with_its_cause,
        misfits::second_process_on_a_data_directory_ends_and_the_first_goes_on,
        misfits::agent_that_claims_another_node_is_refused,
        misfits::garbage_on_a_port_harms_nobody,
        agents::restarted_agent_adopts_every_process_and_starts_nothing_twice,
        agents::shim_s_death_costs_no_job_and_its_end_is_seen,
        outage::work_goes_on_without_any_replica,
        failover::leader_s_death_costs_no_job_no_submission_and_no_call,
        failover::leader_that_hangs_costs_no_job_and_no_call,
        writes::killed_replica_always_starts_again_and_misses_nothing_acknowledged,
        misfits::process_of_another_control_plane_is_refused,
        pressure::full_disk_refuses_new_jobs_and_recovers_by_itself,
        floods::flood_of_large_submissions_is_told_to_wait_and_nobody_else_notices,
        floods::submission_that_is_too_large_is_refused_and_harms_nobody,
        floods::frozen_agent_hurts_only_its_own_node,
        floods::watcher_that_stops_reading_holds_nobody_up_and_misses_nothing,
        docs::every_command_in_the_pages_is_known,
    ]
}

fn undated() -> Vec<Trial> {
    laws![Kind::Undated:
        shares::running_gpus_follow_the_shares_while_both_want_more,
        shares::burst_waits_behind_a_budget_with_less_use,
    ]
}

fn contended() -> Vec<Trial> {
    laws![Kind::Contended:
        preempt::free_tier_gives_way_first_and_then_whoever_is_past_its_protection,
        preempt::victim_that_does_not_resume_ends_as_preempted_and_costs_all_it_did,
        preempt::job_that_ignores_everything_is_gone_when_its_grace_is_over,
        preempt::fixed_demand_comes_to_rest_and_nothing_is_taken_in_vain,
        preempt::job_that_cannot_start_takes_nothing,
        races::victim_that_ends_by_itself_ends_as_it_exits_or_as_preempted_never_both,
        races::victim_that_is_cancelled_ends_as_cancelled_and_does_not_come_back,
        races::agent_that_dies_while_its_job_gives_way_takes_nothing_and_loses_nothing,
        races::leader_s_death_at_any_step_of_a_preemption_changes_nothing,
        gangs::ranks_meet_where_they_are_told_and_one_s_end_ends_all,
        gangs::rank_that_ends_well_ends_nobody_else,
        gangs::node_that_nobody_hears_of_ends_no_gang,
        gangs::gang_without_all_its_nodes_ready_never_starts_and_blames_only_who_was_not,
        gangs::gang_whose_node_cannot_be_proven_free_waits_and_then_starts_whole,
        gangs::leader_s_and_agent_s_death_between_prepare_and_go_start_it_once,
        drain::drain_takes_no_work_in_and_lets_all_leave_as_protection_ends,
        drain::deadline_and_now_cut_protection_and_what_is_cut_is_not_charged,
        drain::maintenance_window_lets_in_what_is_over_by_then,
        stubborn::job_that_ignores_its_end_signal_is_ended_when_the_grace_of_a_cancel_is_over,
        stubborn::gpus_of_a_job_that_left_a_process_behind_go_on_when_that_is_gone,
        stubborn::process_that_cannot_be_ended_keeps_its_gpus_and_closes_its_node,
        words::held_job_starts_when_it_is_released_and_a_live_one_is_not_held,
        words::requeued_job_saves_and_starts_again_under_its_number,
        words::failed_job_is_tried_again_as_often_as_it_says_and_its_own_code_counts,
        words::job_that_three_nodes_fail_to_launch_is_held_until_somebody_releases_it,
    ]
}

fn clocks() -> Vec<Trial> {
    laws![Kind::Clocks:
        clocks::one_machine_that_restarts_goes_by_the_others_and_its_wall_clock_is_named,
        clocks::machines_that_all_restart_go_by_the_agents_whatever_their_wall_clocks_show,
        clocks::machines_that_all_restart_without_any_agent_believe_the_wall_clock_near_the_last_entry_only,
        clocks::operator_sets_time_forward_once_and_never_back,
    ]
}

fn moving() -> Vec<Trial> {
    laws![Kind::Moving:
        members::replicas_come_and_go_while_work_and_calls_go_on,
        members::leadership_moves_on_a_word_and_a_replica_that_is_needed_is_not_ok_to_stop,
        members::damaged_replica_is_rebuilt_by_the_command_that_it_names,
        members::wiped_or_old_copy_of_a_replica_takes_no_part_under_its_old_number,
        members::replicas_go_until_one_is_left_and_it_keeps_everything,
    ]
}

/// Laws about disks: each brings a cluster whose disks it may break.
fn on_disks() -> Vec<Trial> {
    lone_laws![
        power::power_cut_of_one_of_three_replicas_loses_nothing_acknowledged,
        power::power_cut_of_two_of_five_replicas_loses_nothing_acknowledged,
        power::power_cut_of_all_three_replicas_loses_nothing_acknowledged,
        power::without_syncs_the_same_power_cuts_are_seen_to_lose_what_was_acknowledged,
        power::replica_whose_disk_lies_is_found_out_by_the_others_and_costs_nothing,
        disk_errors::disk_that_cannot_write_back_stops_its_replica_at_the_first_failure,
        disk_errors::disk_that_turns_read_only_stops_its_replica_and_it_comes_back_when_it_is_mounted_again,
        disk_errors::disk_that_cannot_be_read_lets_its_replica_not_take_part,
        disk_full::full_follower_harms_nobody_and_catches_up,
        disk_full::full_leader_hands_over_to_one_that_has_room,
        disk_full::full_disks_everywhere_take_ends_and_elect_and_recover_by_themselves,
        disk_damage::flipped_bit_anywhere_is_found_out_or_changes_nothing,
        disk_damage::shortened_file_is_found_out_or_changes_nothing,
        disk_damage::file_that_comes_back_old_is_found_out_or_changes_nothing,
        disk_stall::leader_whose_disk_stands_still_hands_over_and_comes_back_as_a_follower,
        disk_stall::follower_whose_disk_stands_still_costs_no_election_and_catches_up,
        disk_stall::leader_whose_syncs_take_seconds_hands_over,
        disk_stall::neighbour_that_syncs_on_the_same_disk_costs_no_election,
    ]
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("worker") {
        // The process of a job: see `chaos_tests::work`.
        return chaos_tests::work::run(&words.collect::<Vec<_>>()).unwrap_or_else(|error| {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        });
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let shared = usual().into_iter().chain(undated()).chain(contended()).chain(clocks()).chain(moving());
    let laws = shared.chain(on_disks()).collect();
    let conclusion = libtest_mimic::run(&arguments, laws);
    stage::clear();
    conclusion.exit_code()
}
