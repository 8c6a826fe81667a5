# man_examples.bash - run the EXAMPLES of our man pages: `load man_examples`.
#
# Each `.Bd -literal` block of the section is one script: lines that begin with "$ " are its
# commands, lines that begin with "> " continue them, and other lines show output, which is not
# compared. A script runs with bash -e -o pipefail in a fresh directory with copies of
# tests/data/man, a key at
# the default place and, if it mentions https://registry.example, its own registry.

# examples PAGE DIR [SECTION]: writes the blocks as DIR/1, DIR/2 ...
examples() {
	awk -v dir="$2" -v section="${3:-EXAMPLES}" '
		function plain(text) {
			gsub(/\\e/, "\\", text)
			gsub(/\\-/, "-", text)
			gsub(/\\\(aq/, "\047", text)
			gsub(/\\\(dq/, "\"", text)
			gsub(/\\\(ti/, "~", text)
			gsub(/\\\(ha/, "^", text)
			gsub(/\\\(ga/, "`", text)
			gsub(/\\&/, "", text)
			return text
		}
		/^\.Sh / { ours = $2 == section }
		/^\.Bd -literal/ && ours { block = 1; n++; next }
		/^\.Ed/ { block = 0 }
		block && /^[$>] / { print plain(substr($0, 3)) > (dir "/" n) }
	' "$1"
}

example_registry_start() {
	rnp-register serve --db "$1/registry.db" --listen 127.0.0.1:0 --port-file "$1/port" \
		2>"$1/registry.log" 3>&- &
	example_registry=$!
	for _ in {1..1200}; do
		[[ -s $1/port ]] && return
		sleep 0.05
	done
	echo "# the registry of the example did not start: $(<"$1/registry.log")" >&2
	return 1
}

# run_example SCRIPT: returns the script's status, and prints its output when that is not 0
run_example() {
	local dir script status=0 example_registry=''
	dir=$(mktemp -d "$BATS_TEST_TMPDIR/example.XXXX")
	mkdir -p "$dir/work" "$dir/config/rnp"
	cp -R "$ROOT"/tests/data/man/. "$dir/work/"
	cp "$1" "$dir/script"
	export XDG_CONFIG_HOME=$dir/config HOME=$dir
	rnp-register keygen --out "$dir/config/rnp/key.json" >/dev/null || return
	if grep -q 'https://registry\.example' "$1"; then
		example_registry_start "$dir" || return
		# a port file may contain the port or the whole address
		sed -i "s|https://registry\.example|http://127.0.0.1:$(grep -oE '[0-9]+$' "$dir/port")|g" \
			"$dir/script"
	fi
	(cd "$dir/work" && exec timeout -k 5 120 bash -e -o pipefail "$dir/script") >"$dir/said" 2>&1 3>&- &
	script=$!
	wait "$script" || status=$?
	# the servers of one that failed in the middle would go on: they are in the process group of its timeout
	kill -KILL -- "-$script" 2>/dev/null || true
	if [[ $example_registry ]]; then
		kill "$example_registry"
		ended "$example_registry" || true
	fi
	((status == 0)) || printf '# exit %d of:\n%s\n# said:\n%s\n' "$status" "$(<"$dir/script")" "$(<"$dir/said")"
	return "$status"
}

# examples_work PAGE: all blocks of a page run without error, and there is at least one
examples_work() {
	local dir script failed=0 n=0
	dir=$(mktemp -d "$BATS_TEST_TMPDIR/examples.XXXX")
	examples "$1" "$dir"
	for script in "$dir"/*; do
		[[ -e $script ]] || continue
		n=$((n + 1))
		run_example "$script" || failed=$((failed + 1))
	done
	if ((failed || !n)); then
		fail "$failed of $n examples of $1 fail"
	fi
}
