/* hour.c - a line a challenge, in a file beside the figures of this machine. */
#include "cmd/rnp-bench/prove/hour.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/hw/figure.h"

#define FILE_NAME      "challenges"
#define FILE_BYTES_MAX ((size_t)1 << 20)
#define TIDY_BYTES     ((size_t)64 << 10) /* then lines that are over an hour old go */
#define HOUR_MS        3600000

static struct buf own; /* the lines of this process, when there is no place */

/* Adds up the lines "END TOOK" in ms, and appends those of the hour to `fresh`. */
static int64_t add_up(const struct buf *text, struct buf *fresh)
{
	int64_t now_ms = clock_now_ms(), sum_ms = 0, end_ms, took_ms;
	const char *at = buf_text(text);
	char *end;

	for (; *at; at = *end ? end + 1 : end) {
		end_ms = strtoll(at, &end, 10);
		took_ms = strtoll(end, &end, 10);
		while (*end && *end != '\n')
			end++;
		/* a clock that was set back makes nobody work more */
		if (now_ms - end_ms >= HOUR_MS || end_ms - now_ms >= HOUR_MS ||
			took_ms < 0 || took_ms > 24 * HOUR_MS)
			continue;
		sum_ms += took_ms;
		buf_addf(fresh, "%lld %lld\n", (long long)end_ms, (long long)took_ms);
	}
	return sum_ms;
}

int64_t hour_spent_ms(void)
{
	struct buf path = BUF_INIT, text = BUF_INIT, fresh = BUF_INIT, mine = BUF_INIT;
	int64_t sum_ms;

	if (figure_place(&path, FILE_NAME) < 0 || access(path.data, R_OK) < 0 ||
		io_read(&text, path.data, FILE_BYTES_MAX) < 0)
		buf_reset(&text);
	sum_ms = add_up(&text, &fresh) + add_up(&own, &mine);
	if (text.len > TIDY_BYTES)
		io_replace(path.data, buf_text(&fresh), fresh.len, 0644);
	err_clear();
	buf_release(&path);
	buf_release(&text);
	buf_release(&fresh);
	buf_release(&mine);
	return sum_ms;
}

void hour_add(int64_t took_ms)
{
	struct buf path = BUF_INIT, line = BUF_INIT;
	int fd = -1;

	buf_addf(&line, "%lld %lld\n", (long long)clock_now_ms(), (long long)took_ms);
	if (figure_place(&path, FILE_NAME) == 0)
		fd = open(path.data, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	/* one write: lines of several processes do not mix */
	if (fd < 0 || io_write_all(fd, line.data, line.len) < 0)
		buf_add(&own, line.data, line.len);
	if (fd >= 0)
		close(fd);
	err_clear();
	buf_release(&path);
	buf_release(&line);
}
