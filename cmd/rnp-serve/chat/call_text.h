/* call_text.h - finds calls of tools in a model's text that arrives in pieces. Uses
 * model/call_format.h, request/tools.h, buf. Pure.
 *
 * Text before the format's mark is content. From the mark on the engine's mask keeps to the
 * format (tool_grammar.h), so that what follows only has to be taken apart: names, and
 * arguments as they come. A mark with which no call begins is content, too. */
#ifndef RNP_SERVE_CHAT_CALL_TEXT_H
#define RNP_SERVE_CHAT_CALL_TEXT_H

#include "cmd/rnp-serve/model/call_format.h"
#include "cmd/rnp-serve/request/tools.h"
#include "common/base/buf.h"

/* --- the mark ----------------------------------------------------------------------------- */

struct call_watch {
	const struct call_format *format; /* borrowed */
	struct buf held;                  /* text that may belong to a mark */
	bool begun;                       /* the mark was found */
	bool started;                     /* there was other text than blanks */
	size_t blanks;                    /* in front of the mark, once it was found */
};

void call_watch_init(struct call_watch *w, const struct call_format *f);
void call_watch_release(struct call_watch *w);

/* Takes a piece of text, and appends what is content to content. Returns true when the mark is
 * complete: then w->held is the mark and what came after it, and w takes no more. */
bool call_watch_push(struct call_watch *w, const char *text, size_t len,
	struct buf *content);
/* Returns how many bytes of w->held the mark takes, with the blanks before it. Only after
 * call_watch_push returned true. */
size_t call_watch_mark(const struct call_watch *w);

/* --- calls -------------------------------------------------------------------------------- */

struct call {
	char id[40];
	struct buf name, arguments; /* arguments: so far */
	bool complete;
	/* for those who write it: what the client knows of it */
	bool told, closed;
	size_t sent; /* bytes of its arguments */
};

struct calls {
	const struct tools *tools; /* borrowed */
	struct call_watch watch;
	struct call *at; /* those whose name is known */
	uint32_t count;
	enum {
		CALLS_WATCH,
		CALLS_OPEN,
		CALLS_NAME,
		CALLS_MIDDLE,
		CALLS_ARGUMENTS,
		CALLS_BEHIND,
		CALLS_OVER,
		CALLS_PLAIN
	} state;
	struct buf raw;       /* the text since the mark, while no call is certain */
	struct buf name;      /* of the call that begins */
	char id[40];          /* "": the format has none so far */
	size_t done;          /* bytes of the part of the format that is being read */
	unsigned id_bytes;    /* of the id within it */
	int depth;            /* brackets in arguments */
	bool quoted, escaped; /* within a text in them */
	uint32_t number;      /* of the call that begins */
};

void calls_init(struct calls *c, const struct call_format *f, const struct tools *tools);
void calls_release(struct calls *c);

/* Take a piece of text, and the end of the text. Append what is not part of a call to
 * content. */
void calls_push(struct calls *c, const char *text, size_t len, struct buf *content);
void calls_end(struct calls *c, struct buf *content);

#endif
