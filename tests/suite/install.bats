# make install puts every file in its place, and the installed programs work from there.
load ../helper

setup_file() {
	export IMAGE=$BATS_FILE_TMPDIR/image
	make -s -C "$ROOT" NVCC= install DESTDIR="$IMAGE" PREFIX=/usr >&2
}

@test "install: programs, pages, schemas' reader, policies, completion, units" {
	local p
	for p in rnp-register rnp-bench rnp-price rnp-train rnp-serve rnp-reward; do
		[[ -x $IMAGE/usr/bin/$p ]] || fail "bin/$p"
		[[ -s $IMAGE/usr/share/man/man1/$p.1 ]] || fail "man1/$p.1"
		bash -n "$IMAGE/usr/share/bash-completion/completions/$p"
	done
	[[ -s $IMAGE/usr/share/man/man7/rnp.7 && -s $IMAGE/usr/share/man/man5/rnp-json.5 ]]
	for p in rnp-004 rnp-006 rnp-019 rnp-021 testnet; do
		jq -e . "$IMAGE/usr/share/rnp/policies/$p.json" >/dev/null
	done
	assert_equal "$(find "$IMAGE" -path "$IMAGE/usr" -prune -o -type f -print)" ""
	[[ -s $IMAGE/usr/lib/systemd/system/rnp-registry.service ]]
	# each user of a unit, but those that systemd makes up, is made by a file
	for p in $(sed -n 's/^User=//p' "$IMAGE"/usr/lib/systemd/system/*.service) rnp-session; do
		grep -q "^u $p " "$IMAGE"/usr/lib/sysusers.d/*.conf || fail "$p"
	done
}

@test "install: bash, zsh and fish have completions, as the programs write them" {
	local p
	for p in rnp-register rnp-bench rnp-price rnp-train rnp-serve rnp-reward; do
		cmp <("$p" --completion zsh) "$IMAGE/usr/share/zsh/site-functions/_$p"
		cmp <("$p" --completion fish) "$IMAGE/usr/share/fish/vendor_completions.d/$p.fish"
	done
}

@test "install: uninstall takes away all of it, and nothing else" {
	cp -R "$IMAGE" "$BATS_TEST_TMPDIR/image"
	mkdir -p "$BATS_TEST_TMPDIR/image/usr/share/rnp/policies"
	echo mine >"$BATS_TEST_TMPDIR/image/usr/bin/other"
	echo mine >"$BATS_TEST_TMPDIR/image/usr/share/rnp/policies/mine.json"
	make -s -C "$ROOT" NVCC= uninstall DESTDIR="$BATS_TEST_TMPDIR/image" PREFIX=/usr
	assert_equal "$(cd "$BATS_TEST_TMPDIR/image" && find . -type f | sort)" $'./usr/bin/other\n./usr/share/rnp/policies/mine.json'
	[[ ! -e $BATS_TEST_TMPDIR/image/usr/lib/rnp ]]
}

@test "install: nothing is writable by others, nothing but programs is executable" {
	assert_equal "$(find "$IMAGE" ! -type l -perm /022)" ""
	# price-loop is what cron and a timer run
	assert_equal "$(find "$IMAGE" -type f -perm /111 ! -path '*/bin/*' ! -path '*/share/rnp/price-loop' ! -name '*.so')" ""
}

@test "install: the installed program finds its policies" {
	run_split env -C / "$IMAGE/usr/bin/rnp-reward" epoch --policy rnp-006 --pool 10 /dev/null
	[[ $stderr == *"no rnp.usage"* ]] || fail "$stderr"
	run_split env -C / "$IMAGE/usr/bin/rnp-reward" epoch --policy no-such --pool 10 /dev/null
	[[ $stderr == *no-such* ]]
}

@test "install: units start programs by the place that they are installed to" {
	local unit program
	for unit in "$IMAGE"/usr/lib/systemd/system/*.service; do
		for program in $(grep -oE '[^ =]*/rnp-re[a-z]* ' "$unit"); do
			assert_equal "${program%/*}" /usr/bin
			[[ -x $IMAGE$program ]]
		done
		grep -q /usr/bin/rnp- "$unit"
	done
}
