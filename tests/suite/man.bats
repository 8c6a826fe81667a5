# The pages in man/ describe what the programs do: synopsis, options, examples that run.
load helper
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

synopsis_is_usage() {
	local sub
	diff <(for sub in $(subcommands "$1"); do "$1" help --synopsis "$sub"; done | sort) \
		<(section "$(page_of "$1")" SYNOPSIS | sort) >"$BATS_TEST_TMPDIR/diff" ||
		fail "options (<) and SYNOPSIS (>) of $1 differ: $(<"$BATS_TEST_TMPDIR/diff")"
}

options_are_described() {
	local sub option text missing=()
	text=$(section "$(page_of "$1")" DESCRIPTION)
	for sub in $(subcommands "$1"); do
		grep -qE "^(rnp-[a-z]+ )?$sub( |\$)" <<<"$text" || missing+=("$sub")
		for option in $("$1" "$sub" --help | grep -oE '^  (-[a-zA-Z], )?--[a-z0-9-]+' | grep -oE -- '--.*'); do
			grep -qE -- "(^| |, )$option( |,|\$)" <<<"$text" || missing+=("$sub $option")
		done
	done
	((${#missing[@]} == 0)) || fail "man page of $1 does not describe: $(printf '%s; ' "${missing[@]}")"
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
		cat "$dir"/* | sed 's/^ *//' | sort -u | while IFS= read -r line; do
			[[ -z $line ]] || grep -qxF -- "$line" lines || fail "$page does not show: $line"
		done
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

@test "man: examples of rnp(7) run" {
	if ! grep -q '^\.Sh EXAMPLES' "$ROOT/man/rnp.7"; then
		skip "rnp(7) has no EXAMPLES"
	fi
	examples_work "$ROOT/man/rnp.7"
}

@test "man: examples of rnp-quickstart(7) run" {
	examples_work "$ROOT/man/rnp-quickstart.7"
}

@test "man: every file that rnp-hacking(7) names is there" {
	local path missing=()
	# NAME, X and KIND stand for any name; -Tutf8 joins what mdoc splits
	for path in $(mandoc -T utf8 -O width=1000 "$ROOT/man/rnp-hacking.7" | col -bx |
		grep -oE '(cmd|common|kernels|man|scripts|tests)/[A-Za-z0-9_./-]*[a-z/]' | sort -u); do
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
