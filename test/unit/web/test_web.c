/* The endpoint in a whole pgweir: answers, parts, rights, and memory that runs out. */
#include "whole.h"
#include "unit.h"
#include "web/connection.h"

#include "base/mem.h"
#include "conf/conf.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NAME "@pgweir-unit-web"
#define INI WHOLE_INI("", "http_unix_socket=" NAME "\nadmin_users=boss\nmetrics_max_pools=2\n")

static struct web *web;
static char answer[400000];
static size_t size;

static void start(const char *ini)
{
	struct conf_problems problems = { .count = 0 };

	whole_open(ini);
	web = web_open(whole.world, "version", NULL, false, &problems);
	CHECK(web != NULL);
	conf_problems_free(&problems);
}

static void end(void)
{
	web_free(&web);
	whole_close();
}

static int connect_to(void)
{
	struct address a;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	/* the tick, which is a timer of the real clock, would set it */
	web->accepts_left = 100;
	CHECK(address_from_unix_name(&a, NAME));
	CHECK_INT(connect(fd, &a.u.any, a.size), 0);
	return fd;
}

/* Runs turns with work, without the pauses of a real clock. */
static void settle(void)
{
	for (int i = 0; i < 20; i++) {
		web->work_at = 0;
		event_active(&web->work, EV_TIMEOUT, 0);
		house_settle(&whole);
	}
}

/* Runs turns, and reads the answer. Returns whether the connection has ended. */
static bool receive(int fd)
{
	bool is_over = false;

	size = 0;
	for (int quiet = 0; quiet < 5 && !is_over;) {
		ssize_t got;

		settle();
		got = recv(fd, answer + size, sizeof(answer) - 1 - size, 0);
		quiet = got > 0 ? 0 : quiet + 1;
		size += got > 0 ? (size_t)got : 0;
		is_over = got == 0 || (got < 0 && errno != EAGAIN);
	}
	answer[size] = '\0';
	return is_over;
}

static void say(int fd, const char *text)
{
	CHECK_INT(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* The answer to one request, or "" for a connection that was closed. */
static const char *ask(const char *request)
{
	int fd = connect_to();

	say(fd, request);
	receive(fd);
	close(fd);
	settle();
	return answer;
}

static const char *get(const char *target)
{
	char request[300];

	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", target);
	return ask(request);
}

static const char *body(const char *text)
{
	const char *at = strstr(text, "\r\n\r\n");

	return at ? at + 4 : "";
}

TEST(simple_answers)
{
	start(INI);
	CHECK_TEXT(body(get("/healthz")), "ok\n");
	CHECK_TEXT(body(get("/readyz")), "ready\n");
	CHECK_TEXT(body(get("/readyz?db=d")), "ready\n");
	CHECK_TEXT(body(get("/readyz?db=x")), "no such database\n");
	CHECK(strstr(get("/api/x"), "404 Not Found"));
	CHECK(strstr(get("/x"), "404 Not Found"));
	/* the user of the process is an administrator on the Unix socket */
	CHECK(strstr(get("/api/you"), "{\"user\":\"\",\"admin\":true,\"version\":\"version\",\"name\":\""));
	CHECK(strstr(answer, ":6432\",\"peer\":0,\"uptime\":0"));
	CHECK(strstr(get("/api/"), "\"fds\""));
	CHECK_TEXT(body(get("/api/version")), "[{\"version\":\"version\"}]\n");
	CHECK(strstr(get("/"), "<!doctype html>"));
	end();
}

TEST(rows_of_show)
{
	struct house_end *client;
	char *row;

	start(INI);
	CHECK(whole_login(&client) != NULL);
	whole_ask(client, "SELECT 1");
	row = strstr(get("/api/pools"), "{\"database\":\"d\",\"user\":\"u\",\"cl_active\":1,\"cl_waiting\":0,");
	CHECK(row && strstr(row, "\"pool_mode\":\"transaction\",") && strstr(row, "\"held_by\":null,"));
	get("/api/state,history,pools");
	CHECK(strstr(answer, "Transfer-Encoding: chunked") && strstr(answer, "{\"state\":[{\"key\":\"active\",\"value\":\"yes\"},"));
	CHECK(strstr(answer, "\"history\":[[\"time\","));
	CHECK(size > 5 && strcmp(answer + size - 5, "0\r\n\r\n") == 0);
	end();
}

static void add_samples(uint64_t from, uint64_t to)
{
	for (uint64_t second = from; second < to; second++)
		histories_add(&web->histories, whole.world->pools, (usec_t)second * USEC, (usec_t)second * USEC);
	CHECK_INT(web->histories.due, to * USEC);
}

/* Handles one step of the requests. */
static void work_once(void)
{
	web->work_at = clock_monotonic() + 1000 * USEC;
	event_active(&web->work, EV_TIMEOUT, 0);
	house_settle(&whole);
}

#define COLUMNS "[[\"time\",\"clients\",\"waiting\",\"active\",\"idle\",\"opening\",\"pinned\",\"query_p50\",\"query_p99\",\"transaction_p50\"," \
	"\"transaction_p99\",\"wait_p50\",\"wait_p99\",\"queries\",\"transactions\",\"logins\",\"closes\",\"received\",\"sent\"]"
#define ZEROS ",0,0,0,0,0,0,null,null,null,null,null,null,0,0,0,0,0,0]"

TEST(the_history_keeps_an_hour)
{
	int fd;

	start(INI);
	/* the tick, which is a timer of the real clock, would add samples */
	event_del(&web->tick);
	histories_free(&web->histories, whole.world->pools);
	add_samples(1000, 1003);
	CHECK_TEXT(body(get("/api/history")), COLUMNS ",\n[1000" ZEROS ",\n[1001" ZEROS ",\n[1002" ZEROS "]\n");
	CHECK_TEXT(body(get("/api/history?since=1001")), COLUMNS ",\n[1002" ZEROS "]\n");
	CHECK_TEXT(body(get("/api/history?since=5000")), COLUMNS "]\n");
	add_samples(1003, 1000 + HISTORY_SECONDS + 100);
	/* the oldest samples are gone */
	get("/api/history");
	CHECK(strstr(answer, COLUMNS ",\n[1100,") && strstr(answer, "\n[4699" ZEROS "]\n") && !strstr(answer, "[1099,"));
	/* samples that are gone when their part is made are missing in the answer */
	fd = connect_to();
	say(fd, "GET /api/history HTTP/1.1\r\nHost: a\r\n\r\n");
	house_settle(&whole);
	work_once();
	add_samples(4700, 5700);
	receive(fd);
	CHECK(strstr(answer, "[1299" ZEROS) && strstr(answer, "\n[2100,") && !strstr(answer, "[1300,"));
	CHECK(strstr(answer, "\n[5699" ZEROS "]\n"));
	close(fd);
	end();
}

TEST(without_memory_there_are_no_samples)
{
	start(INI);
	event_del(&web->tick);
	histories_free(&web->histories, whole.world->pools);
	whole_memory_ends(0);
	add_samples(1, 2);
	CHECK_INT(whole_memory_is_back(), 2);
	CHECK_TEXT(body(get("/api/history")), COLUMNS "]\n");
	add_samples(2, 3);
	CHECK_TEXT(body(get("/api/history")), COLUMNS ",\n[2" ZEROS "]\n");
	end();
}

TEST(metrics)
{
	struct house_end *client;

	start(INI);
	CHECK(whole_login(&client) != NULL);
	whole_ask(client, "SELECT 1");
	get("/metrics");
	CHECK(strstr(answer, "\npgbouncer_up 1\n") || strstr(answer, "pgbouncer_up 1\n"));
	CHECK(strstr(answer, "\npgbouncer_pools_client_active_connections{database=\"d\",user=\"u\"} 1\n"));
	CHECK(strstr(answer, "\n# TYPE pgbouncer_stats_queries_pooled_total counter\npgbouncer_stats_queries_pooled_total{database=\"d\"} 1\n"));
	CHECK(strstr(answer, "\npgbouncer_used_servers 1\n"));
	ask("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text\r\n\r\n");
	CHECK(strstr(answer, "\n# TYPE pgbouncer_stats_queries_pooled counter\npgbouncer_stats_queries_pooled_total{database=\"d\"} 1\n"));
	CHECK(strstr(answer, "# EOF\n"));
	/* HTTP/1.0 has no chunks: the end of the connection ends the answer */
	ask("GET /metrics HTTP/1.0\r\n\r\n");
	CHECK(!strstr(answer, "chunked") && strstr(answer, "Connection: close") && answer[size - 1] == '\n');
	end();
}

TEST(commands)
{
	start(INI);
	CHECK(strstr(ask("POST /api/pause?db=d HTTP/1.1\r\nHost: a\r\n\r\n"), "403 Forbidden"));
	CHECK(strstr(ask("POST /api/pause?db=d HTTP/1.1\r\nHost: a\r\nX-Pgweir: 1\r\nOrigin: http://b\r\n\r\n"), "403 Forbidden"));
	CHECK(strstr(ask("POST /api/pause?db=d HTTP/1.1\r\nHost: a\r\nX-Pgweir: 1\r\n\r\n"), "200 OK"));
	CHECK_TEXT(body(get("/readyz?db=d")), "the database is paused\n");
	CHECK(strstr(ask("POST /api/pause?db=d HTTP/1.1\r\nHost: a\r\nX-Pgweir: 1\r\n\r\n"), "409 Conflict"));
	CHECK(strstr(ask("POST /api/resume?db=d HTTP/1.1\r\nHost: a\r\nX-Pgweir: 1\r\n\r\n"), "200 OK"));
	CHECK(strstr(ask("POST /api/reconnect HTTP/1.1\r\nHost: a\r\nX-Pgweir: 1\r\n\r\n"), "200 OK"));
	CHECK(strstr(ask("POST /api/resume HTTP/1.1\r\nHost: a\r\nX-Pgweir: 1\r\n\r\n"), "409 Conflict"));
	CHECK(strstr(ask("GET /api/pause HTTP/1.1\r\nHost: a\r\n\r\n"), "405 Method"));
	end();
}

TEST(several_requests_on_a_connection)
{
	int fd;

	start(INI);
	fd = connect_to();
	say(fd, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /readyz HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP");
	CHECK(!receive(fd));
	CHECK(strstr(answer, "\r\n\r\nok\n") && strstr(answer, "\r\n\r\nready\n"));
	CHECK(size > 4 && strcmp(answer + size - 4, "\r\n\r\n") == 0);
	say(fd, "/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	CHECK(receive(fd));
	CHECK(strstr(answer, "<!doctype html>"));
	close(fd);
	settle();
	CHECK_INT(web->count, 0);
	end();
}

TEST(without_sockets_the_endpoint_is_off)
{
	struct conf_problems problems = { .count = 0 };
	struct conf *next;
	int fd;

	start(INI);
	fd = connect_to();
	house_settle(&whole);
	CHECK_INT(web->count, 1);
	next = conf_with(whole.world->conf, "http_unix_socket", "", &problems);
	CHECK(web_prepare(web, next, &problems));
	web_decide(web, true);
	CHECK_INT(web->count, 0);
	CHECK_INT(web->socket_count, 0);
	/* a configuration that is not used */
	CHECK(web_prepare(web, whole.world->conf, &problems));
	CHECK_INT(web->next_count, 1);
	web_decide(web, false);
	CHECK_INT(web->socket_count, 0);
	conf_drop(&next);
	conf_problems_free(&problems);
	close(fd);
	end();
}

/* At each allocation, memory runs out once: the request gets an answer, which may be cut, or its connection ends. */
static void run_out(const char *request)
{
	bool is_complete = false;

	for (int more = 0; more < 2000 && !is_complete; more++) {
		int fd = connect_to(), failed;

		house_settle(&whole);
		say(fd, request);
		whole_memory_ends(more);
		receive(fd);
		failed = whole_memory_is_back();
		close(fd);
		settle();
		is_complete = failed == 0;
		if (is_complete)
			CHECK(strstr(answer, "200 OK"));
	}
	CHECK(is_complete);
}

TEST(memory_runs_out)
{
	struct house_end *client;

	start(INI);
	CHECK(whole_login(&client) != NULL);
	run_out("GET /api/pools,state,history HTTP/1.1\r\nHost: a\r\n\r\n");
	run_out("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
	run_out("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	run_out("POST /api/reconnect?db=d HTTP/1.1\r\nHost: a\r\nX-Pgweir: 1\r\n\r\n");
	CHECK_INT(web->count, 0);
	end();
}

UNIT_MAIN
