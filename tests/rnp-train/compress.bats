# rnp-train compress and decompress: floats through containers, pipes and damage.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR"
	# a bell of 200,000 f32, the same every time
	python3 - <<-'END'
		import random, struct
		random.seed(4)
		x = [random.gauss(0, 0.01) for _ in range(200000)]
		open("g.f32", "wb").write(struct.pack("<200000f", *x))
	END
}

# compare M A B: the relative error of B, in ppb, as a second implementation finds it
relative_error() {
	python3 - "$1" "$2" <<-'END'
		import struct, sys
		a, b = (struct.unpack("<%df" % (len(d) // 4), d) for d in (open(f, "rb").read() for f in sys.argv[1:]))
		assert len(a) == len(b)
		print(round(1e9 * (sum((p - q) ** 2 for p, q in zip(a, b)) / sum(p * p for p in a)) ** .5))
	END
}

@test "compress: none and lossless give back every bit" {
	for m in none lossless; do
		rnp-train compress --method $m <g.f32 >c.rnpg
		rnp-train decompress <c.rnpg | cmp - g.f32
	done
	[[ $(stat -c %s c.rnpg) -lt 720000 ]]
}

@test "compress: bf16 in, bf16 out, all patterns, and weights to 0.70 of their size" {
	python3 - <<-'END'
		import struct, random
		random.seed(1)
		open("all.bf16", "wb").write(struct.pack("<65536H", *range(65536)))
		f = [struct.unpack("<I", struct.pack("<f", random.gauss(0, .02)))[0] >> 16 for _ in range(200000)]
		open("w.bf16", "wb").write(struct.pack("<200000H", *f))
	END
	for f in all w; do
		rnp-train compress --method lossless --input bf16 $f.bf16 >$f.rnpg
		rnp-train decompress $f.rnpg | cmp - $f.bf16
	done
	(($(stat -c %s w.rnpg) <= 280000))
}

@test "compress: the error that the record tells is the one that there is" {
	for m in q8 q4 q4:sigma:stochastic ecq:0.1 e3m0 qsgd:4 topk fp8e5; do
		rnp-train compress --method $m --out c.rnpg --stats --seed 7 g.f32 >s.json
		rnp-train decompress c.rnpg >y.f32
		told=$(jq .params.relative_error_ppb s.json)
		is=$(relative_error g.f32 y.f32)
		((told - is < 2 + is / 1000000 && is - told < 2 + is / 1000000)) || fail "$m: $told, $is"
		[[ $(jq .params.output_bytes s.json) == $(stat -c %s c.rnpg) ]]
		[[ $(jq -r .test s.json) == "$m" ]]
	done
}

@test "compress: the record is valid, on standard error where the container is on standard output" {
	rnp-train compress --method q8 --stats g.f32 >c.rnpg 2>s.json
	rnp-train decompress c.rnpg >/dev/null
	jq -e '.kind == "rnp.bench" and .suite == "compress" and .unit == "ppm" and .median > 4000000' s.json
}

@test "compress: ecq keeps the error that it is asked for, in few bits" {
	rnp-train compress --method ecq:0.1 --stats --out c.rnpg g.f32 >s.json
	jq -e '.params.relative_error_ppb | . > 97000000 and . < 101500000' s.json
	jq -e '.params.microbits_per_element < 3700000' s.json
}

@test "compress: without a method it is ecq:0.1, of f32 and of bf16" {
	rnp-train compress g.f32 | cmp - <(rnp-train compress --method ecq:0.1 g.f32)
	rnp-train compress --input bf16 g.f32 | cmp - <(rnp-train compress --method ecq:0.1 --input bf16 g.f32)
	rnp-train compress --stats --out c g.f32 | jq -e '.test == "ecq:0.1"'
	rnp-train compress --help | grep -q 'default ecq:0.1'
}

@test "compress: ecq's step of a pipe that begins with zeros is that of what follows" {
	# more than the window of 64 MiB, and no multiple of anything
	head -c 67108876 /dev/zero | cat - g.f32 >z.f32
	rnp-train compress --method ecq:0.1 --stats --out file.rnpg z.f32 >file.json
	# shellcheck disable=SC2002 # a pipe on purpose
	cat z.f32 | rnp-train compress --method ecq:0.1 --stats --out pipe.rnpg >pipe.json
	for s in file pipe; do
		jq -e '.params.relative_error_ppb | . > 97000000 and . < 101500000' $s.json
		jq -e '.params.elements == 16977219' $s.json
	done
	rnp-train decompress file.rnpg >file.f32
	rnp-train decompress pipe.rnpg | cmp - file.f32
	# negative zeros are zeros; of bf16 too
	python3 -c 'open("z.bf16", "wb").write(b"\0\x80" * 33554433 + b"\x80\x3f\0\x40" * 500)'
	rnp-train compress --method ecq:0.1 --input bf16 z.bf16 | rnp-train decompress >file.bf16
	# shellcheck disable=SC2002 # a pipe on purpose
	cat z.bf16 | rnp-train compress --method ecq:0.1 --input bf16 | rnp-train decompress | cmp - file.bf16
	[[ $(tail -c 4 file.bf16 | od -An -tx2) != " 0000 0000" ]]
	# nothing but zeros is a gradient
	head -c 67108880 /dev/zero | rnp-train compress --method ecq:0.1 | rnp-train decompress |
		cmp - <(head -c 67108880 /dev/zero)
	refused 65 "give a file, or ecq:E:chunk" bash -c \
		"python3 -c 'import sys; sys.stdout.buffer.write(b\"\0\0\xc0\x7f\" * 16777217)' | rnp-train compress --method ecq:0.1 --out c"
	[[ ! -e c ]]
}

@test "compress: topk is 200 times smaller on uniform positions, 146 times whatever comes" {
	python3 - <<-'END'
		import struct, random
		random.seed(2)
		n = 1 << 20
		open("u.f32", "wb").write(struct.pack("<%df" % n, *[random.gauss(0, 1) for _ in range(n)]))
		# kept ones in clusters of all widths, so that gaps are as uneven as they can be
		x = [0.0] * n
		for b in range(0, n, 4096):
		    w = random.choice([64, 70, 200, 1000, 4096])
		    s = random.randrange(4096 - w + 1)
		    for i in random.sample(range(w), 64):
		        x[b + s + i] = random.choice([-1, 1]) * 10 ** random.uniform(-30, 30)
		open("a.f32", "wb").write(struct.pack("<%df" % n, *x))
	END
	rnp-train compress --method topk --stats --out c u.f32 | jq -e '.median >= 200000000'
	rnp-train compress --method topk --stats --out c a.f32 | jq -e '.median >= 146000000'
}

@test "compress: a pipe and a file hold the same elements, of any length" {
	for bytes in 0 4 8 262140 262144 262148 799996; do
		head -c $bytes g.f32 >part
		rnp-train compress --method lossless part >file.rnpg
		# shellcheck disable=SC2002 # a pipe on purpose
		cat part | rnp-train compress --method lossless >pipe.rnpg
		rnp-train decompress file.rnpg | cmp - part
		cat pipe.rnpg | rnp-train decompress | cmp - part
	done
}

@test "compress: the same input gives the same bytes, on every instruction set" {
	for m in q8 q8:stochastic q4:sigma ecq:0.2 ecq:0.3:chunk e3m0 qsgd:8 topk lossless f16; do
		rnp-train compress --method $m --seed 5 g.f32 >best.rnpg
		for isa in ref avx2; do
			RNP_ISA=$isa rnp-train compress --method $m --seed 5 g.f32 | cmp - best.rnpg
			RNP_ISA=$isa rnp-train decompress best.rnpg >$isa.f32
		done
		cmp ref.f32 avx2.f32
	done
	rnp-train compress --method q8:stochastic --seed 6 g.f32 >other.rnpg
	run cmp -s other.rnpg best.rnpg
	assert_failure
}

@test "compress: a GPU writes the same bytes and reads them" {
	# the CUDA sources on the emulation of tests/kernels/cuda_emu.h
	export RNP_CUDA_PLUGIN=$RNP_BUILD/emu/librnp_cuda.so
	head -c 270000 g.f32 >part
	for m in lossless f16 q8 q4:sigma:stochastic ecq:0.01 ecq:0.0005:chunk e3m0 qsgd:80 topk; do
		rnp-train compress --device cpu --method $m --seed 5 part >cpu.rnpg
		rnp-train compress --device cuda --method $m --seed 5 --stats part 2>s.json | cmp - cpu.rnpg
		jq -e '.device == "emulation"' s.json
		rnp-train decompress --device cpu cpu.rnpg >cpu.f32
		rnp-train decompress --device cuda cpu.rnpg | cmp - cpu.f32
	done
	for m in topk ecq:0.1; do
		for _ in 1 2; do # the second time from what the first left
			rnp-train compress --device cpu --method $m --error-feedback cpu.rest part >cpu.rnpg
			rnp-train compress --device cuda --method $m --error-feedback cuda.rest part | cmp - cpu.rnpg
			cmp cpu.rest cuda.rest
		done
	done
	printf '\x5a' | dd of=cpu.rnpg bs=1 seek=300 conv=notrunc status=none
	refused 65 "checksum" rnp-train decompress --device cuda --out out cpu.rnpg
}

@test "compress: error feedback sends later what it did not send" {
	rnp-train compress --method topk --error-feedback e.f32 g.f32 >1.rnpg
	cp e.f32 first.f32
	rnp-train compress --method topk --error-feedback e.f32 g.f32 >2.rnpg
	run cmp -s e.f32 first.f32
	assert_failure
	rnp-train decompress 1.rnpg >1.f32
	rnp-train decompress 2.rnpg >2.f32
	python3 - <<-'END'
		import struct
		x, a, b, e, f = (struct.unpack("<200000f", open(n, "rb").read()) for n in ("g.f32", "1.f32", "2.f32", "first.f32", "e.f32"))
		assert all(abs(p - q - r) < 1e-8 for p, q, r in zip(x, a, e))
		assert all(abs(.95 * r + p - q - s) < 1e-7 for p, q, r, s in zip(x, b, e, f))
	END
	head -c 400 e.f32 >short.f32
	refused 65 "fewer elements" rnp-train compress --method topk --error-feedback short.f32 --out c g.f32
	[[ $(stat -c %s short.f32) == 400 && ! -e c ]]
	refused 64 "makes no error" rnp-train compress --method lossless --error-feedback e.f32 --out c g.f32
	refused 64 "needs a file" bash -c 'rnp-train compress --method topk --error-feedback - g.f32 >c'
	refused 64 "are both" rnp-train compress --method topk --error-feedback e.f32 --out e.f32 g.f32
	[[ $(stat -c %s e.f32) == 800000 && ! -s c ]]
}

@test "compress: ecq keeps its error over what error feedback makes of the input" {
	# residuals ten times the input; from a file, a pipe, and a pipe that begins with zeros where residuals are
	python3 -c 'import array; x = array.array("f", open("g.f32", "rb").read()); array.array("f", [-10 * v for v in reversed(x)]).tofile(open("e.f32", "wb"))'
	for m in ecq:0.1 ecq:0.1:chunk; do
		cp e.f32 1 && cp e.f32 2
		rnp-train compress --method $m --error-feedback 1 --stats --out 1.rnpg g.f32 >1.json
		# shellcheck disable=SC2002 # a pipe on purpose
		cat g.f32 | rnp-train compress --method $m --error-feedback 2 --stats --out 2.rnpg >2.json
		jq -e '.params.relative_error_ppb | . > 97000000 and . < 101500000' 1.json
		cmp 1 2
		cmp <(rnp-train decompress 1.rnpg) <(rnp-train decompress 2.rnpg)
	done
	head -c 800000 /dev/zero >z.f32
	cp e.f32 1
	rnp-train compress --method ecq:0.1 --error-feedback 1 --stats --out 1.rnpg <(cat z.f32) >1.json
	jq -e '.params.relative_error_ppb | . > 97000000 and . < 101500000' 1.json
	# more zeros than the window has, then residuals
	head -c 67108876 /dev/zero | cat - e.f32 >rest
	head -c 67908876 /dev/zero | rnp-train compress --method ecq:0.1 --error-feedback rest --stats --out 1.rnpg >1.json
	jq -e '.params.relative_error_ppb | . > 97000000 and . < 101500000' 1.json
	head -c 400 e.f32 >short.f32
	refused 65 "fewer elements" rnp-train compress --method ecq:0.1 --error-feedback short.f32 --out c g.f32
}

@test "compress: wrong methods, blocks and lengths are refused" {
	refused 64 "is none of" rnp-train compress --method zip g.f32
	refused 64 "needs an error" rnp-train compress --method ecq g.f32
	refused 64 "power of two" rnp-train compress --method q8 --block 100 g.f32
	printf abc >odd
	refused 65 "ends within an element" rnp-train compress --method q8 odd
	refused 65 "ends within an element" bash -c 'cat odd | rnp-train compress --method q8 >c'
	refused 66 "cannot open 'nowhere'" rnp-train compress --method q8 nowhere
}

@test "decompress: damage is one line and 65, and nothing comes out that was not checked" {
	rnp-train compress --method q8 g.f32 >c.rnpg
	size=$(stat -c %s c.rnpg)
	for at in 0 4 5 8 20 70 90 300 100000 $((size - 60)) $((size - 1)); do
		cp c.rnpg bad
		printf '\x5a' | dd of=bad bs=1 seek="$at" conv=notrunc status=none
		refused 65 "" rnp-train decompress --out out bad
		[[ ! -e out ]]
	done
	for at in 0 3 50 85 100 5000 150000 $((size - 1)); do
		head -c "$at" c.rnpg >bad
		refused 65 "" rnp-train decompress --out out bad
		refused 65 "" bash -c 'rnp-train decompress bad >out'
		cmp -n "$(stat -c %s out)" out <(rnp-train decompress c.rnpg)
		rm out
	done
	printf x | cat c.rnpg - >bad
	refused 65 "behind the container" rnp-train decompress --out out bad
	refused 65 "no gradient container" rnp-train decompress --out out g.f32
	cp c.rnpg bad
	printf '\x02' | dd of=bad bs=1 seek=4 conv=notrunc status=none
	refused 65 "version 2" rnp-train decompress --out out bad
}

@test "decompress: what does not fit is an error of writing" {
	[[ -e /dev/full ]] || skip "no /dev/full"
	rnp-train compress --method q8 g.f32 >c.rnpg
	refused 74 "standard output" bash -c 'rnp-train decompress c.rnpg >/dev/full'
	refused 74 "standard output" bash -c 'rnp-train compress --method none g.f32 >/dev/full'
}

@test "compress: memory does not grow with the input" {
	# 40 million elements through pipes; the whole would be 160 MB
	most() {
		/usr/bin/time -f %M -o "$1" "${@:2}"
	}
	[[ -x /usr/bin/time ]] || skip "no /usr/bin/time"
	head -c 160000000 /dev/zero | most a rnp-train compress --method q8 | most b rnp-train decompress | cmp - <(head -c 160000000 /dev/zero)
	(($(<a) < 100000 && $(<b) < 100000)) || fail "KiB: $(<a) $(<b)"
}

@test "compress: a reader written from rnp-protocol(7) alone finds every value and every checksum" {
	local m byte
	head -c 280012 g.f32 >h.f32
	for m in none lossless f16 bf16 fp8e4 fp8e5 q8 q4 q8:sigma q4:sigma e3m0 qsgd:4 qsgd:1000 ecq:0.1 ecq:0.1:chunk topk; do
		rnp-train compress --method $m <h.f32 >c.rnpg
		rnp-train decompress <c.rnpg >ours
		python3 "$ROOT/tests/tools/container.py" c.rnpg theirs >facts
		cmp ours theirs || fail "$m"
	done
	# the root is the one of the index, and a byte that is another is found wherever it is
	assert_equal "$(jq -r .root facts)" "$(tail -c 44 c.rnpg | head -c 32 | od -An -v -tx1 | tr -d " \n")"
	for byte in 9 70 90 500 -20; do
		python3 - $byte <<-'END'
			import sys
			b = bytearray(open("c.rnpg", "rb").read())
			b[int(sys.argv[1])] ^= 1
			open("d.rnpg", "wb").write(b)
		END
		run python3 "$ROOT/tests/tools/container.py" d.rnpg
		assert_failure 65
	done
}
