#!/usr/bin/env bats
# hostile-containers - what somebody hostile does in a container that he has leased, where that takes long; and what make check runs of it
# (tests/attacks/containers.bats), again.
load ../helper
load ../attacks/containers

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

@test "hostile: those of make check" {
	run bats "$ROOT/tests/attacks/containers.bats"
	assert_success
}

@test "hostile: ten gigabytes of log, with lines and as one line" {
	lease_begin a
	before=$(df --output=used -B1 / | tail -n 1)
	in_container a 'yes "$(head -c 4000 /dev/zero | tr "\0" y)" | head -c 5000000000; head -c 5000000000 /dev/zero | tr "\0" z; echo; echo end' >said
	assert_equal "$(tail -n 1 said)" end
	(($(wc -c <said) < 4 << 20))
	(($(df --output=used -B1 / | tail -n 1) - before < 1 << 30)) # others write, too
	lease_end a
}

@test "hostile: folders a thousand deep, names of 255 bytes, a hundred thousand hard links: the lease ends at once all the same" {
	lease_begin a 256
	in_container a 'cd /; n=$(head -c 250 /dev/zero | tr "\0" n); i=0
		while [ $i -lt 1000 ] && mkdir $n 2>/dev/null && cd $n; do i=$((i + 1)); done; echo $i deep
		mkdir /l; echo >/l/0; i=0; while [ $i -lt 20000 ] && ln /l/0 /l/a$i 2>/dev/null; do i=$((i + 1)); done; echo $i links' >said
	cat said
	begin=$SECONDS
	lease_end a
	((SECONDS - begin < 60))
}

@test "hostile: tables of the kernel end where the lease's memory and its user's shares do" {
	lease_begin a
	free=$(awk '/MemAvailable/ { print $2 }' /proc/meminfo)
	MEMORY=$((64 << 20)) start a 'inside tables; inside tables; sleep 2'
	result a >/dev/null
	lease container log "$BASE" a "$container"
	(($(awk '/MemAvailable/ { print $2 }' /proc/meminfo) > free - (4 << 20)))
	lease_end a
}

@test "hostile: a flood of connections takes no more of the host's table than a lease may" {
	lease_begin a
	lease_begin b
	in_container a 'inside connections 9.9.9.9 60000' >said
	cat said
	(($(rig_in "$node_host" cat /proc/sys/net/netfilter/nf_conntrack_count) <= 16384 + 100))
	container=''
	in_container b 'inside connect 9.9.9.9 80' >said
	grep -q done said # the neighbour has his
	lease_end b
	lease_end a
}

@test "hostile: SIGSTOP, zombies and vfork: it is ended in time" {
	lease_begin a
	start a 'trap "" TERM CHLD; i=0; while [ $i -lt 40 ]; do (sleep 600 &) ; i=$((i + 1)); done; echo up; kill -STOP $$; while :; do :; done'
	up() { lease container log "$BASE" a "$container" | grep -q up; }
	wait_until "it to be up" up
	begin=$SECONDS
	lease container stop "$BASE" a "$container" 1000
	lease container remove "$BASE" a "$container"
	((SECONDS - begin < 60))
	assert_equal "$(pgrep -c -u "$USERS" || true)" 0
	lease_end a
}

@test "hostile: the agent is killed at any step, and what is left is cleaned" {
	for i in {1..30}; do
		lease_begin "k$i" 16 &
		pid=$!
		sleep "0.0$((RANDOM % 90 + 10))"
		pkill -KILL -P $pid || true
		kill -KILL $pid 2>/dev/null || true
		wait $pid 2>/dev/null || true
		lease volume clean "$BASE/vol" 0 >/dev/null
		network clean >/dev/null
		assert_equal "$(lease volume list "$BASE/vol" 0)" ""
		assert_equal "$(network list)" ""
	done
	[[ -z $(ls "$BASE/vol") && -z $(rig_in "$node_host" nft list ruleset) ]]
	run ! grep -r "$BASE/vol" /sys/block/*/loop/backing_file
}
