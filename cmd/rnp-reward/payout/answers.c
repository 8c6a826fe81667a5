/* answers.c - tells the person who has to choose among the servers where they differ. */
#include <inttypes.h>
#include <stdio.h>

#include "cmd/rnp-reward/payout/run.h"
#include "common/cli/prog.h"

void pay_format_heights(struct pay_run *run, const int64_t *heights, int64_t claimed)
{
	struct buf text = BUF_INIT;

	buf_addf(&text, "it is good until height %" PRId64 ", and the height now is",
		claimed);
	for (int i = 0; i < run->n; i++)
		if (heights[i] >= 0)
			buf_addf(&text, "%s %" PRId64 " (%.60s)", i ? "," : "",
				heights[i], run->servers[i].peer.name);
	snprintf(run->last_error, sizeof run->last_error, "%.*s",
		(int)sizeof run->last_error - 1, text.data);
	buf_release(&text);
}

void pay_format_answers(struct pay_run *run, const struct ledger_tx *tx,
	const struct pay_view *v)
{
	static const char *const words[] = { [PAY_NULL] = "not known",
		[PAY_SEEN] = "processed",
		[PAY_SEEN_CONFIRMED] = "confirmed",
		[PAY_SEEN_FINAL] = "final",
		[PAY_SEEN_ERROR] = "failed",
		[PAY_SEEN_FINAL_ERROR] = "failed" };
	struct buf text = BUF_INIT;
	enum pay_seen first = PAY_NO_ANSWER;
	bool differ = false;

	buf_addf(&text, "servers differ: transaction %" PRId64 " is", tx->id);
	for (int i = 0; i < v->servers; i++) {
		if (v->seen[i] == PAY_NO_ANSWER)
			continue;
		buf_addf(&text, "%s %s (%.60s)", first == PAY_NO_ANSWER ? "" : ",",
			words[v->seen[i]], run->servers[i].peer.name);
		first = first == PAY_NO_ANSWER ? v->seen[i] : first;
		differ = differ || v->seen[i] != first;
	}
	if (differ)
		snprintf(run->last_error, sizeof run->last_error, "%.*s",
			(int)sizeof run->last_error - 1, text.data);
	buf_release(&text);
}

const char *pay_denied(const struct pay_run *run, int64_t tx)
{
	const struct pay_denial *list = (const void *)run->denials.data;

	for (size_t i = 0; i < run->denials.len / sizeof *list; i++)
		if (list[i].id == tx)
			return list[i].text;
	return NULL;
}

void pay_note_denials(struct pay_run *run, const struct ledger_tx *tx,
	const struct pay_view *v)
{
	struct pay_denial d = { .id = tx->id };

	for (int i = 0; i < v->servers; i++) {
		if (v->seen[i] != PAY_SEEN_FINAL_ERROR)
			continue;
		snprintf(d.text, sizeof d.text,
			"%.120s says that it failed, others that it is final",
			run->servers[i].peer.name);
		if (!(run->denied >> i & 1))
			prog_warn("%s says that transaction %" PRId64
				  " failed, and more than half of the servers that it is "
				  "final: it counts as paid, leave that server out",
				run->servers[i].peer.name, tx->id);
		run->denied |= UINT32_C(1) << i;
		run->avoid |= UINT32_C(1) << i;
	}
	if (d.text[0])
		buf_add(&run->denials, &d, sizeof d);
}
