# rnp-register work: the node's agent with real containers, on what a registry of the test assigns (work_registry.py).
load ../helper
load registry
load containers
load work

@test "work: a booked container runs; its log and its exit code arrive, and nothing of it stays" {
	assign "$C" "$(booking 'echo hello from rank $SKYPILOT_NODE_RANK of $RNP_NODES; id -u; pwd; exit 3')"
	start_agent
	wait_until "the run's end" told "$C" '.exit == 3'
	wait_until "its release" told "$C" '.to == "released"'
	assert_equal "$(states "$C")" "proving pulling starting ready releasing released "
	assert_equal "$(cat "reg/log-$C-0")" $'hello from rank 0 of 1\n0\n/root/sky_workdir'
	run jq -s 'map(.seq) == [range(1; length + 1)]' reg/events.jsonl
	assert_output true
	while read -r event; do rnp-register verify <<<"$event" >/dev/null; done <reg/events.jsonl
	wait_until "an empty machine" nothing_left
	wait_until "an idle state" grep -q idle state
}

@test "work: until all ranks are ready nothing of its image runs, whatever the image wants" {
	local IMAGE
	IMAGE=$(push_image eager --eager)
	# nor does it change what it was given, for its next run or for its sessions
	assign "$C" "$(booking 'echo job; for f in /run/rnp-gate /run/rnp/go /run/rnp/start /run/rnp/run /run/rnp/new; do
		{ echo x >$f || rm $f || mv $f /x || ln -f /bin/sh $f || chmod 777 $f || mount -o remount,rw,bind $f; } 2>/dev/null && echo "$f changed"
		done; umount /run/rnp-gate 2>/dev/null && echo gone; true')" '.go = false'
	start_agent
	wait_until "ready" told "$C" '.to == "ready"'
	# all in its name space of processes: only our own program, and no memory to speak of
	local first pid pids='' own
	first=$(pgrep -P "$(pgrep -f "conmon .*$RUN/l/")")
	own=$(readlink "/proc/$first/ns/pid")
	for pid in $(pgrep -U "$((1 << 28))"); do
		[[ $(readlink "/proc/$pid/ns/pid") != "$own" ]] || pids+=" $pid"
	done
	[[ $pids == *" $first"* ]]
	for pid in $pids; do
		assert_equal "$(readlink "/proc/$pid/exe")" /run/rnp-gate
		(($(awk '/^VmSize/ { print $2 }' "/proc/$pid/status") < 256))
	done
	change "$C" '.go = true'
	wait_until "the run's end" told "$C" '.exit == 0'
	assert_equal "$(uniq "reg/log-$C-0")" $'/bin/sh ran\njob'
	wait_until "its release" told "$C" '.to == "released"'

	# what waits ends at once
	assign "$D" "$(booking 'echo job' '.proposal.request.job = "k"')" '.go = false'
	wait_until "ready" told "$D" '.to == "ready"'
	change "$D" '.want = "release"'
	wait_until "its release" told "$D" '.to == "released"'
	[[ ! -s reg/log-$D-0 ]]
	wait_until "an empty machine" nothing_left
}

@test "work: what a registry makes up is refused, and nothing is made for it" {
	local good other
	good=$(booking 'true')
	make_key other
	# what lies about others is refused likewise: ranks that are no nodes of the booking, artifacts that none of them has signed for
	# this rank of this cluster
	# signed by another; a lower price than quoted; a quote that nobody signed; another node's part; a GPU that is not here;
	# hours that are over; an altered command; no digest
	assign "$(printf '1%.0s' {1..32})" "$(booking true . other)"
	assign "$(printf '2%.0s' {1..32})" "$(booking true '.proposal.offers[0].nodes[0].node_uusd_per_hour = 5')" '.node_uusd_per_hour = 5'
	assign "$(printf '3%.0s' {1..32})" "$(booking true ".proposal.offers[0].nodes[0].quote = (\"0\" * 64)")" '.quote = ("0" * 64)'
	assign "$(printf '4%.0s' {1..32})" "$(booking true ".proposal.offers[0].nodes[0].node = \"$other\"")"
	assign "$(printf '5%.0s' {1..32})" "$(booking true '.proposal.offers[0].nodes[0].gpus = ["GPU-1"]')" '.gpus = ["GPU-1"]'
	assign "$(printf '6%.0s' {1..32})" "$(booking true '.at = "2020-01-01T00:00:00Z"')"
	assign "$(printf '7%.0s' {1..32})" "$good" '.booking.run_sha256 = ("0" * 64)'
	assign "$(printf '8%.0s' {1..32})" "$(booking true '.image = "docker.io/library/debian:12"')"
	start_agent
	local cluster
	cluster=$(printf '9%.0s' {1..32})
	assign "$cluster" "$good" ".peers = [{rank: 0, node: \"$node\"}, {rank: 1, node: \"$other\"}]"
	cluster=$(printf 'a%.0s' {1..32})
	assign "$cluster" "$good" ".peers = [{rank: 0, node: \"$other\", address: \"192.0.2.1\"}]"
	cluster=$(printf 'b%.0s' {1..32})
	good=$(booking 'true' '.artifacts = {paths: ["x"], every_s: 60}')
	assign "$cluster" "$good" ".kept = $(kept other "$HASH" 0 "$cluster")"
	cluster=$(printf 'c%.0s' {1..32})
	assign "$cluster" "$good" ".kept = ($(kept node "$HASH" 0 "$cluster") | .artifacts = (\"1\" * 64))"
	cluster=$(printf 'd%.0s' {1..32})
	assign "$cluster" "$good" ".kept = $(kept node "$HASH" 1 "$cluster")"
	cluster=$(printf 'e%.0s' {1..32})
	assign "$cluster" "$good" ".kept = $(kept node "$HASH" 0 "$(printf '0%.0s' {1..32})")"
	cluster=$(printf 'f%.0s' {1..32})
	assign "$cluster" "$good" ".keys = $(signed other "{kind: \"rnp.action\", signer: \"$other\", cluster: \"$cluster\", action: \"keys\", ssh_keys: []}")"
	cluster=$(printf '0%.0s' {1..32})
	assign "$cluster" "$good" ".keys = $(signed customer "{kind: \"rnp.action\", signer: \"$customer\", cluster: \"$C\", action: \"keys\", ssh_keys: []}")"
	for n in f:'keys that the customer has not signed' 0:'keys of another cluster' 9:"names '$other' as rank 1 of 1" a:"names '$other' as rank 0 of 1" b:'no node of the booking has signed' \
		c:'no node of the booking has signed' d:'another rank or cluster' e:'another rank or cluster' \
		1:'not signed by customer' 2:'and this node quoted 100000' 3:'has not quoted' 4:'no such part for this node' \
		5:"no GPU 'GPU-1'" 6:'hours are over' 7:'not signed by customer' 8:'has no digest'; do
		wait_until "refusal $n" told "$(printf "${n%%:*}%.0s" {1..32})" ".to == \"failed\" and (.cause | contains(\"${n#*:}\"))"
	done
	nothing_left
	run jq -s 'map(.to) | unique' -c reg/events.jsonl
	assert_output '["failed"]'
}

@test "work: the agent is killed while a container runs; the next one finds it, and its end" {
	assign "$C" "$(booking 'echo begins; sleep 6; echo ends; exit 4')"
	start_agent
	wait_until "a running container" told "$C" '.to == "ready"'
	wait_until "its first line" grep -q begins "reg/log-$C-0"
	kill -9 "$agent"
	wait "$agent" || true
	start_agent
	wait_until "its end" told "$C" '.exit == 4'
	wait_until "its release" told "$C" '.to == "released"'
	assert_equal "$(cat "reg/log-$C-0")" $'begins\nends'
	assert_equal "$(states "$C")" "proving pulling starting ready releasing released "
	wait_until "an empty machine" nothing_left
}

@test "work: a container whose supervisor was killed is a failure of the node, and goes" {
	assign "$C" "$(booking 'echo begins; sleep 1000')"
	start_agent
	wait_until "a running container" told "$C" '.to == "ready"'
	wait_until "its first line" grep -q begins "reg/log-$C-0"
	pkill -9 -f "conmon .*$RUN/l/"
	wait_until "its failure" told "$C" '.to == "failed" and (.cause | contains("supervisor was killed"))'
	wait_until "an empty machine" nothing_left
}

@test "work: a lease that is released or not listed any more ends within its grace, whatever its job does with SIGTERM" {
	assign "$C" "$(booking 'trap "echo asked; exit 0" TERM; echo begins; while :; do sleep 0.1; done')"
	assign "$D" "$(booking 'trap "" TERM; echo begins; while :; do sleep 1000; done' '.proposal.request.job = "k"')"
	start_agent --grace 1s
	wait_until "the first container" grep -q begins "reg/log-$C-0"
	# there is one device, and so one lease
	wait_until "a refusal" told "$D" '.to == "failed" and (.cause | contains("is in another lease"))'
	change "$C" '.want = "release" | .cause = "the customer wants it"'
	wait_until "its release" told "$C" '.to == "released"'
	told "$C" '.to == "releasing" and .cause == "the customer wants it"'
	grep -q asked "reg/log-$C-0"
	wait_until "an empty machine" nothing_left

	E=$(printf 'e%.0s' {1..32})
	assign "$E" "$(booking 'trap "" TERM; echo begins; while :; do sleep 1000; done' '.proposal.request.job = "l"')"
	wait_until "a deaf container" grep -q begins "reg/log-$E-0"
	echo '[]' >reg/work.json
	wait_until "an empty machine" nothing_left
	wait_until "an idle state" grep -q idle state
}

@test "work: the agent is killed while it unpacks; the next one unpacks all of it, and follows no link that lies there" {
	local work mount
	work=$(directory hello 'from the work directory')
	mount=$(directory there 'from a mount')
	mkdir outside
	assign "$C" "$(booking 'cat hello .rnp/mounts/1/there; ls -A; exit 3' ".blobs = [\"$work\", \"$mount\"]")"
	touch "reg/hold-$mount"
	start_agent
	data=$BOX/work/volumes/$C-0-0/data
	half_there() { [[ -e $data/unpack/work/hello ]]; }
	wait_until "half of it" half_there
	# nothing of it is in its place before all of it is there
	assert_equal "$(ls -A "$data/work")" ''
	cell=$(pgrep -P "$agent" -f 'work --files')
	kill -9 "$agent"
	wait "$agent" || true
	gone() { ! [[ -e /proc/$cell ]] || grep -q ') Z' "/proc/$cell/stat"; }
	wait_until "the end of what unpacked" gone
	# whoever had been in the container leaves links where the next one is to write
	ln -s "$BOX/outside" "$data/unpack/work/.rnp"
	ln -s "$BOX/outside" "$data/unpack/more"
	rm "reg/hold-$mount"
	start_agent
	wait_until "its end" told "$C" '.exit == 3'
	assert_equal "$(cat "reg/log-$C-0")" $'from the work directoryfrom a mount.rnp\nhello'
	assert_equal "$(ls -A outside)" ''
	wait_until "its release" told "$C" '.to == "released"'
	wait_until "an empty machine" nothing_left
}

@test "work: a work directory that its disk does not hold is said, and nothing of it stays" {
	head -c 66000000 /dev/zero >reg/large
	sha=$(sha256sum <reg/large | cut -d' ' -f1)
	head -c 11000000 reg/large >reg/piece
	piece=$(sha256sum <reg/piece | cut -d' ' -f1)
	mv reg/piece "reg/blobs/$piece"
	rm reg/large
	work=$(blob "$(jq -nc --arg sha "$sha" --arg piece "$piece" '{kind: "rnp.manifest", v: 1, bytes: 66000000,
		blobs: [range(6) | {bytes: 11000000, sha256: $piece}], files: [{path: "x", mode: 420, bytes: 66000000, sha256: $sha}]}')")
	assign "$C" "$(booking true ".blobs = [\"$work\"]")"
	start_agent
	wait_until "its failure" told "$C" '.to == "failed" and (.cause | contains("No space left"))'
	wait_until "an empty machine" nothing_left
	assign "$D" "$(booking true ".proposal.request.disk_bytes = 33554432 | .blobs = [\"$work\"]")"
	wait_until "another's failure" told "$D" '.to == "failed" and (.cause | contains("more than the 33554432 allowed"))'
	wait_until "an empty machine" nothing_left
}

@test "work: what a node of the booking kept is back before run; what the registry says of others later is passed over, and named" {
	local back work
	back=$(directory work/seed 'kept before')
	work=$(directory hello 'from the work directory')
	touch "reg/hold-$work"
	assign "$C" "$(booking 'cat seed hello; while [ ! -e on ]; do sleep 0.1; done; exit 3' ".blobs = [\"$work\"] | .artifacts = {paths: [\"x\"], every_s: 3600}")" ".kept = $(kept node "$back")"
	make_key other
	start_agent
	wait_until "its unpacking" test -d "$BOX/work/volumes/$C-0-0/data/unpack"
	# news while it unpacks, and later such as cannot be
	change "$C" '.cause = "news"'
	rm "reg/hold-$work"
	wait_until "its first lines" grep -q 'work directory' "reg/log-$C-0"
	change "$C" ".peers = [{rank: 0, node: \"$other\", address: \"127.0.0.1\"}]"
	wait_until "a doubt" told "$C" ".to == \"ready\" and ((.cause // \"\") | contains(\"passed over: the registry names '$other' as rank 0\"))"
	touch "$BOX/work/volumes/$C-0-0/data/work/on"
	wait_until "its end" told "$C" '.exit == 3'
	assert_equal "$(cat "reg/log-$C-0")" 'kept beforefrom the work directory'
	# whoever is to end does so, whatever else is said
	wait_until "its release" told "$C" '.to == "released"'
	wait_until "an empty machine" nothing_left
}

@test "work: artifacts are kept; those without an end are refused with the cause, and the lease ends all the same" {
	assign "$C" "$(booking 'out=/run/rnp-out; mkdir $out/artifacts; echo one >$out/artifacts/a; echo 1 >$out/collected; echo first
		while [ ! -e go ]; do sleep 0.1; done; truncate -s 1000000000000 $out/artifacts/a; echo 2 >$out/collected; echo second
		while [ ! -e on ]; do sleep 0.1; done; rm $out/artifacts/a; ln -s /proc $out/artifacts/p; mkfifo $out/artifacts/f
		ln -s a $out/artifacts/l; echo 3 >$out/collected; while :; do sleep 1; done' '.artifacts = {paths: ["x"], every_s: 3600}')"
	start_agent
	wait_until "its first artifacts" told "$C" '.to == "ready" and .artifacts'
	kept=$(jq -r 'select(.artifacts).artifacts' reg/events.jsonl)
	assert_equal "$(jq -c '[.files[] | [.path, .bytes]]' "reg/blobs/$kept")" '[["a",4]]'
	work=$BOX/work/volumes/$C-0-0/data/work
	touch "$work/go"
	wait_until "a refusal" told "$C" '.to == "ready" and ((.cause // "") | test("artifacts were not kept: .*more than 67108864 bytes"))'
	touch "$work/on"
	others() { [[ $(jq -s --arg k "$kept" 'map(select(.artifacts and .artifacts != $k)) | length' reg/events.jsonl) == 1 ]]; }
	wait_until "other artifacts" others
	assert_equal "$(jq -sr 'map(select(.artifacts))[1].artifacts' reg/events.jsonl | xargs -I% jq -c '[.files[].path]' reg/blobs/%)" '["l"]'
	change "$C" '.want = "release"'
	wait_until "its release" told "$C" '.to == "released"'
	wait_until "an empty machine" nothing_left
}

@test "work: what a job kept at its end waits for a registry that is away, and so does its exit" {
	assign "$C" "$(booking 'echo one >x; echo begins; while [ ! -e on ]; do sleep 0.1; done' '.artifacts = {paths: ["x"]}')"
	start_agent
	wait_until "its first line" grep -q begins "reg/log-$C-0"
	touch reg/away "$BOX/work/volumes/$C-0-0/data/work/on"
	# more than one upload tries
	often() { [[ -s reg/refused ]] && (($(grep -c /v1/blobs reg/refused) > 6)); }
	wait_until "tries" often
	rm reg/away
	wait_until "its end" told "$C" '.exit == 0 and (.artifacts | length == 64)'
	wait_until "an empty machine" nothing_left
}

@test "work: what a job keeps when it is told to end goes home, too" {
	assign "$C" "$(booking 'echo one >x; echo begins; trap "echo two >x; exit" TERM; while :; do sleep 0.1; done' '.artifacts = {paths: ["x"]}')"
	start_agent
	wait_until "its first line" grep -q begins "reg/log-$C-0"
	change "$C" '.want = "release"'
	wait_until "its release" told "$C" '.to == "released"'
	kept=$(jq -r 'select(.artifacts) | [.to, .artifacts] | join(" ")' reg/events.jsonl)
	assert_regex "$kept" '^releasing [0-9a-f]{64}$'
	assert_equal "$(cat "reg/blobs/$(jq -r '.files[] | select(.bytes).sha256 // empty' "reg/blobs/${kept#* }")")" two
	wait_until "an empty machine" nothing_left
}

@test "work: a job that fills its disk keeps what it had kept before, and is told so" {
	assign "$C" "$(booking 'echo one >x; while [ ! -e on ]; do sleep 0.1; done
		head -c 30000000 /dev/zero >y; mv y x; cat /dev/zero >z; while [ -e on ]; do sleep 0.1; done; exit 3' \
		'.artifacts = {paths: ["x"], every_s: 10}')"
	start_agent
	wait_until "its first artifacts" told "$C" '.artifacts'
	work=$BOX/work/volumes/$C-0-0/data/work
	touch "$work/on"
	wait_until "a full disk" told "$C" '.to == "ready" and ((.cause // "") | contains("artifacts were not kept: its disk is full"))'
	assert_equal "$(cat "$work/../out/artifacts/work/x")" one
	rm "$work/on"
	wait_until "its end" told "$C" '.exit == 3 and (.cause | contains("its disk is full"))'
	assert_equal "$(jq -r 'select(.artifacts).artifacts' reg/events.jsonl | sort -u | wc -l)" 1
	wait_until "an empty machine" nothing_left
}

@test "work: what has failed holds its device until nothing of it is left" {
	assign "$C" "$(booking 'echo begins; sleep 1000')"
	start_agent
	wait_until "its first line" grep -q begins "reg/log-$C-0"
	# a file on which something is mounted does not go
	img=$BOX/work/volumes/$C-0-0.img
	mount --bind "$img" "$img"
	pkill -9 -f "conmon .*$RUN/l/"
	wait_until "a word" told "$C" '.to == "ready" and ((.cause // "") | contains("what is left of it does not go yet: "))'
	assign "$D" "$(booking true '.proposal.request.job = "k"')"
	wait_until "a refusal" told "$D" '.to == "failed" and (.cause | contains("is in another lease"))'
	run ! told "$C" '.to == "failed"'
	umount "$img"
	wait_until "its failure" told "$C" '.to == "failed" and (.cause | contains("supervisor was killed"))'
	wait_until "an empty machine" nothing_left
}

@test "work: kills at random instants lose no lease, double none, and leave nothing" {
	kill_rounds 4 7
}

@test "work: a lease is ready when a session in it began through the gateway, and its customer gets in" {
	[[ -x /usr/sbin/sshd ]] || skip "no sshd (Debian's openssh-server): scripts/bootstrap"
	load gateway
	# users of this machine alone
	cp /etc/passwd passwd
	printf '%s\n' "rnp-session:x:65532:65532::/:/bin/sh" "rnp-gateway:x:65533:65533::/:/usr/sbin/nologin" >>passwd
	unshare -m sh -c "mount --bind '$BOX/passwd' /etc/passwd && exec sleep 1000000" 3>&- &
	users=$!
	users_are_there() { nsenter --mount="/proc/$users/ns/mnt" getent passwd rnp-gateway >/dev/null; }
	wait_until "users" users_are_there
	IN_MACHINE+=(--mount="/proc/$users/ns/mnt" --wd="$BOX")
	make_ssh_key a
	chmod 711 "$BOX"
	mkdir -m 700 gate
	chown 65533:65533 gate
	jq -nc --arg n "$node" --arg a "$(cat a.pub)" \
		'{kind: "rnp.access", v: 1, nodes: [{node: $n, numbers: [1]}], customers: [{key: $a, numbers: [1]}]}' >access.json
	"${IN_MACHINE[@]}" setpriv --reuid 65533 --regid 65533 --clear-groups rnp-register gateway --dir "$BOX/gate" --keys "$BOX/access.json" \
		--listen 127.0.0.1:2222 >gateway.json 2>"$BATS_TEST_TMPDIR/gateway.err" 3>&- &
	gateway=$!
	wait_port gateway.json "$gateway"
	jq -c . gateway.json | rnp-register sign --key customer.json | jq -c '{gateways: [.]}' >reg/gateways.json
	assign "$C" "$(booking 'echo begun; sleep 1000' ".ssh_keys = [\"$(cat a.pub)\"]")" '.go = false'
	start_agent
	wait_until "ready" told "$C" '.to == "ready"'
	told "$C" '.to == "ready" and (.cause | test("a session in it began"))'
	wait_until "a listing" grep -q host_key reg/listings.jsonl
	jq -es "all(.images_bytes == 67108864)" reg/listings.jsonl
	{
		jq -r '"[127.0.0.1]:2222 " + .host_key' gateway.json
		jq -r '"box " + .host_key' reg/listings.jsonl | head -n 1
	} >known_hosts
	printf '%s\n' "Host gate" " HostName 127.0.0.1" " Port 2222" " User rnp-gateway" "Host box" " HostName 127.1.0.1" " Port 2200" \
		" HostKeyAlias box" " User rnp-session" " ProxyJump gate" "Host *" " UserKnownHostsFile $BOX/known_hosts" " BatchMode yes" \
		" StrictHostKeyChecking yes" " IdentityFile $BOX/a" >ssh_config
	# nobody works for nothing while the other ranks come
	run "${IN_MACHINE[@]}" ssh -F ssh_config box hostname
	assert_failure
	assert_output --partial "waits for the other ranks"
	change "$C" '.go = true'
	run "${IN_MACHINE[@]}" ssh -F ssh_config box 'hostname; exit 4'
	assert_failure 4
	assert_output rank0
	# released, it is gone with all that leads to it
	change "$C" '.want = "release"'
	wait_until "its release" told "$C" '.to == "released"'
	run "${IN_MACHINE[@]}" ssh -F ssh_config box true
	assert_failure 255
	assert [ -z "$(ls "$RUN/ssh")" ]
	stop_agent
	kill "$gateway" "$users"
}
