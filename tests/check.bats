#!/usr/bin/env bats
# What runs the tests: it ends whatever a test does, and says why.
load helper

setup() { cd "$BATS_TEST_TMPDIR" || exit; }

@test "check: a test's exit code is passed on, and nothing is said" {
	run "$ROOT/scripts/bounded" 60 sh -c 'exit 3'
	assert_equal "$status" 3
	assert_equal "$output" ''
}

@test "check: what is not over in time is named and killed, with all that it started" {
	run "$ROOT/scripts/bounded" 2 bash -c 'setsid sleep 987 & echo $! >pid; wait'
	assert_equal "$status" 124
	[[ $output == *'# left: after 2 s: '*'sleep 987'* ]]
	process_is_gone "$(cat pid)" # where nobody collects orphans, it stays a zombie
}

@test "check: a file whose tests pass has failed when it leaves a server behind" {
	echo '@''test "passes" { sleep 986 3>&- & }' >leaves.bats
	# what runs this test must not see that as its own
	RNP_BOUNDED='' run "$ROOT/scripts/check" "$BATS_TEST_TMPDIR/leaves.bats"
	assert_equal "$status" 1
	[[ $output == *'ok 1 passes'*'# left: ten seconds after the end: '*'sleep 986'*'1 passed, 1 failed, 0 skipped' ]]
}

@test "lint: a check that cannot fail is a complaint" {
	printf '@''test "x" {\n\t! grep -q a b\n\trun ! wait "$x"\n\t! grep -q a b || false\n\trun ! grep -q a b\n\t! grep -q a b\n}\n' >x.bats
	run "$ROOT/scripts/lint" "$PWD/x.bats"
	assert_line "$PWD/x.bats:2: a test does not fail here: run !"
	assert_line "$PWD/x.bats:3: waits for the child of another shell"
	assert_line 'lint: 2 complaints'
}
