#include "common/cli/complete.h"

#include <string.h>

static void add_names(struct buf *out, const struct opt *o)
{
	for (; o && o->kind != OPT_END; o++)
		buf_addf(out, " --%s", o->name);
}

/* the words that may follow an option: choices, or nothing, which leaves files to bash */
static void add_values(struct buf *out, const struct command *c, const struct opt *o)
{
	for (; o && o->kind != OPT_END; o++) {
		if (o->kind == OPT_FLAG || o->kind == OPT_COUNT)
			continue;
		buf_addf(out, "\t%s:--%s) words='", c ? c->name : "*", o->name);
		for (const char *s = o->choices; s && *s; s++)
			buf_addc(out, *s == '|' ? ' ' : *s);
		buf_adds(out, "' ;;\n");
	}
}

void complete_bash(struct buf *out, const struct program *p, const struct opt *common)
{
	char function[64];
	size_t n = 0;

	for (const char *s = p->name; *s && n + 1 < sizeof function; s++)
		function[n++] = *s == '-' ? '_' : *s;
	function[n] = '\0';
	buf_addf(out, "# bash completion for %s, made by `%s --completion bash`\n",
		p->name, p->name);
	buf_addf(out,
		"_%s() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} "
		"prev=${COMP_WORDS[COMP_CWORD-1]} sub='' words='' i\n",
		function);
	buf_adds(out,
		"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase ${COMP_WORDS[i]} in\n");
	buf_adds(out,
		"\t\t--log) i=$((i + 1)) ;;\n\t\t-*) ;;\n\t\t*) sub=${COMP_WORDS[i]}; break ;;\n\t\tesac\n\tdone\n");
	buf_adds(out, "\tcase $sub:$prev in\n");
	for (int i = 0; p->commands[i]; i++)
		add_values(out, p->commands[i], p->commands[i]->opts);
	add_values(out, NULL, common);
	buf_adds(out, "\t*:--completion) words=bash ;;\n\t*:--schema) words='");
	for (int i = 0; p->kinds[i]; i++)
		buf_addf(out, " %s", p->kinds[i]);
	buf_adds(out, "' ;;\n");
	buf_adds(out, "\t*)\n\t\tcase $sub in\n");
	for (int i = 0; p->commands[i]; i++) {
		buf_addf(out, "\t\t%s) words='", p->commands[i]->name);
		add_names(out, p->commands[i]->opts);
		buf_adds(out, "' ;;\n");
	}
	buf_adds(out, "\t\t'') words='");
	for (int i = 0; p->commands[i]; i++)
		buf_addf(out, " %s", p->commands[i]->name);
	buf_adds(out, " --schema --completion' ;;\n\t\tesac\n\t\twords+='");
	add_names(out, common);
	buf_adds(out, "' ;;\n\tesac\n");
	buf_adds(out,
		"\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\n");
	buf_addf(out, "complete -o default -F _%s %s\n", function, p->name);
}
