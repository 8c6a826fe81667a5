# What every program of the suite promises.
load helper

programs=(rnp-register rnp-bench rnp-price rnp-train rnp-serve rnp-reward)

@test "cli: --version and --help are on stdout and 0" {
	for p in "${programs[@]}"; do
		run_split "$p" --version
		assert_success
		assert_equal "$stderr" ""
		[[ $output == "$p "[0-9]*.*.* ]]
		run_split "$p" --help
		assert_success
		assert_equal "$stderr" ""
		[[ $output == "usage: $p SUBCOMMAND"* ]]
	done
}

@test "cli: rnp-train and rnp-serve have no subcommand yet and say so with 69" {
	for p in rnp-train rnp-serve; do
		refused 69 "no subcommand yet" "$p"
		refused 69 "no subcommand yet" "$p" run
	done
}
