# rnp-reward report: one self-contained page that shows what the ledger contains.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# week N SEED: rewards of a week in which 200 random nodes work
week() {
	python3 "$ROOT/tests/tools/reward.py" make 200 "$2" | jq -c --argjson n "$1" '.wallet = (.wallet // .node)
		| .from = ("2026-11-09T00:00:00Z" | fromdate + $n * 604800 | todate)
		| .to = ("2026-11-16T00:00:00Z" | fromdate + $n * 604800 | todate)'
}

@test "report: epochs, distribution, changes, who was not paid and why, burns" {
	week 0 1 >a && week 1 1 | jq -c '.up_s = (.up_s // 0) / 2 | .up_s |= floor' >b
	rnp-reward epoch --policy rnp-021 --store db a >/dev/null
	rnp-reward epoch --policy rnp-021 --store db b >epoch.jsonl
	rnp-reward burn --policy rnp-021 --usd 20 --price 2 >burns
	rnp-reward report --store db --html out.html epoch.jsonl burns
	python3 - out.html <<-'PY'
		import html.parser, re, sys
		page = open(sys.argv[1], encoding="utf-8").read()
		class Parser(html.parser.HTMLParser):
		    def __init__(self):
		        super().__init__()
		        self.open, self.seen = [], []
		    def handle_starttag(self, tag, attributes):
		        self.seen.append(tag)
		        for name, value in attributes:
		            assert name not in ("src", "href") and not name.startswith("on"), (tag, name, value)
		        if tag not in ("meta", "br"):
		            self.open.append(tag)
		    def handle_startendtag(self, tag, attributes):
		        self.seen.append(tag)
		    def handle_endtag(self, tag):
		        assert self.open.pop() == tag, tag
		p = Parser()
		p.feed(page)
		assert not p.open and "svg" in p.seen and "script" not in p.seen and p.seen.count("table") >= 4
		assert "<?xml" not in page
	PY
	# the figures are those of the records
	total=$(tail -1 epoch.jsonl | jq .total_base_units)
	grep -q "$(printf '%d.%08d' $((total / 100000000)) $((total % 100000000)))" out.html
	grep -q "$(jq -s 'map(select(.qualified == false)) | length' epoch.jsonl) of 200 nodes do not qualify" out.html
	jq -r 'select(.qualified == false).reasons[]' epoch.jsonl | sort | uniq -c | sort -n | tail -1 >most
	read -r count reason <most
	grep -q "<td class=\"n\">$count</td><td>${reason//\'/.}</td>" out.html
	grep -q '9.50000000' out.html
	# every command on the page exists
	sed -n 's/.*<pre>\$ \(rnp-reward [a-z]*\).*/\1/p' out.html | sort -u | while read -r program sub; do
		$program $sub --help >/dev/null
	done
	run_split rnp-reward verify --store db
	assert_success
}

@test "report, verify: a ledger whose amounts do not fit 64 bits is told so (65, 1), not reckoned with" {
	week 0 1 >a && week 1 1 >b
	for usages in a b; do
		rnp-reward epoch -q --policy rnp-021 --store db "$usages" >/dev/null
	done
	rnp-reward burn --policy rnp-021 --usd 20 --price 2 >burns
	change() { # SQL
		cp db bad
		python3 -c 'import sqlite3, sys
db = sqlite3.connect("bad"); db.execute("PRAGMA ignore_check_constraints = 1"); db.executescript(sys.argv[1])' "$1"
	}
	change "UPDATE epoch SET claimed = 9000000000000000000, minted = 9000000000000000000 + locked + \"left\",
		owed = 9000000000000000000"
	refused 65 "its amounts do not fit 64 bits" rnp-reward report --store bad --html out.html burns
	[ ! -e out.html ]
	for amount in 9223372036854775807 -9223372036854775808; do
		change "UPDATE claim SET unlocked = $amount, locked = 9223372036854775807 WHERE epoch = 0"
		refused 65 "row 0: a claim does not fit 64 bits" rnp-reward report --store bad --html out.html
		run_split rnp-reward verify --store bad
		[[ $status == 1 || $status == 65 ]]
		[[ $output$stderr == *"row 0"* ]] || fail "$output$stderr"
	done
}

@test "report: amounts have their token; one wallet is one, without an empty picture; commands are whole on a narrow page" {
	head -1 "$ROOT/tests/data/man/usage.jsonl" | jq -c 'del(.gpu_model)' >one
	rnp-reward epoch -q --policy testnet --store db one >/dev/null
	rnp-reward report --store db --html out.html
	grep -q ": 1 epoch. Amounts are in TEST.</p>" out.html
	grep -qE "<p>1 wallet has all of it: <b>[0-9.]+ TEST</b>" out.html
	refute grep -qE "<svg|[01] wallets|RENDER" out.html
	grep -q "pre{[^}]*white-space:pre-wrap" out.html
	# epochs of two tokens name theirs
	jq -c '(.from, .to) |= (fromdate - 604800 | todate)' "$ROOT/tests/data/man/usage.jsonl" >others
	rnp-reward epoch -q --policy rnp-021 --price 2.00 --store db others >/dev/null
	rnp-reward report --store db --html out.html
	grep -q ": 2 epochs. Each epoch names its tokens.</p>" out.html
	assert_equal "$(grep -oE '<td>(TEST|RENDER)</td>' out.html | xargs)" "<td>TEST</td> <td>RENDER</td>"
}

@test "report: each command on the page prints the figures that stand above it" {
	# wallets that are new, gone, and paid otherwise than before; a part of it all is locked
	week 0 1 | head -190 >a && week 1 1 | tail -190 | jq -c '.up_s = (.up_s // 0) / 2 | .up_s |= floor' >b
	rnp-reward epoch --policy rnp-021 --price 2.00 --store db a >before.jsonl
	rnp-reward epoch --policy rnp-021 --price 2.00 --store db b >epoch.jsonl
	rnp-reward burn --policy rnp-021 --usd 20 --price 2 >burns.jsonl
	rnp-reward report --store db --html out.html epoch.jsonl burns.jsonl
	python3 - out.html <<-'PY'
		import html, json, re, subprocess, sys
		page = open(sys.argv[1], encoding="utf-8").read()
		units = lambda text: int(text.replace(".", "")) if "." in text else int(text)
		def cells(part):
		    return [[html.unescape(x) for x in re.findall(r"<td[^>]*>(.*?)</td>", row)]
		            for row in re.findall(r"<tr>(.*?)</tr>", part) if "<td" in row]
		ran = 0
		for part in page.split("<h2>")[1:]:
		    name = part.split("</h2>")[0]
		    said = []
		    for words in re.findall(r"<pre>\$ (.*?)</pre>", part):
		        done = subprocess.run(["bash", "-o", "pipefail", "-c", html.unescape(words)],
		                              capture_output=True, text=True)
		        assert done.returncode == 0 or name == "Payouts", (words, done.stderr)
		        said.append(done.stdout.splitlines())
		        ran += 1
		    rows = cells(part)
		    if name == "Epochs":
		        got = [json.loads(line) for line in said[0]]
		        assert len(got) == 2 and [g[:7] for g in got] == [
		            [int(r[0]), *r[1:5], int(r[5]), int(r[6])] for r in rows], (got, rows)
		        assert [g[7:] for g in got] == [[units(x) for x in r[7:11]] for r in rows], (got, rows)
		        assert all(g[9] > 0 for g in got)
		        assert all(json.loads(line)["ok"] for line in said[1]) and said[1]
		    elif name.startswith("Distribution"):
		        want = re.search(r"(\d+) wallets; the first tenth of them has (\d+)%.*?<b>([\d.]+) RENDER</b>", part, re.S)
		        assert json.loads(said[0][0]) == [int(want[1]), int(want[2]), units(want[3])], (said, want[0])
		    elif name == "Changes":
		        all = [line.split() for line in said[0]]
		        change = {w: (int(x), int(y)) for w, x, y in all}
		        want = re.search(r"(\d+) wallets? (?:is|are) new, (\d+) (?:is|are)", part)
		        assert int(want[1]) == sum(not x for x, y in change.values()) > 0, want[0]
		        assert int(want[2]) == sum(not y for x, y in change.values()) > 0, want[0]
		        for wallet, before, now, by in rows:
		            assert change[wallet] == (units(before), units(now))
		            assert units(by) == units(now) - units(before)
		        assert abs(units(rows[0][3])) == max(abs(y - x) for x, y in change.values())
		    elif name == "Not paid":
		        got = dict(reversed(line.strip().split(" ", 1)) for line in said[0])
		        assert got and got == {r[1]: r[0] for r in rows}, (got, rows)
		    elif name.startswith("Burns"):
		        assert [int(x[0]) for x in said] == [units(x) for x in rows[0]], (said, rows)
		assert ran == 8, ran
	PY
}

@test "report: what a stranger wrote is text, an empty ledger is a page, a bad place is refused" {
	jq '.name = "<script>alert(1)</script>&" ' "$ROOT/cmd/rnp-reward/policies/testnet.json" >evil.json
	week 0 1 >a
	rnp-reward epoch --policy ./evil.json --store db a >/dev/null
	rnp-reward report --store db --html out.html
	grep -q '&lt;script&gt;alert(1)&lt;/script&gt;&amp;' out.html
	run grep -c '<script' out.html
	assert_output 0
	echo kept >keep
	refused 66 "nowhere" rnp-reward report --store nowhere --html keep
	assert_equal "$(cat keep)" kept
	# a megabyte of a reason, which no schema lets in
	jq -c 'select(.kind == "rnp.usage") | {kind: "rnp.reward", v: 1, node, policy: "testnet", qualified: false,
		base_units: 0, reasons: ["\u202e<b>" + "x" * 1000000]}' "$ROOT/tests/data/man/usage.jsonl" >bad
	refused 65 "bad:1" rnp-reward report --store db --html keep bad
	echo '{"kind":"rnp.reward"}' >bad
	refused 65 "bad:1" rnp-reward report --store db --html keep bad
	assert_equal "$(cat keep)" kept
	run_split rnp-reward report --store db --html no/such/place
	assert_failure
	rm -f db
	rnp-reward epoch --policy testnet --store db a >/dev/null
	rnp-reward report --store db --html keep
	grep -q '<h2>Epochs</h2>' keep
}

@test "report: a browser shows it" {
	browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
		skip "no Chromium"
	week 0 1 >a
	rnp-reward epoch --policy rnp-021 --store db a >epoch.jsonl
	rnp-reward report --store db --html out.html epoch.jsonl
	"$browser" --headless --no-sandbox --disable-gpu --dump-dom "file://$PWD/out.html" >dom 2>log
	grep -q '<h2>Payouts</h2>' dom
	grep -q '<svg' dom
}
