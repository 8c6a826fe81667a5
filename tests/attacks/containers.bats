#!/usr/bin/env bats
# containers - what somebody hostile does in a container that he has leased, really run: volume, network and engine as a node's agent
# has them. tests/soak/hostile-containers.bats has what takes longer.
load ../helper
load containers

setup_file() {
	need_leases
	node_begin
}

teardown_file() { node_end; }

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	container=''
}

teardown() { leases_end; }

@test "hostile: mounts, name spaces, devices, cgroups, /proc/sys, keys, handles, modules, raw sockets: nothing is let through" {
	lease_begin a
	in_container a inside >said
	cat said
	(($(grep -c ': E' said) >= 60)) # as many tries were made, and each failed
	run ! grep ': done$' said
	grep -qx 'core: 1 1' said # its crashes are no business of the machine's collector
	in_container a 'cat /proc/1/cgroup /proc/1/mountinfo; ls -lR /dev /sys/fs/cgroup' >said
	run grep -E 'libpod_parent|libpod-|nvidia|sda|vda' said
	assert_output ""
	in_container a 'ls /proc | grep -c "^[0-9]"' >said
	(($(cat said) < 8)) # its own processes alone
	lease_end a
}

@test "hostile: who comes in by a session may do no more than the container's own program" {
	lease_begin a
	start a 'sleep 600'
	lease container exec "$BASE" a "$container" 'inside; id -u; ulimit -n; grep -E "^(CapBnd|NoNewPrivs|Seccomp):" /proc/self/status; cat /proc/self/uid_map' >said
	cat said
	(($(grep -c ': E' said) >= 60))
	assert_equal "$(grep ': done$' said)" 'ptrace 1: done' # it is the container's own first process
	grep -qx 'core: 1 1' said
	grep -qP 'CapBnd:\t00000000000001fb' said
	grep -qP 'NoNewPrivs:\t1' said
	grep -qP 'Seccomp:\t2' said
	grep -qE "0 +$USERS +65536" said
	lease_end a
}

@test "hostile: it does not reach host, router, neighbour or metadata, whatever it asks, and the world it does" {
	lease_begin a
	lease_begin b
	start b 'nc -l -p 8008; nc -l -p 8008; sleep 600'
	neighbour=$container
	container=''
	in_container a 'inside connect 9.9.9.9 80 192.168.7.10 80 5.6.7.8 80 192.168.7.1 80 100.127.128.0 80 100.127.128.1 80 \
		100.127.128.2 8008 100.127.128.3 8008 169.254.169.254 80 100.100.100.200 80 10.1.2.3 80 127.0.0.1 80' >said
	assert_equal "$(grep -c done said)" 1 || cat said
	grep -qx 'connect 9.9.9.9 80: done' said
	run ! grep -E '^(tcp|udp)' "$BATS_FILE_TMPDIR/host.asked"
	container=$neighbour lease_end b
	lease_end a
}

@test "hostile: who fills every file that he can write to fills his own volume, and neither /run nor the disk" {
	lease_begin a
	run_kib=$(df --output=used /run | tail -n 1)
	start a 'for f in /x /etc/hosts /etc/resolv.conf /etc/hostname /run/.containerenv /tmp/x /root/x /var/x; do
			dd if=/dev/zero bs=1M count=100 2>&1 >>$f | grep -c "No space"; done; for i in 1 2 3; do sleep 1; done'
	wait_until "it to be full" full a
	(($(du -s "/run/${BASE##*/}" | cut -f1) < 1024)) || fail "$(du -a "/run/${BASE##*/}" | sort -n | tail)"
	(($(stat -c '%b * 512' "$BASE/vol/a.img") <= 65 << 20))
	result a >/dev/null
	lease volume use "$BASE/vol" 0 a
	lease_end a
	[[ ! -e $BASE/vol/a.img ]]
}
full() { (($(lease volume use "$BASE/vol" 0 "$1" | jq .free) < 1000000)); }

@test "hostile: as many files as it likes are as many as its volume has" {
	lease_begin a 16
	in_container a 'i=0; while echo >/tmp/$i; do i=$((i + 1)); done 2>/dev/null; echo $i files; echo >/tmp/more' >said
	read -r files _ <said
	((files > 100 && files < 1100)) || cat said
	lease_end a
}

@test "hostile: memory ends at its limit, by whatever means, and the cause is named" {
	lease_begin a
	MEMORY=$((32 << 20)) start a 'dd if=/dev/zero of=/dev/shm/x bs=1M count=100 2>&1 | grep -o "No space.*"
		dd if=/dev/zero of=/dev/x bs=1M count=100; sleep 600'
	oom() { lease container state "$BASE" a "$container" 100 >state && jq -e .oom state; }
	wait_until "the kernel to kill something" oom
	lease container remove "$BASE" a "$container"
	# what is its first process goes as a whole
	MEMORY=$((32 << 20)) start a 'exec dd if=/dev/zero of=/dev/null bs=200M count=1'
	result a >/dev/null
	[[ $(jq -r .cause state) == *memory* ]] || fail "$(cat state)"
	# whenever it ends, while it is started, looked at or asked about, its cause is known
	for i in {6..13}; do
		lease container remove "$BASE" a "$container"
		MEMORY=$((i << 20)) start a 'exec dd if=/dev/zero of=/dev/null bs=200M count=1'
		result a >/dev/null
		assert_equal "$(jq -r '"\(.exit) \(.cause)"' state)" '137 its memory was used up, and the kernel killed it'
	done
	lease_end a
}

@test "hostile: a fork bomb has as many processes as were said, and goes at once" {
	lease_begin a
	PIDS=50 CPU=500 start a 'inside bomb'
	many() { (($(pgrep -c -u "$USERS") >= 20)); }
	wait_until "the bomb" many
	(($(pgrep -c -u "$USERS") <= 50))
	begin=$SECONDS
	lease container remove "$BASE" a "$container"
	((SECONDS - begin < 100)) || fail "it took $((SECONDS - begin)) s"
	assert_equal "$(pgrep -c -u "$USERS" || true)" 0
	lease_end a
}

@test "hostile: who ignores SIGTERM is killed when his time is over, and leaves nobody behind" {
	lease_begin a
	start a 'trap "" TERM INT HUP; (setsid sh -c "trap \"\" TERM; while :; do sleep 1; done" &); echo up; while :; do sleep 1; done'
	up() { lease container log "$BASE" a "$container" | grep -q up; }
	wait_until "it to be deaf" up
	lease container stop "$BASE" a "$container" 500
	result a 100 >/dev/null
	assert_equal "$(jq -r .status state)" exited
	none() { ! pgrep -u "$USERS" >/dev/null; }
	wait_until "all of it to be gone" none
	lease_end a
}

@test "hostile: a flood of output takes what a log may have; its bytes come as they were, and none is the node's" {
	lease_begin a
	printf 'printf "\\033]0;owned\\007\\033[2J\\r\\n"; head -c 20000000 /dev/zero | tr "\\0" x; echo; yes | head -n 500000; printf "\\033[2Jend\\n"' >script
	in_container a "$(cat script)" >said
	assert_equal "$(tail -n 1 said)" $'\033[2Jend'
	(($(wc -c <said) < 3 << 20))
	run ! grep -P '[^\x20-\x7e]' state # what the node says of it is plain
	(($(du -s "$BASE/vol/a/data/podman" | cut -f1) < 8000))
	lease_end a
}

@test "hostile: programs that are set to root's user do not make anybody root, in its users or the node's" {
	lease_begin a
	reference=$(pulled user --user 1000:1000 --setuid "$RNP_BUILD/evil/inside")
	in_container a 'ls -l /bin/as-root; /bin/as-root who; grep NoNewPrivs /proc/self/status' "$reference" >said
	grep -q '^-rwsr-sr-x' said
	grep -qx '1000 1000 1000' said
	grep -qP 'NoNewPrivs:\t1' said
	# one that it makes itself is no more on the node than it is
	start a 'cp /bin/busybox /x; chmod 6755 /x; ls -l /x; sleep 600'
	made() { lease container log "$BASE" a "$container" | grep rwsr; }
	wait_until "a program" made
	file=$(find "$BASE/vol/a/data/podman/overlay" -name x -path '*diff/x')
	assert_equal "$(stat -c %u "$file")" "$USERS"
	[[ $(findmnt -no OPTIONS -T "$file") == *nosuid* ]] || grep -q " $BASE/vol/a .*nosuid" /proc/self/mountinfo
	lease_end a
}

@test "hostile: layers that lead out of the image do not: paths, hard links, symbolic links" {
	lease_begin a
	echo untouched >"$BASE/canary"
	up=../../../../../../../../../../../..
	cases=("--path $up$BASE/out1" "--path /$up$BASE/out2" "--hard-link stolen=$up$BASE/canary" "--hard-link stolen2=$BASE/canary"
		"--symlink etc/evil=$BASE --path etc/evil/out3" "--symlink dev=$BASE" "--symlink proc=$BASE" "--symlink run=$BASE"
		"--symlink etc/resolv.conf=$BASE/canary --symlink etc/hosts=$BASE/out4")
	for i in "${!cases[@]}"; do
		# shellcheck disable=SC2086 # words are options
		reference=$(push_image "evil$i" ${cases[i]}) || continue
		lease container pull "$BASE" images "$reference" || continue
		in_container a 'cat /stolen /stolen2 /etc/resolv.conf; echo x >/etc/hosts; echo x >/etc/resolv.conf; echo x >/run/y; echo x >/dev/z' "$reference" || true
		[[ ! -e $container ]] || lease container remove "$BASE" a "$container"
	done >said 2>errors
	cat errors
	run ! grep untouched said
	assert_equal "$(cat "$BASE/canary")" untouched
	assert_equal "$(ls -A "$BASE")" "$(printf '%s\n' canary images net servers vol | sort)"
	lease_end a
}

@test "hostile: it sees neither the agent's key, nor podman's socket, nor another lease" {
	lease_begin a
	lease_begin b
	echo canary-of-the-agent >"$BASE/key"
	echo canary-of-another >"$BASE/vol/b/data/secret"
	in_container a "cat $BASE/key $BASE/vol/b/data/secret; ls /run/${BASE##*/} $BASE /var/lib/rnp /run/podman /run/rnp; find / -xdev -type s -o -name '*.sock';
		grep -rl canary-of /run /tmp /etc /root /var /dev/shm /proc/self /proc/1 2>/dev/null; cat /proc/*/environ | tr '\0' '\n' | grep canary-of-a" >said 2>&1
	run ! grep -vE 'No such file|canary-of' said
	run ! grep -x 'canary-of.*' said
	rm "$BASE/key"
	lease_end b
	lease_end a
}

@test "hostile: what was in a container is nowhere when it has ended, neither said nor stored nor given" {
	lease_begin a
	ln "$BASE/vol/a.img" kept
	in_container a 'echo canary-in-log; echo canary-in-file >/file; echo canary-in-shm >/dev/shm/x; echo canary-in-hosts >/etc/hosts' >said
	grep -qx canary-in-log said # the log is read before
	lease_end a
	strings -a kept >seen
	run ! grep canary-in seen
	run ! grep -rl canary-in "$BASE" "/run/${BASE##*/}" # nor beside it
}

@test "hostile: the neighbour feels none of it, and his figures are his own" {
	lease_begin a
	lease_begin b
	USERS=$NEIGHBOUR start b 'i=0; while [ $i -lt 40 ]; do i=$((i + 1)); echo $i; sleep 0.1; done; echo kept >/mine; cat /mine'
	neighbour=$container
	container=''
	PIDS=30 CPU=300 MEMORY=$((32 << 20)) start a 'yes & dd if=/dev/zero of=/x bs=1M & dd if=/dev/zero of=/dev/x bs=1M & while :; do sh -c "sleep 10 &"; done'
	attacker=$container
	container=$neighbour
	result b >/dev/null
	assert_equal "$(jq -c '[.status, .exit, .oom]' state)" '["exited",0,false]'
	assert_equal "$(lease container log "$BASE" b "$neighbour" | tail -n 2)" $'40\nkept'
	container=$attacker lease_end a
	container=$neighbour lease_end b
}
