/* read.c - functions that the readers of all markets share. */
#include "cmd/rnp-price/feed/feed.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/record/gpu.h"
#include "common/base/money.h"
#include "common/base/num.h"

#define PRICE_DECIMALS 12
#define NOTES_MAX      20 /* of several texts; a market is a stranger */
#define PRICE_MAX_UUSD INT64_C(1000000000000000) /* a billion dollars */

void feed_release(struct feed *f)
{
	offer_list_release(&f->offers);
	for (size_t i = 0; i < f->nnotes; i++) {
		free(f->notes[i].text);
		free(f->notes[i].where);
	}
	free(f->notes);
	hash_index_release(&f->ids);
	memset(f, 0, sizeof *f);
	f->at_ms = OFFER_UNKNOWN;
	f->stated = -1;
}

int feed_complete(const struct feed *f, const char *name)
{
	if (f->next[0])
		return err_set(EX_DATAERR, "%s: a page: there are more rows than its %ld",
			name, f->rows);
	if (f->stated >= 0 && f->stated != f->rows)
		return err_set(EX_DATAERR,
			"%s: a page: it says that there are %lld rows and holds %ld",
			name, (long long)f->stated, f->rows);
	return 0;
}

void feed_note(struct feed *f, const char *where, const char *fmt, ...)
{
	char text[300];
	va_list ap;
	struct feed_note *n;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < f->nnotes; i++)
		if (strcmp(f->notes[i].text, text) == 0 || i == NOTES_MAX) {
			f->notes[i].times++;
			return;
		}
	if (f->nnotes == NOTES_MAX)
		snprintf(text, sizeof text, "as much of other kinds, which is not told");
	f->notes = xgrow(f->notes, &f->notes_cap, f->nnotes + 1, sizeof *f->notes);
	n = &f->notes[f->nnotes++];
	n->text = xstrdup(text);
	n->where = xstrdup(where);
	n->times = 1;
}

int feed_price(const char *price, int64_t count_micro, const char *what, int64_t *uusd)
{
	int64_t pico;

	if (num_decimal(price, what, PRICE_DECIMALS, 1, &pico) < 0)
		return -1;
	if (pico < 0)
		return err_set(EX_DATAERR, "%s: %.60s is less than 0", what, price);
	if (money_muldiv(pico, 1, count_micro, MONEY_HALF_UP, uusd) < 0)
		return -1;
	if (*uusd > PRICE_MAX_UUSD)
		return err_set(EX_DATAERR, "%s: %.60s is beyond every price", what,
			price);
	return 0;
}

void feed_name_model(struct feed *f, struct offer *o, const struct gpu_model *m,
	const char *name, const char *where)
{
	o->name = name;
	o->known = m;
	o->gpu = m;
	o->model = m ? m->name : name;
	if (!m && o->gpu_memory_bytes > 0)
		feed_note(f, where,
			"GPU model '%.100s' with %lld MiB is not in our table: passed "
			"on under its own name",
			name, (long long)(o->gpu_memory_bytes >> 20));
	else if (!m)
		feed_note(f, where,
			"GPU model '%.100s' is not in our table: passed on under its "
			"own name",
			name);
}

/* --- ids that were there ------------------------------------------------------------------ */

static uint32_t hash_of(const struct offer *o)
{
	uint64_t h = fnv1a_text(hash_seed() ^ o->spot, o->id);

	return (uint32_t)((h ^ (h >> 32)) * 0x9e3779b97f4a7c15u >> 32);
}

static bool has_id(const void *offers, uint32_t i, const void *key)
{
	const struct offer *a = &((const struct offer *)offers)[i], *b = key;

	return a->spot == b->spot && strcmp(a->id, b->id) == 0;
}

void feed_add(struct feed *f, struct offer *o, const char *where)
{
	uint32_t hash = hash_of(o);
	uint64_t *slot;

	hash_index_reserve(&f->ids);
	slot = hash_index_slot(&f->ids, hash, has_id, f->offers.items, o);
	if (*slot) {
		const struct offer *first = &f->offers.items[(uint32_t)*slot - 1];

		if (first->uusd_per_gpu_hour == o->uusd_per_gpu_hour)
			feed_note(f, where, "the same offer again, left out");
		else
			feed_note(f, where,
				"offer '%.100s' again with another price, left out: "
				"%lld uusd, first %lld",
				o->id, (long long)o->uusd_per_gpu_hour,
				(long long)first->uusd_per_gpu_hour);
		return;
	}
	hash_index_set(&f->ids, slot, hash, f->offers.n);
	offer_list_add(&f->offers, o);
}

/* --- places ------------------------------------------------------------------------------- */

static bool is_country(const char *s, size_t n)
{
	return n == 2 && isupper((unsigned char)s[0]) && isupper((unsigned char)s[1]);
}

bool feed_country(const char *place, char out[3])
{
	const char *parts[4];
	size_t lens[4];
	int n = 0;

	for (const char *p = place; n < 4; n++) {
		p += strspn(p, " ");
		parts[n] = p;
		lens[n] = strcspn(p, ",");
		p += lens[n];
		if (!*p++) {
			n++;
			break;
		}
	}
	/* "region, country, continent", "region, country", "country" */
	if (n > 3 || !is_country(parts[n == 1 ? 0 : 1], lens[n == 1 ? 0 : 1]))
		return false;
	memcpy(out, parts[n == 1 ? 0 : 1], 2);
	out[2] = '\0';
	return true;
}
