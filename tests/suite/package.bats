# make deb and make dist: the contents of the packages work, and are the same each time they are
# built.
load ../helper

setup_file() {
	export DEBS=$BATS_FILE_TMPDIR/debs SOURCE_DATE_EPOCH=1790000000
	command -v dpkg-deb >/dev/null || return 0
	"$ROOT/scripts/package" "${RNP_BUILD:-$ROOT/build}" "$DEBS" 1.2.3 >"$BATS_FILE_TMPDIR/list"
}

setup() {
	command -v dpkg-deb >/dev/null || skip "no dpkg-deb here"
	cd "$BATS_TEST_TMPDIR" || return
}

deb() {
	echo "$DEBS/$1_1.2.3_$(dpkg --print-architecture).deb"
}

@test "package: programs, registry and symbols are apart, and no package has a file of another" {
	local name files=()
	for name in rnp rnp-registry rnp-gateway rnp-dbg; do
		dpkg-deb --field "$(deb "$name")" Package | grep -qx "$name"
		dpkg-deb --contents "$(deb "$name")" | awk '!/^d/ { print $6 }' >"$name.files"
		files+=("$name.files")
	done
	assert_equal "$(sort "${files[@]}" | uniq -d)" ""
	assert_equal "$(grep -c '/usr/bin/rnp-' rnp.files)" 6
	grep -q rnp-registry.service rnp-registry.files
	grep -q rnp-heartbeat.service rnp.files
	grep -q rnp-work.service rnp.files
	grep -q rnp-gateway.service rnp-gateway.files
	dpkg-deb --field "$(deb rnp-gateway)" Depends | grep -q openssh-server
	grep -qvE '^./usr/' rnp.files && fail "outside /usr: $(grep -vE '^./usr/' rnp.files)"
	# the plug-in for GPUs is packaged only where it was built
	[[ -e $RNP_BUILD/lib/librnp_cuda.so || ! -e $(deb rnp-cuda) ]]
	assert_equal "$(dpkg-deb --contents "$(deb rnp)" | awk '$2 != "root/root"')" ""
}

@test "package: users of sessions and of the gateway are made with or without systemd, and jobs of customers keep the package" {
	((EUID == 0)) || skip "users are made by root"
	local name
	for name in rnp rnp-gateway; do
		dpkg-deb --control "$(deb $name)" "$name"
		dpkg-deb --extract "$(deb $name)" image
	done
	mkdir -p image/etc image/run/rnp
	printf '%s\n' 'root:x:0:0::/root:/bin/sh' >image/etc/passwd
	printf '%s\n' 'root:x:0:' >image/etc/group
	if command -v systemd-sysusers >/dev/null; then
		systemd-sysusers --root="$PWD/image" rnp.conf rnp-gateway.conf
		grep -q '^rnp-session:.*:/:/bin/sh$' image/etc/passwd
		grep -q '^rnp-gateway:.*:/var/lib/rnp-gateway:/usr/sbin/nologin$' image/etc/passwd
	fi
	# without it useradd is asked for the same, and only where there is no such user
	mkdir bin
	printf '%s\n' '#!/bin/sh' 'exit 1' >bin/getent
	printf '%s\n' '#!/bin/sh' 'echo "$*" >>users' >bin/useradd
	chmod +x bin/*
	for name in rnp rnp-gateway; do
		PATH=$PWD/bin /bin/sh "$name/postinst" configure </dev/null
	done
	assert_equal "$(sort users)" "--system --home-dir / --shell /bin/sh rnp-session
--system --home-dir /var/lib/rnp-gateway --shell /usr/sbin/nologin rnp-gateway"
	sed "s|/run/rnp/state|image/run/rnp/state|; s|/run/systemd/system|none|" rnp/prerm >prerm
	echo busy >image/run/rnp/state
	run sh prerm remove
	assert_failure
	assert_output --partial "rnp-register setup --no-sell"
	sh prerm upgrade
	echo idle >image/run/rnp/state
	sh prerm remove
}

@test "package: the plug-ins for GPUs, that for older drivers, too, are in their own package" {
	local name
	mkdir -p build/lib
	cp -rs "$(realpath "$RNP_BUILD")/bin" build/
	for name in cuda cuda12; do
		"${CC:-gcc}" -shared -Wl,--build-id -o "build/lib/librnp_$name.so" -x c /dev/null
	done
	"$ROOT/scripts/package" "$PWD/build" with-cuda 1.2.3 >/dev/null
	dpkg-deb --contents with-cuda/rnp-cuda_1.2.3_*.deb >cuda.files
	dpkg-deb --contents with-cuda/rnp_1.2.3_*.deb >rnp.files
	assert_equal "$(grep -o 'librnp_[a-z0-9]*.so' cuda.files | sort | xargs)" "librnp_cuda.so librnp_cuda12.so"
	run grep librnp_ rnp.files
	assert_output ""
}

@test "package: programs are stripped, run from where they are unpacked, and their symbols fit" {
	dpkg-deb --extract "$(deb rnp)" image
	dpkg-deb --extract "$(deb rnp-dbg)" symbols
	local bin id
	for bin in image/usr/bin/*; do
		readelf -S "$bin" >sections
		if grep -q '\.debug_info' sections; then fail "$bin has debug symbols"; fi
		id=$(readelf -n "$bin" | sed -n 's/.*Build ID: //p')
		readelf -S "symbols/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" | grep -q '\.debug_info'
		env -C / PATH=/usr/bin:/bin "$PWD/$bin" --version
	done
	echo '{"hello":"world"}' | image/usr/bin/rnp-register canon
	gzip -dc image/usr/share/man/man1/rnp-register.1.gz | cmp - "$ROOT/man/rnp-register.1"
}

@test "package: the same build packed twice is the same, byte by byte" {
	"$ROOT/scripts/package" "$RNP_BUILD" again 1.2.3 >/dev/null
	local name
	for name in again/*.deb; do
		cmp "$name" "$DEBS/${name##*/}"
	done
}

@test "package: an object does not depend on where it was built" {
	local dir
	for dir in one another/place; do
		mkdir -p "$dir"
		(cd "$ROOT" && git ls-files -z Makefile scripts man common/base common/json cmd/rnp-register kernels/dev |
			xargs -0 cp --parents -t "$BATS_TEST_TMPDIR/$dir")
		# with make deb's own flags
		CCACHE_DISABLE=1 make -s -C "$dir" BUILD=build/release NVCC= MPI= NCCL= \
			OPT="$(make -s -C "$dir" -f Makefile -f <(echo 'flags-of-release:; @echo "$(RELEASE_OPT)"') flags-of-release)" \
			build/release/obj/common/base/{err,lines}.o build/release/obj/gen/{units,schema}.o
	done
	for file in common/base/err.o common/base/lines.o gen/units.o gen/schema.o; do
		cmp "one/build/release/obj/$file" "another/place/build/release/obj/$file"
	done
	readelf --debug-dump=info one/build/release/obj/common/base/err.o | grep -q err.c
	if grep -q "$BATS_TEST_TMPDIR" one/build/release/obj/common/base/err.o; then fail "the object names its directory"; fi
}

@test "package: an object of CUDA does not depend on where it was built" {
	local nvcc dir
	nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc) || skip "no nvcc here"
	for dir in one another/place; do
		mkdir -p "$dir"
		(cd "$ROOT" && git ls-files -z Makefile scripts man kernels | xargs -0 cp --parents -t "$BATS_TEST_TMPDIR/$dir")
		CCACHE_DISABLE=1 make -s -C "$dir" NVCC="$nvcc" MPI= NCCL= CUDA_ARCH=sm_80 build/obj/kernels/backend/cuda_probe.cu.o
	done
	cmp {one,another/place}/build/obj/kernels/backend/cuda_probe.cu.o
}

@test "package: the tarball of the source is the last commit, and the same each time" {
	git -C "$ROOT" rev-parse HEAD >/dev/null 2>&1 || skip "not a checkout"
	git clone -q --depth 1 "file://$(git -C "$ROOT" rev-parse --show-toplevel)" clone 2>/dev/null
	XZ_OPT=-0 make -s -C clone dist
	mv clone/build/packages/rnp-*.tar.xz first.tar.xz
	XZ_OPT=-0 make -s -C clone dist
	cmp first.tar.xz clone/build/packages/rnp-*.tar.xz
	tar xJf first.tar.xz
	diff -r --exclude=.git --exclude=build clone rnp-*/
}
