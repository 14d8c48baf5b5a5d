/* The rules of auth_type hba as part of a configuration: problems that a start tolerates and that RELOAD and SET refuse. */
#include "conf/conf.h"

#include "conf/hba.h"
#include "tempfile.h"
#include "unit.h"

#include <stdio.h>

static struct conf_problems problems;

/* Loads a configuration with an HBA file of this text. The rules are not read yet. */
static struct conf *with_rules(const char *hba)
{
	char ini[512];

	snprintf(ini, sizeof(ini), "[pgweir]\nauth_type = hba\nauth_hba_file = %s\n", temp_write("hba", hba));
	conf_problems_free(&problems);
	return conf_load(temp_write("a.ini", ini), &problems);
}

static bool has_line(const struct conf *conf, int line)
{
	struct hba_client c = { .database = "d", .user = "u", .ip_size = 4 };
	const struct hba_rule *rule = conf->hba ? hba_find(conf->hba, &c) : NULL;

	return (rule ? rule->line : 0) == line && (!rule || !rule->is_faulty);
}

#define GOOD "host all all all md5\n"
#define BAD "host bad all 10.0.0.0/33 reject\n"

TEST(start_accepts_invalid_lines)
{
	struct conf *conf = with_rules(BAD GOOD);

	REQUIRE(conf);
	CHECK(conf_read_rules(conf, NULL, true, &problems));
	CHECK(has_line(conf, 2));
	CHECK_INT(problems.errors, 0);
	REQUIRE(problems.count == 1);
	CHECK(problems.items[0].is_warning && problems.items[0].line == 1);
	CHECK(strstr(problems.items[0].text, "refuses every login that it could be about: \"10.0.0.0/33\" has no valid"));
	conf_drop(&conf);
}

TEST(start_skips_invalid_map_lines)
{
	struct conf *conf;
	char ini[1024];
	int used = snprintf(ini, sizeof(ini), "[pgweir]\nauth_type = hba\nauth_hba_file = %s\n", temp_write("hba", BAD GOOD));

	snprintf(ini + used, sizeof(ini) - (size_t)used, "auth_ident_file = %s\n", temp_write("ident", "m a\n"));
	conf_problems_free(&problems);
	conf = conf_load(temp_write("a.ini", ini), &problems);
	REQUIRE(conf);
	CHECK(conf_read_rules(conf, NULL, true, &problems));
	REQUIRE(problems.count == 2 && problems.errors == 0);
	CHECK(strstr(problems.items[0].text, "refuses every login"));
	CHECK(strstr(problems.items[1].text, "passed over: expected a map"));
	conf_drop(&conf);
}

TEST(reload_refuses_invalid_lines)
{
	struct conf *running = with_rules(GOOD), *fresh;

	REQUIRE(running && conf_read_rules(running, NULL, false, &problems));
	fresh = with_rules(BAD GOOD);
	REQUIRE(fresh);
	CHECK(!conf_read_rules(fresh, running, false, &problems));
	CHECK_INT(problems.errors, 1);
	CHECK(!strstr(problems.items[0].text, "refuses"));
	CHECK(has_line(running, 1));
	conf_drop(&fresh);
	conf_drop(&running);
}

TEST(reload_accepts_invalid_lines_present_at_start)
{
	struct conf *running = with_rules(BAD GOOD), *fresh;

	REQUIRE(running && conf_read_rules(running, NULL, true, &problems));
	fresh = with_rules("\n" BAD GOOD);
	REQUIRE(fresh);
	CHECK(conf_read_rules(fresh, running, false, &problems));
	CHECK_INT(problems.errors, 0);
	CHECK_INT(problems.count, 1);
	CHECK(has_line(fresh, 3));
	conf_drop(&fresh);
	conf_drop(&running);
}

TEST(other_auth_types_have_no_rules)
{
	struct conf *conf = with_rules(GOOD), *trust;

	REQUIRE(conf && conf_read_rules(conf, NULL, true, &problems));
	trust = conf_with(conf, "auth_type", "trust", &problems);
	REQUIRE(trust);
	CHECK(!trust->hba);
	CHECK(conf->hba);
	conf_drop(&conf);
	/* auth_type is set back: the file is read again */
	temp_write("hba", "\n" GOOD);
	conf = conf_with(trust, "auth_type", "hba", &problems);
	REQUIRE(conf);
	CHECK(has_line(conf, 2));
	temp_write("hba", BAD);
	CHECK(!conf_with(trust, "auth_type", "hba", &problems));
	CHECK_INT(problems.errors, 1);
	conf_drop(&conf);
	conf_drop(&trust);
}

TEST(set_of_another_setting_shares_the_rules)
{
	struct conf *conf = with_rules(GOOD), *other;

	REQUIRE(conf && conf_read_rules(conf, NULL, true, &problems));
	temp_write("hba", BAD);
	other = conf_with(conf, "max_client_conn", "7", &problems);
	REQUIRE(other);
	CHECK(other->hba == conf->hba);
	conf_drop(&conf);
	CHECK(has_line(other, 1));
	conf_drop(&other);
}

TEST(teardown)
{
	conf_problems_free(&problems);
}

UNIT_MAIN
