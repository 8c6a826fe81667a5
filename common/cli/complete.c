/* complete.c - writes completion scripts: subcommands, their options, and the values that
 * options take. */
#include "common/cli/complete.h"

#include <stdbool.h>
#include <string.h>

#define HELP_SUMMARY "Say more about a subcommand."

static void add_names(struct buf *out, const struct opt *o)
{
	for (; o && o->kind != OPT_END; o++)
		buf_addf(out, " --%s", o->name);
}

/* Returns the words of an option's value, those that are all and those beside which files are. */
static const char *words_of(const struct opt *o)
{
	return o->choices ? o->choices : o->words;
}

static void add_words(struct buf *out, const char *words)
{
	for (const char *s = words; s && *s; s++)
		buf_addc(out, *s == '|' ? ' ' : *s);
}

/* the words that may follow an option: its choices, or nothing, in which case bash offers files */
static void add_values(struct buf *out, const struct command *c, const struct opt *o)
{
	for (; o && o->kind != OPT_END; o++) {
		if (o->kind == OPT_FLAG || o->kind == OPT_COUNT)
			continue;
		buf_addf(out, "\t%s:--%s) words='", c ? c->name : "*", o->name);
		add_words(out, words_of(o));
		buf_adds(out, o->words ? "' files=1 ;;\n" : "' ;;\n");
	}
}

static void add_commands(struct buf *out, const struct program *p)
{
	for (int i = 0; p->commands[i]; i++)
		buf_addf(out, " %s", p->commands[i]->name);
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
		"prev=${COMP_WORDS[COMP_CWORD-1]} sub='' words='' files='' i\n",
		function);
	buf_adds(out,
		"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tcase ${COMP_WORDS[i]} in\n");
	buf_adds(out,
		"\t\t--log|--color) i=$((i + 1)) ;;\n\t\t-*) ;;\n\t\t*) sub=${COMP_WORDS[i]}; break ;;\n\t\tesac\n\tdone\n");
	buf_adds(out, "\tcase $sub:$prev in\n");
	for (int i = 0; p->commands[i]; i++)
		add_values(out, p->commands[i], p->commands[i]->opts);
	add_values(out, NULL, common);
	buf_adds(out,
		"\t*:--completion) words='bash zsh fish' ;;\n\t*:--schema) words='");
	for (int i = 0; p->kinds[i]; i++)
		buf_addf(out, " %s", p->kinds[i]);
	buf_adds(out, "' ;;\n");
	buf_adds(out, "\t*)\n\t\tcase $sub in\n");
	for (int i = 0; p->commands[i]; i++) {
		buf_addf(out, "\t\t%s) words='", p->commands[i]->name);
		add_names(out, p->commands[i]->opts);
		buf_adds(out, "' ;;\n");
	}
	buf_adds(out, "\t\thelp) words='");
	add_commands(out, p);
	buf_adds(out, "' ;;\n\t\t'') words='");
	add_commands(out, p);
	buf_adds(out, " help --schema --completion' ;;\n\t\tesac\n\t\twords+='");
	add_names(out, common);
	buf_adds(out, "' ;;\n\tesac\n");
	buf_adds(out,
		"\tmapfile -t COMPREPLY < <(compgen ${files:+-f} -W \"$words\" -- \"$cur\")\n}\n");
	buf_addf(out, "complete -o default -F _%s %s\n", function, p->name);
}

/* --- zsh ----------------------------------------------------------------------------------- */

/* Writes a text within '...' of zsh's and fish's scripts; colons and brackets separate parts of
 * zsh's specifications. */
static void add_quoted(struct buf *out, const char *text, const char *escaped)
{
	for (; *text; text++) {
		if (*text == '\'')
			buf_adds(out, "'\\''");
		else if (strchr(escaped, *text))
			buf_addf(out, "\\%c", *text);
		else
			buf_addc(out, *text);
	}
}

static void zsh_options(struct buf *out, const struct opt *o)
{
	for (; o && o->kind != OPT_END; o++) {
		buf_addf(out, "\t\t'%s--%s[",
			o->kind == OPT_LIST || o->kind == OPT_COUNT ? "*" : "", o->name);
		add_quoted(out, o->help, "[]:\\");
		buf_addc(out, ']');
		if (opt_takes_value(o)) {
			buf_addc(out, ':');
			add_quoted(out, o->metavar ? o->metavar : "value", "[]:\\");
			if (o->choices) {
				buf_adds(out, ":(");
				add_words(out, o->choices);
				buf_addc(out, ')');
			} else if (o->words) {
				buf_adds(out, ":{compadd ");
				add_words(out, o->words);
				buf_adds(out, "; _files}");
			} else {
				buf_adds(out, ":_files");
			}
		}
		buf_adds(out, "' \\\n");
	}
}

void complete_zsh(struct buf *out, const struct program *p, const struct opt *common)
{
	buf_addf(out, "#compdef %s\n# zsh completion, made by `%s --completion zsh`\n",
		p->name, p->name);
	buf_addf(out, "_%s() {\n\tlocal -a common subs\n\tsubs=(\n", p->name);
	for (int i = 0; p->commands[i]; i++) {
		buf_addf(out, "\t\t'%s:", p->commands[i]->name);
		add_quoted(out, p->commands[i]->summary, "\\");
		buf_adds(out, "'\n");
	}
	buf_adds(out, "\t\t'help:" HELP_SUMMARY "'\n\t)\n\tcommon=( \\\n");
	zsh_options(out, common);
	buf_adds(out,
		"\t)\n\tif (( CURRENT == 2 )); then\n\t\t_describe subcommand subs\n"
		"\t\t_arguments $common '--schema[JSON Schema of the record kinds]:kind:(");
	for (int i = 0; p->kinds[i]; i++)
		buf_addf(out, "%s%s", i ? " " : "", p->kinds[i]);
	buf_adds(out,
		")' '--completion[completion script]:shell:(bash zsh fish)'\n\t\treturn\n\tfi\n"
		"\tlocal sub=$words[2]\n\tshift words; (( CURRENT-- ))\n\tcase $sub in\n");
	for (int i = 0; p->commands[i]; i++) {
		buf_addf(out, "\t%s)\n\t\t_arguments $common \\\n", p->commands[i]->name);
		zsh_options(out, p->commands[i]->opts);
		buf_adds(out, "\t\t'*:file:_files' ;;\n");
	}
	buf_adds(out, "\thelp)\n\t\t_describe subcommand subs ;;\n");
	buf_addf(out,
		"\tesac\n}\nif [[ $funcstack[1] == _%s ]]; then _%s \"$@\"; else compdef _%s %s; fi\n",
		p->name, p->name, p->name, p->name);
}

/* --- fish ---------------------------------------------------------------------------------- */

static void fish_options(struct buf *out, const struct program *p,
	const struct command *c, const struct opt *o)
{
	for (; o && o->kind != OPT_END; o++) {
		buf_addf(out, "complete -c %s", p->name);
		if (c)
			buf_addf(out, " -n '__fish_seen_subcommand_from %s'", c->name);
		buf_addf(out, " -l %s", o->name);
		if (o->letter)
			buf_addf(out, " -s %c", o->letter);
		if (o->choices) {
			buf_adds(out, " -x -a '");
			add_words(out, o->choices);
			buf_addc(out, '\'');
		} else if (o->words) {
			buf_adds(out, " -r -F -a '");
			add_words(out, o->words);
			buf_addc(out, '\'');
		} else if (opt_takes_value(o)) {
			buf_adds(out, " -r");
		}
		buf_adds(out, " -d '");
		add_quoted(out, o->help, "\\");
		buf_adds(out, "'\n");
	}
}

void complete_fish(struct buf *out, const struct program *p, const struct opt *common)
{
	buf_addf(out, "# fish completion for %s, made by `%s --completion fish`\n",
		p->name, p->name);
	for (int i = 0; p->commands[i]; i++) {
		buf_addf(out, "complete -c %s -f -n __fish_use_subcommand -a %s -d '",
			p->name, p->commands[i]->name);
		add_quoted(out, p->commands[i]->summary, "\\");
		buf_adds(out, "'\n");
	}
	buf_addf(out,
		"complete -c %s -f -n __fish_use_subcommand -a help -d '" HELP_SUMMARY
		"'\ncomplete -c %s -f -n '__fish_seen_subcommand_from help' -a '",
		p->name, p->name);
	add_commands(out, p);
	buf_adds(out, "'\n");
	fish_options(out, p, NULL, common);
	buf_addf(out,
		"complete -c %s -n __fish_use_subcommand -l completion -x -a 'bash zsh fish'\n",
		p->name);
	buf_addf(out, "complete -c %s -n __fish_use_subcommand -l schema -x -a '",
		p->name);
	for (int i = 0; p->kinds[i]; i++)
		buf_addf(out, "%s%s", i ? " " : "", p->kinds[i]);
	buf_adds(out, "'\n");
	for (int i = 0; p->commands[i]; i++)
		fish_options(out, p, p->commands[i], p->commands[i]->opts);
}

/* --- tables ---------------------------------------------------------------------------------- */

static void table_options(struct buf *out, const char *command, const struct opt *o)
{
	static const char *const kinds[] = { [OPT_FLAG] = "FLAG",
		[OPT_COUNT] = "COUNT",
		[OPT_TEXT] = "TEXT",
		[OPT_CHOICE] = "CHOICE",
		[OPT_LIST] = "LIST",
		[OPT_I64] = "I64",
		[OPT_U64] = "U64",
		[OPT_F64] = "F64",
		[OPT_SIZE] = "SIZE",
		[OPT_DURATION] = "DURATION",
		[OPT_TIME] = "TIME",
		[OPT_USD] = "USD",
		[OPT_RENDER] = "RENDER",
		[OPT_PPM] = "PPM" };

	for (; o && o->kind != OPT_END; o++)
		buf_addf(out, "%s\t%s\t%s\t%lld\t%lld\t%s\t%s\t%s\n", command, o->name,
			kinds[o->kind], (long long)o->min, (long long)o->max,
			words_of(o) ? words_of(o) : "", o->required ? "required" : "",
			o->address ? "address" : "");
}

void complete_table(struct buf *out, const struct program *p, const struct opt *common)
{
	for (int i = 0; p->commands[i]; i++) {
		const struct command *c = p->commands[i];

		buf_addf(out, "%s\t%d\n", c->name, c->args_max);
		table_options(out, c->name, c->opts);
	}
	table_options(out, "", common);
}
