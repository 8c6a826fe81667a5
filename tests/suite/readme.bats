# The README's tour, pasted block by block into one shell, as a reader would paste it.
load ../helper

# blocks LANGUAGE: prints the fenced blocks of the section "A five-minute tour"
blocks() {
	awk -v language="$1" '/^## /{ ours = $0 ~ /five-minute tour/ }
		ours && /^```/ { on = $0 == "```" language && !on; next }
		ours && on' "$ROOT/README.md"
}

@test "readme: every block of the tour works when it is pasted" {
	local log=$BATS_TEST_TMPDIR/log
	blocks sh >"$BATS_TEST_TMPDIR/tour"
	[[ $(wc -l <"$BATS_TEST_TMPDIR/tour") -gt 30 ]]
	# build/bin of the tree under test; jobs behave as in an interactive shell
	sed -i "s|\$PWD/build/bin|$RNP_BUILD/bin|; s|--time 30s|--time 3s|" "$BATS_TEST_TMPDIR/tour"
	# what the tour names has to be in a fresh clone
	if git -C "$ROOT" rev-parse HEAD >/dev/null 2>&1; then
		git clone -q --depth 1 "file://$(git -C "$ROOT" rev-parse --show-toplevel)" "$BATS_TEST_TMPDIR/clone" 2>/dev/null
		cd "$BATS_TEST_TMPDIR/clone"
	else
		cd "$ROOT"
	fi
	sed -i "1i trap 'kill \$(jobs -p) 2>/dev/null || true' EXIT" "$BATS_TEST_TMPDIR/tour"
	if ! timeout 600 env -u XDG_CONFIG_HOME -u RNP_REGISTRY bash -m -e -o pipefail "$BATS_TEST_TMPDIR/tour" >"$log" 2>&1 </dev/null 3>&-; then
		fail "$(cat "$log")"
	fi
	# the results that the tour promises
	grep -q '"ok":true' "$log"
	grep -q '"passed":true' "$log"
	grep -qE '"floor_uusd": [0-9]{6}' "$log"
	grep -q 'wallet: not known' "$log"
	grep -qE '"base_units":[0-9]+' "$log"
	grep -q 'This program is free software' "$log"
}

@test "readme: files, programs and pages that it names are there" {
	local name missing=()
	for name in $(grep -oE '(man|scripts|tests|common|kernels|cmd)/[A-Za-z0-9_./{}-]+' "$ROOT/README.md" | sort -u); do
		[[ $name == *[{}]* || $name == */FILE* || -e $ROOT/$name ]] || missing+=("$name")
	done
	((${#missing[@]} == 0)) || fail "README names what is not there: ${missing[*]}"
}

@test "readme: it fits 80 columns, and its words are explained where they first appear" {
	cd "$BATS_TEST_TMPDIR"
	assert_equal "$(awk 'length > 80' "$ROOT/README.md")" ""
	local word
	tr '\n' ' ' <"$ROOT/README.md" | tr -s " " >text
	for word in 'uusd` is a millionth of a US dollar' 'ppm` a millionth' 'base unit 10^-8 RENDER, the token' \
		'RNP-021` and the like are the network.s numbered proposals'; do
		before=$(sed "s/$word.*//" text)
		[[ $before != "$(<text)" ]] || fail "not explained: $word"
		[[ $before != *uusd* || $word == [!u]* ]] || fail "uusd comes before it is explained"
		[[ $before != *RNP-0* ]] || fail "RNP-021 comes before it is explained"
	done
}

# as_cron LINE: runs one of the README's lines for root's crontab, with the variables above it and hardly any others, as cron
# would. A setup below image/ has made key and settings; nothing is in a home directory.
as_cron() {
	local settings
	mapfile -t settings < <(sed -n '/^    SHELL=/,/^$/s/^    \([A-Z]*=\)/\1/p' "$ROOT/README.md" | sed "s|^PATH=|&$RNP_BUILD/bin:|")
	env -i HOME=/nonexistent RNP_NODE_ENV="$PWD/image/etc/rnp/node.env" "${@:2}" "${settings[@]}" sh -c 'exec "$SHELL" -c "$0"' "$1"
}

@test "readme: after setup alone the lines for cron keep a node alive and its price, and fail where it fails" {
	load ../rnp-register/registry
	local beat price
	beat=$(sed -n 's/^    \* \* \* \* \* //p' "$ROOT/README.md")
	cd "$BATS_TEST_TMPDIR"
	price=$(sed -n "s|^    \*/30 \* \* \* \* /usr/local|$PWD/image/usr/local|p" "$ROOT/README.md")
	[[ $beat && $price ]]
	start_registry
	"$ROOT/scripts/install" "$PWD/image/usr/local" "$RNP_BUILD"
	cp "$ROOT"/tests/data/man/* .
	rnp-register setup -q --root image --registry "$url" --policy testnet --costs costs.json --bench /dev/null >setup.json
	run_split as_cron "$beat"
	((status == 0)) || fail "exit $status: $stderr"
	assert_equal "$output$stderr" ""
	RNP_NODE_ENV=image/etc/rnp/node.env rnp-register status --registry "$url" >status
	stop_registry
	jq -e .online status
	refused 69 "cannot reach" as_cron "$beat"
	# the price: setup has written what it reads, and it makes its own folder; nothing leaves this machine
	jq -e '.kind == "rnp.markets" and (.markets | length) > 0' image/etc/rnp/markets.json
	cp node.json image/etc/rnp/node.json # with a GPU, which markets list
	paths=(RNP_NODE_FILE="$PWD/image/etc/rnp/node.json" RNP_COSTS="$PWD/image/etc/rnp/costs.json" RNP_PRICE_STATE="$PWD/state")
	run_split as_cron "$price" "${paths[@]}" RNP_MARKETS="$PWD/image/etc/rnp/markets.json" https_proxy=http://127.0.0.1:1
	[[ $stderr == *"akash: cannot "* ]] || fail "$stderr"
	sed -i "s#\"file\": *\"#&$PWD/#" markets.json
	run_split as_cron "$price" "${paths[@]}" RNP_MARKETS="$PWD/markets.json" RNP_NODE=11111111111111111111111111111111
	jq -e '.ask_uusd > 0' state/quote.json || fail "$status $stderr"
}
