#!/usr/bin/env bats
# volume - the disk of a lease, against the real kernel: bounded, encrypted, adopted, gone. Root alone can mount.
load ../helper

setup() {
	[[ $EUID == 0 ]] || skip "only root can mount"
	[[ -e /dev/loop-control ]] || skip "this machine has no loop devices"
	[[ -x /usr/sbin/mkfs.ext4 ]] || skip "mkfs.ext4 is not there (Debian: e2fsprogs)"
	[[ -e /sys/fs/ext4/features/encryption ]] || skip "this kernel's ext4 does not encrypt"
	D=$(realpath "$BATS_TEST_TMPDIR")/vol
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	[[ ${D-} ]] || return 0
	volume clean >/dev/null 2>&1 || true
	mountpoint -q "$D" && umount -l "$D"
	[[ ! -e ${D}2 ]] || umount -l "${D}2" || true
	! grep -q " $D/" /proc/self/mountinfo || fail "a mount was left: $(grep " $D/" /proc/self/mountinfo)"
}

# volume ACTION [ARGUMENT...]: of the place $D, of which $keep bytes are never sold
volume() { "$RNP_BUILD/evil/lease" volume "$1" "$D" "${keep-0}" "${@:2}"; }
MIB=$((1 << 20))

# held FILE: whether a loop device still has a file of that name
held() { cat /sys/block/loop*/loop/backing_file 2>/dev/null | grep -q "^$1"; }
not_held() { ! held "$1"; }

@test "volume: who fills one gets ENOSPC at its size, and the host's disk is no fuller than that" {
	volume open a $((32 * MIB))
	[[ $(findmnt -no OPTIONS "$D/a") == *nosuid,nodev* ]]
	run dd if=/dev/zero of="$D/a/data/fill" bs=1M
	[[ $output == *"No space left"* ]] || fail "$output"
	sync "$D/a/data/fill"
	size=$(stat -c %s "$D/a/data/fill")
	((size > 30 * MIB && size < 32 * MIB)) || fail "$size bytes fit"
	(($(stat -c '%b * 512' "$D/a.img") <= 32 * MIB + 64 * 1024))
	assert_equal "$(volume use a | jq .free)" 0
	volume close a 0
	[[ -z $(ls -A "$D") ]]
}

@test "volume: files are bounded as bytes are, and names count" {
	volume open a $((16 * MIB))
	cd "$D/a/data"
	run bash -c 'for ((i = 0; i < 5000; i++)); do : >"$i" || exit; done'
	[[ $output == *"No space left"* ]] || fail "$output"
	files=$(find . -type f | wc -l)
	((files > 900 && files < 1100)) || fail "$files files fit"
	cd "$BATS_TEST_TMPDIR"
	assert_equal "$(volume use a | jq .free_files)" 0
	volume close a 0
}

@test "volume: neither contents nor names nor links are readable in its file, then and afterwards" {
	volume open a $((16 * MIB))
	for i in {1..50}; do echo "canary-of-contents-$i"; done >"$D/a/data/canary-of-names"
	ln -s canary-of-links-longer-than-what-an-inode-holds-inside-itself-of-sixty-bytes "$D/a/data/l"
	echo canary-beside >"$D/a/beside" # not encrypted: what is looked for is found where it is
	sync -f "$D/a"
	ln "$D/a.img" kept
	strings -a kept >seen
	grep -q canary-beside seen
	run ! grep canary-of seen
	volume close a 0
	run ! volume adopt a
	# the kernel has the key no more: names are noise, and nothing opens
	mkdir "$D/m" && mount -o loop kept "$D/m"
	grep -q canary-beside "$D/m/beside"
	run ! ls "$D/m/data/canary-of-names"
	file=$(find "$D/m/data" -type f)
	[[ $file != *canary* ]]
	run cat "$file"
	[[ $output == *"Required key not available"* ]] || fail "$output"
	umount "$D/m"
	strings -a kept >seen
	run ! grep canary-of seen
}

@test "volume: its key is nowhere in the memory of the process that made it, so in no core file" {
	# with a copy that was made on purpose it is found once, without it never
	run_split volume open-watched a $((16 * MIB))
	assert_equal "$output" "1 0"
	volume close a 0
}

@test "volume: another process adopts it with all that is in it; not after a restart of the machine" {
	volume open a $((16 * MIB))
	echo kept >"$D/a/data/f"
	volume adopt a
	assert_equal "$(cat "$D/a/data/f")" kept
	refused 73 "is there already" volume open a $((16 * MIB))
	volume adopt a # and what was refused has spoilt nothing
	refused 66 "no volume" volume adopt b
	umount "$D/a" # as after a restart: the file alone is there
	refused 69 "its key went with a restart" volume adopt a
	volume close a 0
	[[ -z $(ls -A "$D") ]]
	volume close a 0 # one that has gone has ended
}

@test "volume: mounts inside go with it, also in the order in which they cover each other" {
	volume open a $((16 * MIB))
	mkdir -p "$D"/a/data/{lower,upper,work,merged,"with space"}
	mount -t overlay -o "lowerdir=$D/a/data/lower,upperdir=$D/a/data/upper,workdir=$D/a/data/work" overlay "$D/a/data/merged"
	mount -t tmpfs none "$D/a/data/with space"
	mount -t tmpfs none "$D/a/data"
	volume close a 0
	[[ -z $(ls -A "$D") ]]
	wait_until "the loop device to go" not_held "$D"
}

@test "volume: one that is busy goes from sight in time, says who holds it, and ends with them" {
	volume open a $((16 * MIB))
	(cd "$D/a/data" && exec sleep 600 3>&-) &
	sleeper=$!
	wait_until "the sleeper to be there" test "$(readlink /proc/$sleeper/cwd)" = "$D/a/data"
	refused 75 "$sleeper (sleep)" volume close a 100
	[[ -z $(ls -A "$D") ]]
	assert_equal "$(volume list)" "a held $((16 * MIB))"
	kill $sleeper
	wait_until "the loop device to go" not_held "$D"
	assert_equal "$(volume list)" ""
}

@test "volume: a mount namespace that was made meanwhile keeps none, unless a file in it is open" {
	volume open a $((16 * MIB))
	unshare -m --propagation private sleep 600 3>&- &
	sleeper=$!
	apart() { [[ $(readlink /proc/$sleeper/ns/mnt) != "$(readlink /proc/self/ns/mnt)" && $(</proc/$sleeper/comm) == sleep ]]; }
	wait_until "a namespace" apart
	grep -q " $D/a " /proc/$sleeper/mountinfo
	nsenter -t $sleeper -m bash -c "cd '$D/a/data' && exec sleep 600 3>&-" &
	inside=$!
	in_it() { [[ $(readlink /proc/$inside/cwd) == "$D/a/data" ]]; }
	wait_until "a process in it" in_it
	refused 75 "$inside (sleep)" volume close a 100
	kill $inside
	wait_until "the loop device to go" not_held "$D"
	run ! grep " $D/a " /proc/$sleeper/mountinfo
	kill $sleeper
}

@test "volume: what belongs to no live lease is cleaned, whatever of it is there; the rest stays" {
	for id in live dead unmounted; do volume open $id $((16 * MIB)); done
	umount "$D/unmounted"
	mkdir "$D/folder"
	echo mine >"$D/notes.txt"
	mkdir "$D/Foreign"
	assert_equal "$(volume list | cut -d' ' -f1,2 | sort)" $'dead open\nfolder shut\nlive open\nunmounted shut'
	assert_equal "$(volume clean live)" 3
	assert_equal "$(ls "$D")" $'Foreign\nlive\nlive.img\nnotes.txt'
	volume adopt live
	assert_equal "$(volume clean)" 1
}

@test "volume: no more is sold than the disk has, though files are sparse" {
	mkdir "$D" && mount -t tmpfs -o size=64m none "$D"
	volume open a $((32 * MIB))
	room=$(volume room)
	((room > 25 * MIB && room < 32 * MIB)) || fail "room: $room"
	refused 69 "1 others may still grow by" volume open b $((32 * MIB))
	assert_equal "$(ls "$D")" $'a\na.img'
	keep=$((20 * MIB)) refused 69 "are never sold" volume open b $((16 * MIB))
	# somebody else takes what was sold: it is seen, and what is there goes on
	dd if=/dev/zero of="$D/other" bs=1M count=50 status=none
	(($(volume room) < 0))
	volume adopt a
	rm "$D/other"
	volume close a 0
	volume open b $((32 * MIB))
}

@test "volume: a bad name, size or folder is refused before anything is made" {
	for id in '' A a/b .. -a "$(printf 'a%.0s' {1..65})" $'a\n'; do refused 65 "cannot name" volume open "$id" $((16 * MIB)); done
	for size in -1 0 $((16 * MIB - 1)) $(((1 << 44) + 1)); do refused 65 "a volume has" volume open a $size; done
	D=/tmp/../x refused 64 "no plain absolute path" volume open a $((16 * MIB))
	[[ ! -e $D && ! -e /x ]]
}

# inside COMMAND: in a mount namespace of its own, where the machine can be made to lack something
inside() { unshare -m --propagation private bash -c "$1" -- "$RNP_BUILD/evil/lease" "$D"; }

@test "volume: a machine that cannot says what lacks, and nothing half made stays" {
	volume probe
	[[ -z $(ls -A "$D") ]]
	refused 69 "no loop device" inside 'mount --bind /dev/null /dev/loop-control; exec "$1" volume probe "$2" 0'
	printf '#!/bin/sh\necho "no space for tables" >&2\nexit 1\n' >broken
	printf '#!/bin/bash\nexec -a mkfs.ext4 %s "${@/encrypt,/}"\n' "$PWD/real" >plain
	cp "$(realpath /usr/sbin/mkfs.ext4)" real
	chmod +x broken plain
	refused 71 "mkfs.ext4: no space for tables" inside "mount --bind $PWD/broken /usr/sbin/mkfs.ext4; exec \"\$1\" volume probe \"\$2\" 0"
	refused 69 "for encryption" inside "mount --bind $PWD/plain /usr/sbin/mkfs.ext4; exec \"\$1\" volume probe \"\$2\" 0"
	refused 69 "no program mkfs.ext4: install the package e2fsprogs" \
		inside 'mount -t tmpfs none /usr/sbin; mount -t tmpfs none /sbin; exec "$1" volume probe "$2" 0'
	[[ -z $(ls -A "$D") ]]
	wait_until "no loop device to be left" not_held "$D"
}

@test "volume: sixteen at once, each with a device of its own" {
	pids=()
	for i in {1..16}; do
		volume open v$i $((16 * MIB)) &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do ended "$pid"; done
	assert_equal "$(findmnt -no SOURCE "$D"/v{1..16} 2>/dev/null | sort -u | wc -l)" 16 ||
		assert_equal "$(grep -c " $D/v" /proc/self/mountinfo)" 16
	assert_equal "$(volume clean)" 16
	wait_until "the loop devices to go" not_held "$D"
}
