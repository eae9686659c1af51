"""What is not promised where processes are kept with what every Unix has: `HOLDFAST_KEEPER=portable pytest tests/resources`.

There, trees that hide their mark and leave their parent and their session at once (`clean_env`, `hopper` in `trees`) are left out
of all tests: nothing adopts them, and nothing tells them from a stranger's.
"""

from __future__ import annotations

_NO_STUB = "one keeper has all trees, so there is no stub to be killed or stopped; `test_portable` kills the keeper"
_NO_INODE = "ps shows no pidfd inode; `test_portable` has a pid given away with another start"
_NO_SANDBOX = "sandboxes need Linux; `test_portable` shows the refusal"
_NO_GROUP = "control groups are a thing of Linux"

NOT_PROMISED = {
    "test_what_a_stub_said_is_heard_although_it_was_killed_without_reading_our_last_word": _NO_STUB,
    "test_commands_that_follow_each_other_are_kept_by_the_same_stub": _NO_STUB,
    "test_a_stub_leaves_when_no_more_commands_come": _NO_STUB,
    "test_a_stub_leaves_by_itself_when_its_owner_does_not_say_so": _NO_STUB,
    "test_s3_2_a_stub_that_kept_another_tree_before_keeps_a_hostile_one_as_well": _NO_STUB,
    "test_a_command_that_cannot_run_leaves_its_stub_fit_for_the_next": _NO_STUB,
    "test_s3_5_killing_a_stub_that_waits_stops_no_later_spawn": _NO_STUB,
    "test_s3_5_no_stub_waits_without_its_zygote_which_would_let_it_go_on": _NO_STUB,
    "test_a_command_that_may_gain_privileges_is_not_kept_by_a_stub_that_gave_up_its_own": _NO_STUB,
    "test_an_end_that_was_asked_for_too_late_does_not_hit_the_next_tree": _NO_STUB,
    "test_a_tree_that_has_stopped_its_stub_is_ended_and_the_stub_leaves": _NO_STUB,
    "test_a_tree_that_has_stopped_all_its_keepers_is_ended": _NO_STUB,
    "test_a_stub_that_is_stopped_for_good_goes_with_its_tree": _NO_STUB,
    "test_a_limit_that_lets_no_process_be_marked_is_told": "the mark is a variable there",
    "test_s3_3_a_full_process_table_is_told_and_leaves_nothing": _NO_STUB,
    "test_s3_5_stopping_a_stub_that_waits_stops_no_later_spawn": _NO_STUB,
    "test_a_spawn_is_cancelled_although_the_program_does_not_open": _NO_STUB,
    "test_s3_3_a_stub_without_room_for_files_says_so_or_runs_the_command_with_all_of_them": _NO_STUB,
    "test_a_zygote_without_room_for_files_lives_on": _NO_STUB,
    "test_more_commands_at_once_than_the_zygotes_socket_holds_are_all_run": _NO_STUB,
    "test_commands_that_wait_for_the_zygote_are_refused_when_its_keeper_is_closed": _NO_STUB,
    "test_a_stub_keeps_nothing_of_the_commands_that_it_could_not_run": _NO_STUB,
    "test_s3_5_killing_a_stub_by_hand_ends_its_tree_and_only_that": _NO_STUB,
    "test_what_cannot_be_killed_is_never_said_to_be_gone": _NO_STUB,
    "test_what_cannot_be_looked_for_is_not_said_to_be_gone_and_is_looked_for_again": _NO_STUB,
    "test_signals_that_end_a_server_do_not_end_its_keepers": _NO_STUB,
    "test_an_owner_and_its_zygote_killed_together_leave_nothing": "the keeper was all that watched; the next sweep ends them",
    "test_a_stub_killed_while_its_owner_cannot_help_leaves_its_tree_to_the_zygote": _NO_STUB,
    "test_when_all_keepers_are_killed_at_once_at_least_the_first_process_of_each_tree_dies": _NO_STUB,
    "test_a_tree_that_has_stopped_its_stub_dies_with_its_owner": _NO_STUB,
    "test_an_owner_killed_while_a_program_does_not_open_leaves_nothing": _NO_STUB,
    "test_a_program_that_closes_all_files_dies_with_its_keepers_too": _NO_STUB,
    "test_s3_6_orphans_of_an_owner_killed_with_all_its_keepers_are_found_by_their_tag": _NO_STUB,
    "test_s3_6_an_owner_whose_pid_was_given_to_a_stranger_is_dead": _NO_INODE,
    "test_s3_6_an_owner_that_cannot_be_looked_at_is_not_taken_for_dead": "nothing is swept then; `test_portable` shows it",
    "test_two_identities_are_one_process_only_if_all_that_is_known_is_the_same": _NO_INODE,
    "test_machines_of_one_name_are_told_apart_by_their_id": "a Mac has its id elsewhere, where only a Mac can look",
}
"""Tests, and why they do not hold there."""

NOT_FOR_IT = {"test_sandbox": _NO_SANDBOX, "test_sandbox_refused": _NO_SANDBOX, "test_cgroup": _NO_GROUP}
"""Whole files."""


def why_not_promised(file: str, test: str) -> str:
    return NOT_FOR_IT.get(file) or NOT_PROMISED.get(test, "")
