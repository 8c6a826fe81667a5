# Acknowledged records survive a power cut: a disk that keeps only what was flushed
# (unsynced.c).
load ../helper
load ../rnp-register/registry

setup_file() {
	gcc -shared -fPIC -O1 -D_GNU_SOURCE -o "$BATS_FILE_TMPDIR/unsynced.so" "${BATS_TEST_FILENAME%/*}/unsynced.c" -ldl
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	mkdir disk kept
	UNDER=(env LD_PRELOAD="$BATS_FILE_TMPDIR/unsynced.so" UNSYNCED="$PWD/disk" UNSYNCED_KEPT="$PWD/kept")
}

teardown() {
	stop_registry
}

# power_cut: leaves in the folder disk what would be there when the power comes back
power_cut() {
	local inode name
	rm -rf disk
	mkdir disk
	[[ -f kept/names ]] || return 0
	while read -r inode name; do
		if [[ -f kept/i.$inode ]]; then cp "kept/i.$inode" "disk/$name"; else : >"disk/$name"; fi
	done <kept/names
}

@test "durable: the disk of this test loses what was not flushed" {
	"${UNDER[@]}" bash -c 'echo x >disk/never; echo y >disk/file; sync disk/file'
	power_cut
	assert_equal "$(ls disk)" ""
	# inode numbers of deleted files are reused
	rm -rf kept disk
	mkdir kept disk
	"${UNDER[@]}" bash -c 'echo x >disk/never; echo y >disk/file; sync disk/file disk; echo z >disk/file'
	power_cut
	assert_equal "$(cat disk/file)" y
	assert_equal "$(cat disk/never)" ""
}

@test "durable: a key file is there, whole, when keygen has ended" {
	"${UNDER[@]}" rnp-register keygen --out disk/k.json >said
	cp disk/k.json before
	power_cut
	cmp before disk/k.json
	assert_equal "$(rnp-register address --key disk/k.json 2>&1)" "$(jq -r .node said)" || chmod 600 disk/k.json
}

@test "durable: every record that the registry has acknowledged is there after a power cut" {
	make_key a
	"${UNDER[@]}" rnp-register serve --db disk/r.db --listen 127.0.0.1:0 --port-file port --log-file log 2>>serve.err 3>&- &
	server=$!
	wait_port port "$server"
	url=http://127.0.0.1:$(cat port)
	node_record a '{name: "0", at: (now - 100 | todate)}' >n.json
	post /v1/nodes n.json
	assert_equal "$status_code" 201
	acknowledged=1 beats=0
	for i in {1..8}; do
		node_record a "{name: \"$i\", at: (now - 100 + $i | todate)}" >n.json
		post /v1/nodes n.json
		[[ $status_code != 200 ]] || acknowledged=$((acknowledged + 1))
		heartbeat_record a >h.json
		post /v1/heartbeats h.json
		[[ $status_code != 200 ]] || beats=$((beats + 1))
	done
	kill -9 "$server"
	wait "$server" || true
	server=
	power_cut
	ls -l disk
	assert_equal "$acknowledged $beats" "9 8"
	assert_equal "$(sqlite3 disk/r.db "SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM heartbeats)")" "9|8"
}
