# A node on a machine that is fully loaded: tests/soak/busy, shortened.
# alone: it loads the machine
load ../helper

@test "busy: a node whose machine is fully loaded answers its challenges in time" {
	RNP_SECONDS=15 "$ROOT/tests/soak/busy" >"$BATS_TEST_TMPDIR/result" || {
		# the unit's priority needs root
		jq -e '.nice == 0' "$BATS_TEST_TMPDIR/result" && skip "no priority without root"
		fail "$(<"$BATS_TEST_TMPDIR/result")"
	}
	jq -e '.verdicts > 0 and .passed == .verdicts' "$BATS_TEST_TMPDIR/result"
}
