/* explain_page.c - see explain_page.h. */
#include "cmd/rnp-reward/epoch/explain_page.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/utf8.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/cli/table.h"
#include "common/json/json.h"

#define LABEL_WIDTH 22 /* "gpu memory bandwidth" and two blanks before it */

static const char *heading_of(const char *part)
{
	static const char *const headings[][2] = { { "input", "What the node did" },
		{ "requirement", "What the policy requires" }, { "term", "Terms" },
		{ "pay", "Pay" }, { "note", "Notes of the policy" } };

	for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
		if (strcmp(part, headings[i][0]) == 0)
			return headings[i][1];
	return part;
}

/* Appends an input: a number whose name ends in its unit, or text. */
static void add_input(struct buf *out, const char *name, const char *value)
{
	json_t *v = json_parse(value, strlen(value), JSON_DEPTH_MAX, name);

	if (v)
		human_value(out, name, v, NULL, 0);
	else
		buf_adds(out, value);
	err_clear();
	json_decref(v);
}

/* The text may be what strangers wrote, such as a source or a model: it is cleaned. */
static void add_line(struct buf *page, const char *label, struct buf *text)
{
	if (text->len)
		utf8_clean_line(text->data);
	if (text->len)
		table_card_line(page, label, LABEL_WIDTH, text->data, out_width());
	buf_reset(text);
}

int explain_page_step(const char *gpus, const char *part, const char *name,
	const char *value, const char *formula, const char *source)
{
	static char before[160];
	char heading[160];
	bool is_input = strcmp(part, "input") == 0;
	bool need = strcmp(part, "requirement") == 0;
	struct buf page = BUF_INIT, text = BUF_INIT, label = BUF_INIT;
	int rc;

	snprintf(heading, sizeof heading, "%s%s%s", heading_of(part), *gpus ? ": " : "",
		gpus);
	utf8_clean_line(heading);
	if (strcmp(heading, before) != 0)
		buf_addf(&page, "%s%s\n", *before ? "\n" : "", heading);
	buf_adds(&label, "  ");
	/* without their units these two would have one name */
	if (strcmp(name, "up_s") == 0)
		buf_adds(&label, "time up");
	else if (strcmp(name, "up_bps") == 0)
		buf_adds(&label, "upload");
	else
		human_heading(&label, name);
	/* only the first note is labelled with the policy's name */
	if (strcmp(part, "note") == 0 && strcmp(heading, before) == 0)
		buf_reset(&label);
	memcpy(before, heading, sizeof before);
	if (value && is_input)
		add_input(&text, name, value);
	else if (value)
		buf_adds(&text, value);
	if (need && formula)
		buf_addf(&text, " (%s)", formula);
	if (is_input && source)
		buf_addf(&text, "  (%s)", source);
	if (!text.len && source) {
		buf_adds(&text, source);
		source = NULL;
	}
	add_line(&page, buf_text(&label), &text);
	if (formula && !need)
		buf_addf(&text, "= %s", formula);
	add_line(&page, "", &text);
	if (source && !is_input)
		buf_adds(&text, source);
	add_line(&page, "", &text);
	rc = out_text(page.data, page.len);
	buf_release(&page);
	buf_release(&text);
	buf_release(&label);
	return rc;
}
