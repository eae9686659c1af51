"""What is not promised where processes are kept with what every Unix has: `HOLDFAST_KEEPER=portable pytest tests/resources`.

There, trees that hide their mark and leave their parent and their session at once (`clean_env`, `hopper` in `trees`) are left out
of all tests: nothing adopts them, and nothing tells them from a stranger's.
"""

from __future__ import annotations

_NO_STUB = "one keeper has all trees, so there is no stub to be killed or stopped; `test_portable` kills the keeper"
_NO_SPARE = "its keeper forks nothing ahead, so there are no spares"
_NO_INODE = "ps shows no pidfd inode; `test_portable` has a pid given away with another start"
_NO_SANDBOX = "sandboxes need Linux; `test_portable` shows the refusal"
_NO_GROUP = "control groups are a thing of Linux"

NOT_PROMISED = {
    "test_a_keeper_has_a_spare_while_commands_follow_each_other": _NO_SPARE,
    "test_s3_5_killing_a_spare_by_hand_stops_no_later_spawn": _NO_SPARE,
    "test_s3_5_a_spare_goes_with_its_zygote_and_takes_no_order_with_it": _NO_SPARE,
    "test_a_stub_that_leaves_without_reading_our_last_word_is_still_heard": _NO_STUB,
    "test_s3_5_killing_a_stub_by_hand_ends_its_tree_and_only_that": _NO_STUB,
    "test_what_cannot_be_killed_is_never_said_to_be_gone": _NO_STUB,
    "test_signals_that_end_a_server_do_not_end_its_keepers": _NO_STUB,
    "test_an_owner_and_its_zygote_killed_together_leave_nothing": "the keeper was all that watched; the next sweep ends them",
    "test_a_stub_killed_while_its_owner_cannot_help_leaves_its_tree_to_the_zygote": _NO_STUB,
    "test_when_all_keepers_are_killed_at_once_at_least_the_first_process_of_each_tree_dies": _NO_STUB,
    "test_s3_6_orphans_of_an_owner_killed_with_all_its_keepers_are_found_by_their_tag": _NO_STUB,
    "test_s3_6_an_owner_whose_pid_was_given_to_a_stranger_is_dead": _NO_INODE,
    "test_two_identities_are_one_process_only_if_all_that_is_known_is_the_same": _NO_INODE,
    "test_machines_of_one_name_are_told_apart_by_their_id": "a Mac has its id elsewhere, where only a Mac can look",
}
"""Tests, and why they do not hold there."""

NOT_FOR_IT = {"test_sandbox": _NO_SANDBOX, "test_sandbox_refused": _NO_SANDBOX, "test_cgroup": _NO_GROUP}
"""Whole files."""


def why_not_promised(file: str, test: str) -> str:
    return NOT_FOR_IT.get(file) or NOT_PROMISED.get(test, "")
