/* The parameters that servers report at login are shared while they are equal, and a promotion changes them. */
#include "backend/welcome.h"

#include "pg/build.h"
#include "unit.h"

static struct welcome *reports(const char *version, const char *standby, struct welcome *like)
{
	struct bytes messages = BYTES_EMPTY;

	pg_build_parameter_status(&messages, "server_version", version);
	if (standby)
		pg_build_parameter_status(&messages, "in_hot_standby", standby);
	return welcome_of(&messages, like);
}

static bool is_welcomed_with(struct welcome *welcome, const char *version, const char *standby)
{
	struct welcome *wanted = reports(version, standby, NULL);
	const struct bytes *a = welcome_messages(welcome), *b = welcome_messages(wanted);
	bool is_same = bytes_size(a) == bytes_size(b) && memcmp(bytes_front(a), bytes_front(b), bytes_size(a)) == 0;

	welcome_drop(&wanted);
	return is_same;
}

TEST(equal_parameter_sets_are_shared)
{
	struct welcome *one = reports("15.6", "off", NULL), *same = reports("15.6", "off", one), *other = reports("16.1", "off", one);

	CHECK(one == same && one != other);
	welcome_drop(&one);
	CHECK(!one);
	CHECK(is_welcomed_with(same, "15.6", "off") && is_welcomed_with(other, "16.1", "off"));
	welcome_drop(&same);
	welcome_drop(&other);
	welcome_drop(&other);
}

TEST(nothing_reported)
{
	struct bytes none = BYTES_EMPTY, again = BYTES_EMPTY;
	struct welcome *one = welcome_of(&none, NULL), *same = welcome_of(&again, one);

	CHECK(one == same && bytes_size(welcome_messages(one)) == 0);
	welcome_reported(one, "in_hot_standby", "off");
	CHECK(bytes_size(welcome_messages(one)) == 0);
	welcome_drop(&one);
	welcome_drop(&same);
}

/* Other parameters belong to a single session. */
TEST(promotion)
{
	struct welcome *one = reports("15.6", "on", NULL), *late;

	welcome_reported(one, "server_version", "16.1");
	CHECK(is_welcomed_with(one, "15.6", "on"));
	welcome_reported(one, "in_hot_standby", "off");
	/* the parameter sets are no longer known to be equal */
	late = reports("15.6", "on", one);
	CHECK(late != one);
	CHECK(is_welcomed_with(one, "15.6", "off") && is_welcomed_with(late, "15.6", "on"));
	welcome_drop(&late);
	late = reports("15.6", "off", one);
	CHECK(late == one);
	welcome_drop(&late);
	welcome_drop(&one);
}

UNIT_MAIN
