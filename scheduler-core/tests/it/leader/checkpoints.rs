//! What the leader writes of the checkpoints and signs of life that agents report, and when.

use super::{ONE, PROTECTED, check};

#[test]
fn the_first_sign_is_written_at_once_and_checkpoints_once_a_minute() {
    check(
        PROTECTED,
        "up n1 7
         facts n1 7 => send n1, wake +10
         +5 saves n1 6 90 saved
         +10 woke => plan on n1, wake +20000
         +11 planned => wake +10000
         +20 saves n1 7 90 signed => propose 1: 90 saved - signed +20
         +21 commit 1
         +31 woke => wake +10000
         +5000 saves n1 7 90 saved
         +6000 saves n1 7 90 saved
         +10000 woke => wake +10010
         +10010 woke => plan on n1 knowing 90 saved +6000, wake +20000
         +10011 planned
         +15000 beat n1
         +30000 beat n1 => wake +30010
         +45000 beat n1 => plan on n1 knowing 90 saved +6000, wake +50000
         +60020 woke => propose 2: 90 saved +6000 signed +20, wake +65000",
    );
}

#[test]
fn checkpoints_go_with_whatever_is_written_of_others_and_else_together() {
    let three = "node n1 2 h100\nnode n2 1 h100\nbudget a 50\nbudget b 50
        runs 90.1 b 1 n1 0 for=60m min=2h\nruns 91.1 b 1 n1 1 for=60m min=2h\nruns 92.1 b 1 n2 0 for=60m min=2h";
    check(
        three,
        "up n1 7
         up n2 8
         facts n1 7 => send n1, wake +10
         facts n2 8 => send n2
         +10 woke => wake +20000
         +100 saves n1 7 90 signed => propose 1: 90 saved - signed +100
         +101 commit 1
         +5000 saves n1 7 90 saved
         +6000 saves n2 8 92 signed => propose 2: 90 saved +5000 signed +100 & 92 saved - signed +6000
         +6001 commit 2
         +15000 beat n1
         +15000 beat n2
         +30000 beat n1 => wake +35000
         +30000 beat n2
         +45000 beat n1 => wake +50000
         +45000 beat n2
         +50000 saves n1 7 90 saved => wake +65000
         +55000 saves n2 8 92 saved
         +60000 beat n1
         +60000 beat n2
         +66000 woke => propose 3: 90 saved +50000 signed +100 & 92 saved +55000 signed +6000, wake +80000",
    );
}

#[test]
fn nothing_is_written_of_a_checkpoint_that_is_due_after_the_end() {
    check(
        PROTECTED,
        "up n1 7
         facts n1 7 => send n1, wake +10
         +10 woke => plan on n1, wake +20000
         +11 planned => wake +10000
         +20 saves n1 7 90 signed => propose 1: 90 saved - signed +20
         +21 commit 1
         +31 woke => wake +10000
         +5000 saves n1 7 90 saved
         +10000 woke => wake +10010
         +10010 woke => plan on n1 knowing 90 saved +5000, wake +20000
         +10011 planned
         state gone 90
         +15000 beat n1 => send n1, wake +15010
         +60020 woke => plan on , wake +105000",
    );
}

#[test]
fn a_sign_that_comes_before_the_start_is_committed_is_written_after_it() {
    check(
        ONE,
        "up n1 7
         facts n1 7 => send n1, wake +10
         state place 1 n1
         +20 saves n1 7 1 signed => send n1, wake +1020
         +1020 woke => wake +2020
         state started 1
         +1500 applied => wake +1510
         +2020 woke => propose 1: 1 saved - signed +20, wake +20000",
    );
}
