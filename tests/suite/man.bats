# The pages in man/ describe what the programs do: synopsis, options, examples that run.
load ../helper
load man_examples

page_of() {
	echo "$ROOT/man/$1.1"
}

# subcommands PROGRAM: lists them from its own overview
subcommands() {
	"$1" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'
}

# section PAGE NAME: prints that section as text, one long line per paragraph, single spaces
section() {
	mandoc -T utf8 -O width=1000 "$1" | col -bx |
		awk -v name="$2" '/^[A-Z]/ { on = $0 == name; next } on' | sed 's/  */ /g; s/^ //; s/ $//; /^$/d'
}

# the synopsis of a page with very many options has usage lines: "[options]" is described below
synopsis_is_usage() {
	local sub
	diff <(for sub in $(subcommands "$1"); do
		if grep -qx '\.Op options' "$(page_of "$1")"; then
			"$1" help "$sub" | sed '/^$/Q' | tr -s ' \n' ' ' | sed 's/^usage: //; s/ $/\n/'
		else
			"$1" help --synopsis "$sub"
		fi
	done | sort) \
		<(section "$(page_of "$1")" SYNOPSIS | sort) >"$BATS_TEST_TMPDIR/diff" ||
		fail "options (<) and SYNOPSIS (>) of $1 differ: $(<"$BATS_TEST_TMPDIR/diff")"
}

options_are_described() {
	local missing
	section "$(page_of "$1")" DESCRIPTION >"$BATS_TEST_TMPDIR/text"
	# one process for all: a program has up to a hundred options
	missing=$(for sub in $(subcommands "$1"); do
		echo "subcommand $sub"
		"$1" "$sub" --help
	done | awk '
		FNR == NR {
			for (i = 1; i <= NF; i++) {
				sub(/,$/, "", $i)
				there[$i] = 1
			}
			begins[$1] = begins[$1 ~ /^rnp-/ ? $2 : $1] = 1
			next
		}
		/^subcommand / { sub_name = $2; if (!(sub_name in begins)) printf "%s; ", sub_name }
		/^  (-[a-zA-Z], )?--[a-z0-9-]/ {
			match($0, /--[a-z0-9-]+/)
			option = substr($0, RSTART, RLENGTH)
			if (!(option in there)) printf "%s %s; ", sub_name, option
		}' "$BATS_TEST_TMPDIR/text" -)
	[[ -z $missing ]] || fail "man page of $1 does not describe: $missing"
}

check_page() {
	synopsis_is_usage "$1"
	options_are_described "$1"
	examples_work "$(page_of "$1")"
}

@test "man: every page is clean mdoc, in the usual sections" {
	local page sections
	for page in "$ROOT"/man/*; do
		run mandoc -T lint -W warning "$page"
		assert_success
		sections=$(grep -oE '^\.Sh .*' "$page" | cut -c5- | tr '\n' '|')
		[[ $sections == NAME\|* ]] || fail "$page: $sections"
		[[ $page != *.1 || $sections == *'SYNOPSIS|DESCRIPTION|'*'EXIT STATUS|'*'SEE ALSO|'* ]] ||
			fail "$page: $sections"
	done
}

@test "man: the functions, tables and locks that rnp-hacking(7) names are in the source" {
	local name missing=()
	for name in $(grep -oE '(^\.Li|Li) [a-z][a-z0-9]*_[A-Za-z0-9_.]+' "$ROOT/man/rnp-hacking.7" | sed 's/.* //; s/\..*//' | grep -v '[A-Z]' | sort -u); do
		grep -rqwF --include='*.[ch]' --include='*.cu' -- "$name" "$ROOT"/{cmd,common,kernels} || missing+=("$name")
	done
	((${#missing[@]} == 0)) || fail "not there: ${missing[*]}"
}

# rendered PAGE: as mandoc and, where installed, groff display it, on a very wide terminal
rendered() {
	mandoc -T utf8 -O width=1000 "$1" | col -bx
	! command -v groff >/dev/null || groff -Kutf8 -mdoc -Tutf8 -P-cbou -rLL=999n "$1" 2>/dev/null | col -bx
}

@test "man: quotes, options and examples are rendered as they are typed" {
	cd "$BATS_TEST_TMPDIR"
	local page wrong
	for page in "$ROOT"/man/*; do
		rendered "$page" >page.txt
		# a quotation that does not end where it should
		wrong=$(grep -nE '"""|‘[^’]*‘|“[^”]*“' page.txt | head -3)
		[[ -z $wrong ]] || fail "$page: $wrong"
		# a typographic dash where a program needs "-" for an option
		wrong=$(grep -nE '(^|[^-])[‐−–]{1,2}[a-z]+-?[a-z]* |(^| )—[a-z]' page.txt | head -3)
		[[ -z $wrong ]] || fail "$page: $wrong"
		# the tests run the text that a reader would copy
		dir=$(mktemp -d "$BATS_TEST_TMPDIR/examples.XXXX")
		examples "$page" "$dir"
		[[ -e $dir/1 ]] || continue
		sed 's/^ *//' page.txt | sed 's/^[$>] //; s/^ *//' | sort -u >lines
		wrong=$(sed 's/^ *//; /^$/d' "$dir"/* | sort -u | comm -23 - lines | head -3)
		[[ -z $wrong ]] || fail "$page does not show: $wrong"
	done
}

@test "man: pages fit 80 columns" {
	local page wide
	for page in "$ROOT"/man/*; do
		# a long word cannot be folded everywhere
		wide=$(mandoc -T utf8 -O width=78 "$page" | col -bx | grep -E '^.{81}' | grep -E '[^ ] +[^ ]' || true)
		[[ -z $wide ]] || fail "$page: $wide"
	done
}

@test "man: no word of a page is hyphenated, nor too long for a line of its synopsis" {
	command -v groff >/dev/null || skip "groff is not installed"
	cd "$BATS_TEST_TMPDIR"
	local page
	for page in "$ROOT"/man/*; do
		groff -Kutf8 -mdoc -Tutf8 -P-cbou -rLL=80n "$page" >page.txt 2>errors
		run ! grep -E '[a-z]‐$' page.txt
		# a table of paths has cells that are longer than its columns
		[[ $page == */rnp-hacking.7 || ! -s errors ]] || fail "$page: $(<errors)"
	done
}

@test "man: pages and messages have no sentences that are English words only" {
	# what an author thinks in another language: "End after so many", "An answer may have 256 MiB", "the rest is told"
	run grep -nE '(^|[".] ?)(End after|Judge|Compute with|More than|So) so many|^So many|may have [0-9]+|the rest is told|begins anew' \
		"$ROOT"/man/*.[157] "$ROOT/README.md"
	assert_output ""
	run grep -rnE '"[^"]*(begins anew|the rest is told|may have [0-9])' --include='*.c' "$ROOT/cmd" "$ROOT/common"
	assert_output ""
}

@test "man: JSON in the pages is JSON" {
	cd "$BATS_TEST_TMPDIR"
	local page
	for page in "$ROOT"/man/*; do
		mandoc -T utf8 -O width=1000 "$page" | col -bx >page.txt
		python3 - "$page" page.txt <<-'END'
			import json, re, sys
			lines = open(sys.argv[2]).read().split("\n")
			at = n = 0
			while at < len(lines):
			    text = lines[at].strip()
			    # a line that begins an object in a literal block: the object ends
			    # with the line that closes it
			    if re.match(r'\{("|$)', text) and not re.match(r'\{[a-z]+:', text):
			        end = at
			        while True:
			            try:
			                json.loads("\n".join(lines[at:end + 1]))
			                break
			            except ValueError as e:
			                end += 1
			                if end == len(lines) or not lines[end].strip():
			                    sys.exit(f"{sys.argv[1]}: not JSON ({e}): {text}")
			        at, n = end, n + 1
			    at += 1
			# in a sentence: a quotation of an object, with NAMEs and {...} of what is filled in
			for text in re.findall(r"‘(\{[^’]*: [^’]*\})’", "\n".join(lines)):
			    text = re.sub(r"\b[A-Z]+\b|\{\.\.\.\}", "0", text)
			    try:
			        json.loads(text)
			    except ValueError as e:
			        sys.exit(f"{sys.argv[1]}: not JSON ({e}): {text}")
		END
	done
}

@test "man: rnp-register" {
	check_page rnp-register
}

@test "man: rnp-bench" {
	check_page rnp-bench
}

@test "man: rnp-price" {
	check_page rnp-price
}

@test "man: rnp-train" {
	check_page rnp-train
}

@test "man: rnp-reward" {
	check_page rnp-reward
}

@test "man: rnp-serve" {
	check_page rnp-serve
}

@test "man: examples of rnp-job(5) run" {
	examples_work "$ROOT/man/rnp-job.5"
}

@test "man: examples of rnp-market(7) run" {
	examples_work "$ROOT/man/rnp-market.7"
}

@test "man: examples of rnp(7) run" {
	if ! grep -q '^\.Sh EXAMPLES' "$ROOT/man/rnp.7"; then
		skip "rnp(7) has no EXAMPLES"
	fi
	examples_work "$ROOT/man/rnp.7"
}

@test "man: examples of rnp-quickstart(7) run" {
	examples_work "$ROOT/man/rnp-quickstart.7"
}

@test "man: the way of rnp-quickstart(7) can be gone as it is printed, from a key to a price and pay" {
	local dir=$BATS_TEST_TMPDIR/way
	mkdir -p "$dir/config/rnp" "$dir/work"
	cd "$dir"
	examples "$ROOT/man/rnp-quickstart.7" "$dir" DESCRIPTION
	[[ $(ls "$dir" | grep -c '^[0-9]') -ge 9 ]]
	export XDG_CONFIG_HOME=$HOME/none
	rnp-register keygen --out operator.json >/dev/null
	rnp-register serve --db registry.db --key operator.json --listen 127.0.0.1:0 --port-file port 2>registry.log 3>&- &
	rnp-bench serve --listen 127.0.0.1:0 --port-file peer 2>peer.log 3>&- &
	wait_file port
	wait_file peer
	# what stands for a network's addresses; a pipe that goes on for ever beats once; an editor that changes nothing; the
	# market's answer comes from a file, and the node has a GPU that the market lists
	cat $(ls -v "$dir" | grep '^[0-9]' | sed "s|^|$dir/|") | sed "s|https://registry.example|http://127.0.0.1:$(<port)|
		s|https://peer.example|http://127.0.0.1:$(<peer)|; s/heartbeat |/heartbeat --once |/
		s|\(feed --market akash\)|\1 <akash.json|; /rnp-price feed/i cp \"$ROOT/tests/data/man/node.json\" node.json" >script
	jq -n '{models: [range(1; 6) | {vendor: "nvidia", model: "rtx4090", ram: "24Gi", interface: "PCIe", availability: {total: 4, available: 2},
		providerAvailability: {total: 4, available: 2}, price: {currency: "USD", min: 0.3, max: 0.9, avg: 0.5, weightedAverage: 0.5, med: 0.44}}]}' >work/akash.json
	(
		unset XDG_CONFIG_HOME
		export HOME=$dir EDITOR=true OPERATOR
		OPERATOR=$(rnp-register address --key operator.json)
		cd work && exec timeout 300 bash -e -o pipefail ../script
	) >said 2>&1 || fail "$(cat script said)"
	kill %1 %2
	grep -q '"kind":"rnp.estimate"' said
	grep -q '"ask_uusd"' said
}

@test "man: every file that rnp-hacking(7) names is there" {
	local path missing=()
	# NAME, X and KIND stand for any name; -Tutf8 joins what mdoc splits
	for path in $(mandoc -T utf8 -O width=1000 "$ROOT/man/rnp-hacking.7" | col -bx |
		grep -oE '(cmd|common|kernels|man|scripts|tests)/[A-Za-z0-9_./-]*[a-z0-9/]' | sort -u); do
		[[ $path == *NAME* || $path == *MARKET* || $path == *KIND* || $path == *rnp-X* || -e $ROOT/$path ]] || missing+=("$path")
	done
	((${#missing[@]} == 0)) || fail "rnp-hacking(7) names what is not there: ${missing[*]}"
}

@test "man: an example that fails is found, and what it has started does not go on" {
	cat >"$BATS_TEST_TMPDIR/page" <<-'END'
		.Sh EXAMPLES
		.Bd -literal -offset indent
		$ sleep 600 & echo $! >../started
		$ printf '%s\en' a |
		> grep -v a
		b
		.Ed
	END
	run examples_work "$BATS_TEST_TMPDIR/page"
	assert_failure
	assert_output --partial '1 of 1 examples'
	assert_output --partial "printf '%s\n' a |"
	wait_until 'its process to end' process_is_gone "$(cat "$BATS_TEST_TMPDIR"/example.*/started)"
}

@test "man: the guide names every folder of the programs, the library and the kernels" {
	local folder
	cd "$ROOT"
	for folder in cmd/*/*/ common/*/ common/lm/*/ kernels/*/; do
		[[ $folder == */policies/ ]] || grep -qE "[ /]${folder#"${folder%/*/}"/}" man/rnp-hacking.7 || fail "$folder"
	done
}
