/*
 * The hosts of a database, from the texts of `host` and `port`.
 */
#include "conf/host_list.h"

#include "base/text.h"
#include "conf/url.h"

#include <string.h>

#define WEIGHT_MOST 1000

unsigned ports_read(const char *text, int *ports, unsigned most)
{
	unsigned count = 0;
	int64_t port;
	char one[8];

	for (;;) {
		size_t size = strcspn(text += strspn(text, " "), ", ");

		if (size >= sizeof(one))
			return 0;
		memcpy(one, text, size);
		one[size] = '\0';
		if (!text_to_int64(one, &port) || port < 1 || port > UINT16_MAX)
			return 0;
		if (count < most)
			ports[count] = (int)port;
		count++;
		text += size;
		text += strspn(text, " ");
		if (*text == '\0')
			return count;
		if (*text++ != ',')
			return 0;
	}
}

/* Returns the weight at the end of a name of this size, which the weight is cut off; 1 without one,
   0 for a wrong one. */
static unsigned take_weight(const char *name, size_t *size)
{
	const char *star = memchr(name, '*', *size);
	int64_t weight;
	char digits[8];
	size_t length;

	if (!star)
		return 1;
	length = *size - (size_t)(star + 1 - name);
	*size = (size_t)(star - name);
	if (length >= sizeof(digits))
		return 0;
	memcpy(digits, star + 1, length);
	digits[length] = '\0';
	return text_to_int64(digits, &weight) && weight >= 1 && weight <= WEIGHT_MOST
		       ? (unsigned)weight
		       : 0;
}

static bool asks(int target) { return target != CONF_UNSET && target != TARGET_ANY; }

const char *conf_patroni_of(const struct conf *conf, const struct conf_database *d)
{
	return d->patroni ? d->patroni : conf->settings.patroni;
}

int64_t conf_target_of(const struct conf *conf, const struct conf_database *d)
{
	bool has_cluster = d->patroni || (!d->host && conf->settings.patroni);

	if (d->target_session_attrs != CONF_UNSET)
		return d->target_session_attrs;
	return has_cluster ? TARGET_PRIMARY : TARGET_ANY;
}

bool conf_asks_for_roles(const struct conf *conf, const struct conf_database *d)
{
	bool is_asked = conf_target_of(conf, d) != TARGET_ANY || d->reads != READS_OFF ||
			(!d->host && conf_patroni_of(conf, d));

	for (size_t i = 0; i < conf->user_count && !is_asked; i++)
		is_asked = asks(conf->users[i]->target_session_attrs);
	return is_asked;
}

bool hosts_make(struct conf_database *d, struct arena *arena)
{
	const char *at = d->host;
	unsigned ports;
	int *list;

	d->host_count = 1;
	for (const char *comma = at; comma && (comma = strchr(comma, ',')); comma++)
		d->host_count++;
	d->hosts = arena_take(arena, d->host_count * sizeof(*d->hosts));
	list = arena_take(arena, d->host_count * sizeof(*list));
	if (!d->hosts || !list)
		return false;
	ports = ports_read(d->port, list, d->host_count);
	for (unsigned i = 0; i < d->host_count; i++) {
		size_t size;

		d->hosts[i].port = ports == 1 ? list[0] : i < ports ? list[i] : 0;
		d->hosts[i].weight = 1;
		if (!at)
			continue;
		at += strspn(at, " ");
		size = strcspn(at, ", ");
		/* a socket directory may contain the sign */
		if (*at != '/' && *at != '@')
			d->hosts[i].weight = take_weight(at, &size);
		d->hosts[i].name = arena_copy(arena, at, size);
		if (!d->hosts[i].name)
			return false;
		at += strcspn(at, ",");
		at += *at == ',';
	}
	return true;
}

static void host_list_warn(const struct conf_database *d, struct conf_problems *problems,
			   const char *text)
{
	conf_problem_add(problems, true, d->file, d->line, "database \"%s\": %s", d->name, text);
}

/*
 * Keys that contradict each other, or have no effect. An entry without a host has the members
 * that the setting patroni finds.
 */
static void check_roles(const struct conf *conf, const struct conf_database *d, bool has_roles,
			struct conf_problems *problems)
{
	bool has_members = d->patroni || (!d->host && conf->settings.patroni);
	bool reads = d->reads != READS_OFF, has_weights = false;
	int64_t target = d->target_session_attrs;

	for (unsigned i = 0; i < d->host_count; i++)
		has_weights |= d->hosts[i].weight > 1;
	if (reads && (target == TARGET_READ_ONLY || target == TARGET_STANDBY ||
		      target == TARGET_PREFER_STANDBY))
		host_list_warn(d, problems,
			       "\"reads\" has no effect, because \"target_session_attrs\" sends "
			       "its clients to standbys already: remove one of them");
	else if (reads && d->host_count == 1 && !has_members)
		host_list_warn(d, problems,
			       "\"reads\" has no effect with one host: list the standbys in "
			       "\"host\", too, or remove \"reads\"");
	if (d->read_functions && *d->read_functions && d->reads != READS_AUTO)
		host_list_warn(d, problems,
			       "\"read_functions\" has no effect without \"reads\" = auto");
	if (!has_roles && d->max_lag != CONF_UNSET)
		host_list_warn(
			d, problems,
			"\"max_lag\" has no effect without \"target_session_attrs\" or \"reads\"");
	if (!has_roles && d->read_your_writes != CONF_UNSET)
		host_list_warn(d, problems, "\"read_your_writes\" has no effect without \"reads\"");
	if (has_weights && (!has_roles || d->load_balance_hosts == BALANCE_ROUND_ROBIN ||
			    d->load_balance_hosts == BALANCE_DISABLE))
		host_list_warn(d, problems,
			       has_roles ? "the weights of hosts have no effect with this "
					   "\"load_balance_hosts\": use least, or remove the key"
					 : "the weights of hosts have no effect without "
					   "\"target_session_attrs\" or "
					   "\"reads\"");
}

void hosts_check(const struct conf *conf, const struct conf_database *d,
		 struct conf_problems *problems)
{
	unsigned ports = ports_read(d->port, NULL, 0);
	bool has_roles = conf_asks_for_roles(conf, d);
	char why[512];

	if (d->patroni && conf_url_list_fault(d->patroni, why, sizeof(why)))
		conf_problem_add(problems, false, d->file, d->line,
				 "database \"%s\": \"patroni\": %s", d->name, why);
	if (d->patroni && !has_roles)
		conf_problem_add(problems, true, d->file, d->line,
				 "database \"%s\": \"patroni\" has no effect with "
				 "\"target_session_attrs\" = any: remove one of them",
				 d->name);
	if (conf->settings.patroni && !d->patroni && d->host_count > 1 && !has_roles)
		host_list_warn(d, problems,
			       "the setting \"patroni\" has no effect on its list of hosts: add "
			       "\"target_session_attrs\", or remove \"host\"");
	if (ports != 1 && ports != d->host_count)
		conf_problem_add(problems, false, d->file, d->line,
				 "database \"%s\": \"port\" has %u ports for %u hosts: write one "
				 "port for all of them, or one for each",
				 d->name, ports, d->host_count);
	check_roles(conf, d, has_roles, problems);
	for (unsigned i = 0; i < d->host_count; i++) {
		const struct conf_host *host = &d->hosts[i];

		if (host->weight == 0)
			conf_problem_add(problems, false, d->file, d->line,
					 "database \"%s\": the weight of the host \"%s\" is not a "
					 "whole number from 1 to %d",
					 d->name, host->name, WEIGHT_MOST);
		for (unsigned j = 0; has_roles && j < i; j++) {
			const struct conf_host *other = &d->hosts[j];

			if (host->port == other->port &&
			    (host->name == other->name ||
			     (host->name && other->name && strcmp(host->name, other->name) == 0)))
				conf_problem_add(problems, false, d->file, d->line,
						 "database \"%s\": the host \"%s\" with port %d "
						 "is in the list twice: remove one, and give the "
						 "other a weight (%s*2)",
						 d->name, host->name ? host->name : "", host->port,
						 host->name ? host->name : "");
		}
	}
}
