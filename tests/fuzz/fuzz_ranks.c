/* fuzz_ranks.c - fuzz target: the stream that another rank sends, and that in which podman
 * sends a session.
 *
 * uses: cmd/rnp-register
 *
 * The first byte says in what pieces the rest arrives. It checks that only packets of that peer
 * to us come out, each as long as it says; that what comes out does not depend on the pieces;
 * and that a queue stays within its bound whatever is sent. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/agent/ranks.h"
#include "cmd/rnp-register/agent/talk.h"
#include "common/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OWN  UINT32_C(0x0a400001)
#define PEER UINT32_C(0x0a400002)

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void emit(void *ctx, const unsigned char *packet, size_t len)
{
	static const unsigned char ends[] = { 10, 64, 0, 2, 10, 64, 0, 1 };

	must(len >= 20 && len <= RANKS_MTU && memcmp(packet + 12, ends, 8) == 0);
	buf_add(ctx, packet, len);
}

/* Receives all of it in pieces. Returns what came out of it. */
static struct buf receive(const uint8_t *data, size_t size, size_t piece)
{
	struct ranks_peer peer = { .address = PEER, .in = -1, .out = 1000 };
	struct ranks ranks = { .address = OWN, .tun = -1, .peers = &peer, .npeers = 1 };
	struct buf out = BUF_INIT;

	for (size_t at = 0; at < size; at += piece) {
		size_t n = size - at < piece ? size - at : piece;

		if (ranks_receive(&ranks, &peer, data + at, n, emit, &out) < 0)
			break;
		ranks_send(&ranks, data + at, n);
		must(peer.queue.len <= RANKS_QUEUE_BYTES);
	}
	buf_release(&peer.queue);
	return out;
}

/* The same of a session's frames. */
static struct buf take(const uint8_t *data, size_t size, size_t piece)
{
	struct talk_frames frames = { 0 };
	struct buf out = BUF_INIT, err = BUF_INIT;

	for (size_t at = 0; at < size; at += piece) {
		size_t n = size - at < piece ? size - at : piece;

		if (talk_frames_take(&frames, data + at, n, &out, &err) < 0) {
			must(err_get()->code == EX_UNAVAILABLE);
			err_clear();
			break;
		}
	}
	must(out.len + err.len <= size);
	buf_add(&out, err.data ? err.data : "", err.len);
	buf_release(&err);
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole, pieces;
	size_t piece;

	if (size < 2)
		return 0;
	piece = (size_t)data[0] + 1;
	whole = receive(data + 1, size - 1, size);
	pieces = receive(data + 1, size - 1, piece);
	must(whole.len == pieces.len &&
		memcmp(buf_text(&whole), buf_text(&pieces), whole.len) == 0);
	buf_release(&whole);
	buf_release(&pieces);
	whole = take(data + 1, size - 1, size);
	pieces = take(data + 1, size - 1, piece);
	must(whole.len == pieces.len &&
		memcmp(buf_text(&whole), buf_text(&pieces), whole.len) == 0);
	buf_release(&whole);
	buf_release(&pieces);
	return 0;
}
