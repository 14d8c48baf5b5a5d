/* Features shared by HBA and ident files: included files and hostile input. */
#include "hba_ends.h"

#include <sys/stat.h>

TEST(included_lines_keep_their_position)
{
	struct hba *hba;

	temp_write("inner", "host b all all trust\nhost c all nowhere trust\nhost all all all trust\n");
	hba = rules("host a all all trust\ninclude inner\ninclude \"inner\" # again\nhost d all all trust\n", NULL);
	REQUIRE(hba);
	CHECK_INT(line_for(hba, "10.0.0.1", "a", "u"), 1);
	CHECK_INT(line_for(hba, "10.0.0.1", "b", "u"), 1);
	CHECK_INT(line_for(hba, "10.0.0.1", "c", "u"), -2);
	CHECK_INT(line_for(hba, "10.0.0.1", "d", "u"), 3);
	REQUIRE(problems.errors == 2);
	CHECK_TEXT(problems.items[0].file, temp_path("inner"));
	CHECK_INT(problems.items[0].line, 2);
	hba_drop(&hba);
}

TEST(include_if_exists)
{
	CHECK_INT(line_in("include_if_exists nosuch\nhost all all all trust\n", "10.0.0.1", "d", "u"), 2);
	CHECK_INT(problems.count, 0);
	temp_write("inner", "host all all all trust\n");
	CHECK_INT(line_in("include_if_exists inner\nhost x all all trust\n", "10.0.0.1", "d", "u"), 1);
	CHECK(is_refused("include nosuch", "No such file"));
	/* the path exists but is not a file */
	CHECK(is_refused("include_if_exists /", "no regular file"));
}

TEST(include_dir)
{
	char directory[200];

	snprintf(directory, sizeof(directory), "%s", temp_path("rules.d"));
	REQUIRE(mkdir(directory, 0700) == 0);
	temp_write("rules.d/b.conf", "host all all all md5\n");
	temp_write("rules.d/a.conf", "\nhost x all all md5\n");
	temp_write("rules.d/B.conf", "\n\nhost x all all md5\n");
	temp_write("rules.d/.hidden.conf", "host x all all trust\n");
	temp_write("rules.d/a.conf~", "host x all all trust\n");
	temp_write("rules.d/.conf", "host x all all trust\n");
	CHECK_INT(line_in("include_dir rules.d\n", "10.0.0.1", "x", "u"), 3);
	CHECK_INT(line_in("include_dir rules.d/\n", "10.0.0.1", "y", "u"), 1);
	CHECK_INT(problems.count, 0);
	CHECK(is_refused("include_dir nosuch.d", "No such file"));
	for (size_t i = 0; i < 6; i++) {
		static const char *const names[] = { "b.conf", "a.conf", "B.conf", ".hidden.conf", "a.conf~", ".conf" };
		char path[256];

		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		unlink(path);
	}
	CHECK_INT(rmdir(directory), 0);
}

TEST(include_needs_one_name)
{
	CHECK(is_refused("include", "name of one file"));
	CHECK(is_refused("include a b", "name of one file"));
	CHECK(is_refused("include a \"b", "not closed"));
	CHECK(is_refused("include_dir \"\"", "name of one file"));
	CHECK(is_refused("\"include\" a", "no kind of connection"));
	CHECK(is_refused("includes a", "no kind of connection"));
}

TEST(lists_from_files)
{
	temp_write("names", "alice, bob\n# nobody\n\n\"c d\" @more\n");
	temp_write("more", "/^app_[0-9]$\nall_of_us");
	for (const char *const *name = (const char *const[]){ "alice", "bob", "c d", "app_1", "all_of_us", "x", NULL }; *name; name++) {
		CHECK_INT(line_in("host all @names,x all trust\n", "10.0.0.1", "d", *name), 1);
		CHECK_INT(line_in("host x,@names all all trust\n", "10.0.0.1", *name, "u"), 1);
	}
	CHECK_INT(line_in("host all @names all trust\n", "10.0.0.1", "d", "nobody"), 0);
	CHECK_INT(line_in("host all \"@names\" all trust\n", "10.0.0.1", "d", "alice"), 0);
	CHECK_INT(line_in("host all \"@names\" all trust\n", "10.0.0.1", "d", "@names"), 1);
	CHECK_INT(line_in("host @ all all trust\n", "10.0.0.1", "@", "u"), 1);
	CHECK(is_refused("host all @nosuch all trust", "No such file"));
	temp_write("names", "# nobody\n");
	CHECK(is_refused("host all @names all trust", "a list is empty"));
	temp_write("names", "x\n\"y\n");
	CHECK_INT(line_in("host all @names all trust\n", "10.0.0.1", "d", "z"), -1);
	CHECK_INT(problems.errors, 2);
	CHECK_INT(problems.items[0].line, 2);
	CHECK(strstr(problems.items[1].text, "fault in line 2"));
}

/* Matching against the list of 10,000 names costs no more than against a short list. */
TEST(long_lists)
{
	char *text = mem_must(200000);
	struct hba *hba;
	size_t used = 0;

	for (int i = 0; i < 10000; i++)
		used += (size_t)sprintf(text + used, "user%d\n", i);
	temp_write_bytes("names", text, used);
	hba = rules("host all @names all trust\n", NULL);
	REQUIRE(hba);
	CHECK_INT(line_for(hba, "10.0.0.1", "d", "user0"), 1);
	CHECK_INT(line_for(hba, "10.0.0.1", "d", "user9999"), 1);
	CHECK_INT(line_for(hba, "10.0.0.1", "d", "user10000"), 0);
	hba_drop(&hba);
	mem_free(text);
}

TEST(recursive_includes_end)
{
	struct hba *hba = rules("include hba\nhost all all all trust\n", NULL);

	REQUIRE(hba);
	CHECK_INT(problems.errors, 1);
	CHECK(strstr(problems.items[0].text, "too deeply"));
	CHECK_INT(line_for(hba, "10.0.0.1", "d", "u"), -1);
	hba_drop(&hba);
	temp_write("names", "@names @names");
	CHECK_INT(line_in("host all @names all trust\n", "10.0.0.1", "d", "u"), -1);
	CHECK(problems.errors > 0);
	/* without the limit there would be four million files */
	temp_write("fan", "include fan\ninclude fan\ninclude fan\ninclude fan\n");
	CHECK_INT(line_in("include fan\n", "10.0.0.1", "d", "u"), -1);
	/* the list of problems is full */
	CHECK_INT(problems.errors, 500);
}

TEST(file_size_is_limited)
{
	const size_t size = 5 << 20;
	char *text = mem_must(size);

	memset(text, ' ', size);
	temp_write_bytes("blank", text, size);
	mem_free(text);
	CHECK_INT(line_in("include blank\ninclude blank\ninclude blank\nhost all all all md5\n", "10.0.0.1", "d", "u"), 4);
	CHECK_INT(problems.count, 0);
	CHECK_INT(line_in("include blank\ninclude blank\ninclude blank\ninclude blank\n"
			  "host all all all md5\n", "10.0.0.1", "d", "u"), -4);
	CHECK_INT(problems.errors, 1);
	CHECK_INT(problems.items[0].line, 4);
	CHECK(strstr(problems.items[0].text, "16 MiB together"));
}

TEST(long_lines)
{
	const size_t size = 3 << 20;
	char *text = mem_must(size + 100);
	size_t used = (size_t)sprintf(text, "host ");
	struct hba *hba;

	while (used < size)
		used += (size_t)sprintf(text + used, "d%zu,\\\n", used);
	sprintf(text + used, "last all all trust\n");
	hba = rules(text, NULL);
	REQUIRE(hba);
	CHECK_INT(problems.count, 0);
	CHECK_INT(line_for(hba, "10.0.0.1", "last", "u"), 1);
	CHECK_INT(line_for(hba, "10.0.0.1", "d5", "u"), 1);
	hba_drop(&hba);
	memset(text + 5, 'x', size);
	hba = rules(text, NULL);
	REQUIRE(hba);
	hba_drop(&hba);
	mem_free(text);
}

TEST(nul_bytes_are_an_error)
{
	static const char text[] = "host all all all trust\0 reject\nhost \0\nhost all all all md5\n";
	struct hba *hba;

	conf_problems_free(&problems);
	hba = hba_read(temp_write_bytes("hba", text, sizeof(text) - 1), NULL, HBA_TLS_ON, NULL, &problems);
	REQUIRE(hba);
	CHECK_INT(problems.errors, 2);
	CHECK(strstr(problems.items[0].text, "NUL"));
	CHECK_INT(line_for(hba, "10.0.0.1", "d", "u"), -1);
	CHECK_INT(line_for(hba, "unix", "d", "u"), -1);
	hba_drop(&hba);
}

TEST(joined_lines)
{
	/* of two backslashes, only the last joins lines; an empty line ends the joining */
	CHECK_INT(line_in("host a\\\\\n all all trust\n", "10.0.0.1", "a\\", "u"), 1);
	CHECK_INT(line_in("host a\\\\\n\nlocal b all trust\n", "unix", "b", "u"), 3);
	CHECK_INT(line_in("\\\n\\\nhost b all all trust\n", "10.0.0.1", "b", "u"), 1);
	CHECK_INT(line_in("host b all al\\\nl trust\n", "10.0.0.1", "b", "u"), 1);
	CHECK_INT(line_in("host b all all trust \\\n# x\\\nhost c all all trust\nhost d all all trust", "10.0.0.1", "d", "u"), 4);
}

TEST(problems_do_not_repeat_passwords)
{
	struct hba *hba = rules("host all all all ldap ldapserver=l ldapbindpasswd=s3cret ldapbasedn\n"
				"host all all all md5 ldapbindpasswd=s3cret\n", NULL);

	REQUIRE(hba);
	CHECK_INT(problems.errors, 2);
	for (size_t i = 0; i < problems.count; i++)
		CHECK(!strstr(problems.items[i].text, "s3cret"));
	hba_drop(&hba);
}

/* For any content of the files, reading ends and the rules can be queried and freed. */
TEST(random_files)
{
	static const char *const pieces[] = {
		"host", "local", "hostssl", "hostgssenc", "include ", "include_dir ", "include_if_exists ", "@", "names", "all", "replication",
		"/", "/(", "\"", "\"\"", ",", ", ", " ", "\t", "\n", "\n", "\r\n", "\\", "\\\n", "#", "=", "10.0.0.0", "/8", " ::/0 ",
		"255.0.0.0", "trust", " md5\n", "cert map=", "ldap ldapserver=x ldapurl=", "clientcert=", "+", "\\1", "m", "\xff", "hba",
	};
	const size_t count = sizeof(pieces) / sizeof(pieces[0]);
	struct hba_client c = client_of("tls 10.0.0.1", "all", "names");
	char text[2][2048];

	srandom(20261121);
	temp_write("names", "a @names");
	for (int turn = 0; turn < 3000; turn++) {
		size_t used[2] = { 0, 0 };
		struct hba *hba;

		for (int f = 0; f < 2; f++) {
			for (long n = random() % 80; n > 0 && used[f] < 2000; n--) {
				const char *piece = pieces[(size_t)random() % count];

				memcpy(text[f] + used[f], piece, strlen(piece) + 1);
				used[f] += strlen(piece);
			}
			/* some bytes are changed to random values, NUL included */
			for (long n = random() % 4; n > 1 && used[f] > 0; n--)
				text[f][(size_t)random() % used[f]] = (char)random();
		}
		conf_problems_free(&problems);
		hba = hba_read(temp_write_bytes("hba", text[0], used[0]), temp_write_bytes("ident", text[1], used[1]),
			       turn % 2 ? HBA_TLS_ON : HBA_TLS_OFF, NULL, &problems);
		REQUIRE(hba);
		hba_find(hba, &c);
		hba_map_allows(hba, "m", "names", "all");
		hba_drop(&hba);
	}
	conf_problems_free(&problems);
}

UNIT_MAIN
