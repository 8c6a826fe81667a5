# rnp-bench report and compare: figures for readers, with intervals and reasons.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# figure TEST UNIT MEDIAN LOW HIGH
figure() {
	jq -nc --arg t "$1" --arg u "$2" --argjson m "$3" --argjson l "$4" --argjson h "$5" '{kind: "rnp.bench", v: 1,
		at: "2026-11-01T00:00:00Z", suite: "cpu", test: $t, device: "<b>CPU</b>", unit: $u, median: $m, low: $l, high: $h,
		samples: 8, params: {n: 512}}'
}

two_machines() {
	{ figure fast FLOP/s 1000000000 990000000 1010000000 && figure slow ns 2000 1900 2600 &&
		figure 'na<i>me' B/s 5 4 6; } >old.jsonl
	{ figure fast FLOP/s 2000000000 1990000000 2010000000 && figure slow ns 2100 2000 2200; } >new.jsonl
}

@test "compare: each record has both intervals, and says why it is a difference or none" {
	two_machines
	rnp-bench compare -q old.jsonl new.jsonl >out
	rnp-bench --schema rnp.compare >schema
	jq -c 'del(.why)' out >/dev/null
	python3 -c 'import json, jsonschema
for line in open("out"): jsonschema.Draft202012Validator(json.load(open("schema"))).validate(json.loads(line))'
	assert_equal "$(jq -c 'select(.test == "fast") | [.old_low, .old_high, .new_low, .new_high, .verdict]' out)" \
		'[990000000,1010000000,1990000000,2010000000,"better"]'
	assert_equal "$(jq -r 'select(.test == "slow") | .why' out)" \
		'the 95% intervals overlap: 1.9 µs to 2.6 µs and 2 µs to 2.2 µs'
	rnp-bench compare -q old.jsonl new.jsonl --table | grep -q 'intervals overlap'
}

@test "report: one page of tables and pictures that compares two machines, whatever they call themselves" {
	two_machines
	rnp-bench report --html page.html old.jsonl new.jsonl
	grep -q 'better</span>: the 95% intervals are apart' page.html
	grep -q '+100.0 %' page.html
	assert_equal "$(grep -c '<svg ' page.html)" 2
	grep -q '&lt;b&gt;CPU&lt;/b&gt;' page.html
	if grep -qE '<(script|img|link|iframe)|<b>|<i>|(src|href)=|<\?xml' page.html; then fail "it loads or runs something"; fi
	# an asymmetric interval is drawn and written as one
	grep -q '−5% +30%' page.html
	rnp-bench report --html again.html old.jsonl new.jsonl
	cmp page.html again.html
	echo '{"kind":"rnp.bench"}' >bad
	refused 65 "bad:1" rnp-bench report --html again.html bad
	cmp page.html again.html
	: >empty
	refused 65 "no rnp.bench records" rnp-bench report --html again.html empty
	refused 64 "FILE" rnp-bench report --html again.html || true
}

@test "report: without a page to write, records are rows, a table a suite, and go through a pipe as they are" {
	two_machines
	{ cat old.jsonl && figure copy B/s 5 4 6 | jq -c '.suite = "mem"' &&
		figure decode_nano_q8_0_b16_c512 tokens/s 20300 14500 26500 | jq -c '.suite = "serve" | .throttled = true'; } >all.jsonl
	rnp-bench report all.jsonl | cmp - all.jsonl
	on_terminal 80 'NO_COLOR=1 rnp-bench report all.jsonl' >screen
	grep -qE '^cpu +slow +2 µs [(]1.9 to 2.6[)] +8$' screen
	grep -qE '^mem +copy +5 B/s [(]4 to 6[)] +8$' screen
	grep -qx 'serve  decode_nano_q8_0_b16_c512  20.3 k tokens/s (14.5 to 26.5)  8  yes' screen
	assert_equal "$(grep -c '^suite ' screen)" 3
	run ! grep -E '^.{81}' screen
	rnp-bench report --html page.html old.jsonl 2>said
	grep -q 'wrote page.html' said
	refused 64 'rnp-bench compare' rnp-bench report old.jsonl new.jsonl
}

@test "report: figures that span decades are drawn on an axis of powers of ten" {
	{ figure one ns 10 9 11 && figure two ns 1000000 900000 1100000; } >wide.jsonl
	{ figure one ns 10 9 11 && figure two ns 30 20 40; } >narrow.jsonl
	rnp-bench report --html wide.html wide.jsonl
	rnp-bench report --html narrow.html narrow.jsonl
	bar() { grep -oE 'width="[0-9.]+" height="16"' "$1" | grep -oE '^width="[0-9.]+' | tr -dc '0-9.\n' | sort -n | head -1; }
	# the smallest bar is visible
	awk -v w="$(bar wide.html)" 'BEGIN { exit !(w > 20) }'
	ticks() { grep -oE '>[0-9.]+ [nµm]s<' "$1" | sort -u | tr '\n' ' '; }
	[[ $(ticks wide.html) == *'>10 µs<'* && $(ticks wide.html) == *'>1 ms<'* ]] || fail "$(ticks wide.html)"
	[[ $(ticks narrow.html) == *'>20 ns<'* ]] || fail "$(ticks narrow.html)"
}

@test "report: in Chromium it loads nothing, fits a phone, is dark on a dark screen, and no texts of pictures overlap" {
	browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
		skip "no Chromium: apt-get install chromium"
	[[ -e $ROOT/build/node/node_modules/puppeteer-core ]] || skip "no puppeteer-core: scripts/bootstrap"
	rnp-bench run --quick --suite compress --time 20ms >real.jsonl
	two_machines
	cat old.jsonl >>real.jsonl
	rnp-bench report --html page.html real.jsonl new.jsonl
	node "$ROOT/tests/tools/browser.mjs" "$browser" . 360,1280d "file://$PWD/page.html" >seen.jsonl
	[[ -z ${SHOTS-} ]] || cp ./*.png "$SHOTS"
	jq -se 'length == 2 and all(.[]; .overlaps == [] and .loaded == [.url] and .dialogs == [])' seen.jsonl >fits ||
		fail "$(jq -c '[.at, .overlaps, .loaded]' seen.jsonl)"
	jq -se 'all(.[]; .width <= (.at | rtrimstr("d") | tonumber) and .smallest >= 9)' seen.jsonl >fits ||
		fail "$(jq -c '[.at, .width, .smallest]' seen.jsonl)"
	# a dark screen gets other colours
	assert_equal "$(jq -r .paper seen.jsonl | tr '\n' ' ')" 'rgb(255, 255, 255) rgb(24, 26, 27) '
}

@test "pictures: in Chromium none of any program has texts that overlap or are cut; pages of ledgers and prices fit a phone" {
	browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
		skip "no Chromium: apt-get install chromium"
	[[ -e $ROOT/build/node/node_modules/puppeteer-core ]] || skip "no puppeteer-core: scripts/bootstrap"
	cp -R "$ROOT/tests/data/man/." .
	rnp-bench run -q --quick --suite cpu --time 10ms --plot bench.svg >bench.jsonl
	rnp-price backtest --history history.jsonl --plot worlds.svg --report worlds.html >worlds.jsonl
	rnp-price backtest --jobs jobs.csv --gpus 8 --plot jobs.svg >jobs.jsonl
	# hours, not thousands of seconds
	grep -qE '>[0-9.]+ h<' jobs.svg
	rnp-reward simulate --schedule schedule.json --burned 100000 --svg supply.svg >supply.jsonl
	rnp-train tokenize --vocab 300 --out tokens "$ROOT/LICENSE" >tokens.json
	rnp-train init --preset nano --tokenizer tokens --out model >model.json
	rnp-train run -q --model model --data tokens --valid tokens --eval-every 3 --out o --steps 8 --batch 1 --length 32 \
		--plot loss.svg >loss.jsonl
	rnp-register keygen --out key >key.json
	rnp-reward epoch -q --policy rnp-021 --store net.db --key key usage.jsonl >epoch.jsonl
	rnp-reward report --store net.db --html ledger.html epoch.jsonl
	{ echo '<!doctype html><meta charset="utf-8"><title>all</title>'; sed '/^<?xml/d' *.svg; } >all.html
	assert_equal "$(grep -c '<svg ' all.html)" 5
	node "$ROOT/tests/tools/browser.mjs" "$browser" . 360,1280d "file://$PWD/all.html" "file://$PWD/ledger.html" >seen.jsonl
	[[ -z ${SHOTS-} ]] || cp ./*.png "$SHOTS"
	jq -se 'length == 4 and all(.[]; .overlaps == [] and .cut == [] and .loaded == [.url])' seen.jsonl >fits ||
		fail "$(jq -c '[.url, .at, .overlaps, .cut, .loaded]' seen.jsonl)"
	# pictures in pages scroll in their box: scaled down to a phone nobody could read them
	node "$ROOT/tests/tools/browser.mjs" "$browser" . 360,1280d "file://$PWD/ledger.html" "file://$PWD/worlds.html" >seen.jsonl
	jq -se 'length == 4 and all(.[]; .width <= (.at | rtrimstr("d") | tonumber) and .smallest >= 9 and .overlaps == [] and .cut == [])' \
		seen.jsonl >fits || fail "$(jq -c '[.url, .at, .width, .smallest, .overlaps, .cut]' seen.jsonl)"
}
