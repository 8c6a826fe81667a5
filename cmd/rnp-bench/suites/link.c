/* link.c - measures transfers to a GPU and back: from pinned and from ordinary host
 * memory, and from another GPU. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/gpu.h"
#include "cmd/rnp-bench/suites/suite.h"
#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/json/json.h"

#define BLOCK       (UINT64_C(256) << 20)
#define BLOCK_QUICK (UINT64_C(64) << 20)
#define BLOCK_MIN   (UINT64_C(1) << 20)

static struct {
	struct dev *dev, *other;
	void *here, *there; /* of the device and of the other device */
	unsigned char *host;
	bool pinned;
	uint64_t bytes;
} side;

static int failed(void)
{
	return device_failed(side.dev);
}

static void close_blocks(void)
{
	if (side.other)
		side.other->ops->free(side.other, side.there);
	if (side.dev) {
		side.dev->ops->free(side.dev, side.here);
		if (side.pinned)
			side.dev->ops->unpin(side.dev, side.host);
		else
			free(side.host);
	}
	memset(&side, 0, sizeof side);
}

static int open_device(const struct settings *s)
{
	uint64_t available;

	side.dev = gpu_open(s);
	if (!side.dev)
		return -1;
	if (side.dev->ops->mem_free(side.dev, &available) < 0)
		return failed();
	for (side.bytes = s->quick ? BLOCK_QUICK : BLOCK;
		side.bytes > BLOCK_MIN && side.bytes > available / 2;)
		side.bytes /= 2;
	return side.dev->ops->alloc(side.dev, &side.here, side.bytes) < 0 ? failed() : 0;
}

static int open_host(const struct settings *s, bool pinned)
{
	void *host = NULL;

	if (open_device(s) < 0)
		goto fail;
	side.pinned = pinned;
	if (pinned ? side.dev->ops->pin(side.dev, &host, side.bytes) < 0 :
		     posix_memalign(&host, 4096, side.bytes) != 0) {
		if (pinned)
			failed();
		else
			err_set(EX_OSERR, "no memory for a block");
		goto fail;
	}
	side.host = host;
	/* no two words are alike, and every page is mapped */
	for (uint64_t i = 0; i < side.bytes; i += sizeof i)
		memcpy(side.host + i, &i, sizeof i);
	if (side.dev->ops->put(side.dev, side.here, side.host, side.bytes) == 0)
		return 0;
	failed();
fail:
	close_blocks();
	return -1;
}

static int open_pinned(const struct settings *s)
{
	return open_host(s, true);
}

static int open_pageable(const struct settings *s)
{
	return open_host(s, false);
}

/* 1: there is no second GPU, which is not an error of this one; a second GPU that cannot be
 * opened is an error */
static int open_peer(const struct settings *s)
{
	bool none;

	if (open_device(s) < 0)
		goto fail;
	side.other = gpu_open_other(s, &none);
	if (none) {
		close_blocks();
		return 1;
	}
	if (!side.other)
		goto fail;
	if (side.other->ops->alloc(side.other, &side.there, side.bytes) == 0 &&
		side.other->ops->fill(side.other, side.there, 0x12345678,
			side.bytes / 4) == 0)
		return 0;
	device_failed(side.other);
fail:
	close_blocks();
	return -1;
}

static int step_put(double *work)
{
	*work = (double)side.bytes;
	return side.dev->ops->put(side.dev, side.here, side.host, side.bytes) < 0 ?
		failed() :
		0;
}

static int step_get(double *work)
{
	*work = (double)side.bytes;
	return side.dev->ops->get(side.dev, side.host, side.here, side.bytes) < 0 ?
		failed() :
		0;
}

static int step_peer(double *work)
{
	*work = (double)side.bytes;
	if (side.dev->ops->from_peer(side.dev, side.here, side.other, side.there,
		    side.bytes) < 0 ||
		side.dev->ops->sync(side.dev) < 0)
		return failed();
	return 0;
}

/* Checks, at places all over the block, that the device holds what the host sent. */
static int check_sent(void)
{
	for (uint64_t at = 0; at < side.bytes; at += side.bytes / 16) {
		uint64_t found;

		if (side.dev->ops->get(side.dev, &found, (const char *)side.here + at,
			    sizeof found) < 0)
			return failed();
		if (found != at)
			return gpu_wrong(side.dev, "other bytes arrived than were sent");
	}
	return 0;
}

static int check_back(void)
{
	for (uint64_t i = 0; i < side.bytes; i += sizeof i)
		if (memcmp(side.host + i, &i, sizeof i) != 0)
			return gpu_wrong(side.dev,
				"other bytes came back than were sent");
	return 0;
}

static int check_peer(void)
{
	uint32_t found;

	if (side.dev->ops->get(side.dev, &found,
		    (const char *)side.here + side.bytes - sizeof found,
		    sizeof found) < 0)
		return failed();
	return found == 0x12345678 ?
		0 :
		gpu_wrong(side.dev, "other bytes arrived from %s than were sent",
			side.other->name);
}

static void describe(json_t *params)
{
	json_set_i64(params, "block_bytes", (int64_t)side.bytes);
	if (side.host)
		json_set_text(params, "memory", side.pinned ? "pinned" : "pageable");
	if (side.other)
		json_set_text(params, "from", side.other->model);
}

static const struct test tests[] = {
	{ "host_to_device", "B/s", "from pinned host memory", false, open_pinned,
		step_put, check_sent, describe, close_blocks },
	{ "device_to_host", "B/s", "to pinned host memory", false, open_pinned, step_get,
		check_back, describe, close_blocks },
	{ "host_to_device_pageable", "B/s", "from ordinary host memory", false,
		open_pageable, step_put, check_sent, describe, close_blocks },
	{ "device_to_host_pageable", "B/s", "to ordinary host memory", false,
		open_pageable, step_get, check_back, describe, close_blocks },
	{ "device_to_device", "B/s", "from another GPU", false, open_peer, step_peer,
		check_peer, describe, close_blocks },
	{ 0 },
};

const struct suite suite_link = { "link", tests, gpu_model, gpu_close, &gpu_watch, NULL };
