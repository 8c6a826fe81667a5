/* request.c - what every handler of a coordinator begins with: who asks, and what was sent. */
#include "cmd/rnp-train/coordinator/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"

enum httpd_when coordinate_refuse(struct coordinator *g, struct httpd_reply *r,
	int status, const char *text)
{
	pthread_mutex_lock(&g->rounds.lock);
	g->figures.refused++;
	pthread_mutex_unlock(&g->rounds.lock);
	return httpd_error(r, status, "%s", text);
}

/* Finds the member that signed the request, which must be the one in its path. Returns false
 * with r filled. */
bool coordinate_is_signed(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, bool with_body, const char *member)
{
	char address[KEY_ADDRESS_MAX], reason[256];

	switch (protocol_verify(q, with_body, g->run.name, g->nonces, address, reason)) {
	case PROTOCOL_GOOD:
		break;
	case PROTOCOL_CLOCK:
		httpd_add_header(r, "rnp-clock", "wrong");
		coordinate_refuse(g, r, 401,
			"created: the clock is more than a minute off ours");
		return false;
	default:
		coordinate_refuse(g, r, 401, reason);
		return false;
	}
	if (member && strcmp(address, member) == 0)
		return true;
	coordinate_refuse(g, r, 403,
		"the request is signed by somebody else than the member");
	return false;
}

/* A signed record in the body. Returns it, or NULL with r filled. */
json_t *coordinate_read_record(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind)
{
	json_t *record = json_parse_object(buf_text(&q->body), q->body.len, "body");
	int64_t at_ms = 0;

	if (!record || protocol_check(record, "body", kind, g->run.name) < 0 ||
		json_get_time(record, "body", "at", &at_ms) < 0) {
		coordinate_refuse(g, r, err_get()->code == EX_NOPERM ? 401 : 400,
			err_get()->text);
		goto bad;
	}
	if (llabs(at_ms - clock_now_ms()) <= PROTOCOL_SKEW_MS)
		return record;
	httpd_add_header(r, "rnp-clock", "wrong");
	coordinate_refuse(g, r, 401, "at: the clock is more than a minute off ours");
bad:
	json_decref(record);
	return NULL;
}

bool coordinate_parse_number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno &&
		*out < UINT64_C(1) << 53;
}
