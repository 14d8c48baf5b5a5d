"""
doc/compatibility.md: each setting, column and command of PgBouncer 1.25, and the test that proves it here.

python3 test/support/compatibility.py >doc/compatibility.md

PgBouncer's settings and columns are in pgbouncer_settings.tsv beside this file, in test/unit/admin/show_columns.h and in COMMANDS; pgweir's settings
are read from include/tbl/settings.tbl. The test of a setting is the test with its name (test_SETTING...), or its entry in PROOFS. A row without a
test says "open", which test/test_compatibility.py refuses.
"""
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[2]

# Tests with names that say what happens rather than which setting does it. "database" rows are keys of [databases].
PROOFS = {
    "admin_users": "live/test_login_client.py::test_console_requires_the_password_and_a_listed_name",
    "stats_users": "live/test_login_client.py::test_console_requires_the_password_and_a_listed_name",
    "auth_dbname": "live/test_auth_query.py::test_console_login_uses_auth_dbname",
    "auth_file": "live/test_login_client.py::test_user_list_is_read_again_at_reload",
    "auth_hba_file": "live/test_hba.py::test_reload_with_an_invalid_line_keeps_the_old_rules",
    "auth_ident_file": "live/test_hba_postgres.py::test_the_same_map_as_postgres",
    "auth_ldap_options": "live/test_auth_ldap.py::test_verified_password_is_used_for_the_server",
    "auth_query": "live/test_auth_query.py::test_settings_of_the_database",
    "auth_type": "live/test_packaging.py::test_debian_package_with_the_binary_swapped",
    "cancel_wait_timeout": "wire/test_cancel.py::test_trap_15_queued_cancel_requests_expire",
    "client_tls13_ciphers": "live/test_tls_client.py::test_suites_of_tls_1_3",
    "client_tls_ca_file": "wire/test_direct_tls.py::test_client_certificate_is_required_with_direct_tls",
    "client_tls_cert_file": "live/test_tls_client.py::test_reload_reads_changed_files",
    "client_tls_ciphers": "live/test_tls_client.py::test_ciphers_of_tls_1_2",
    "client_tls_dheparams": "live/test_tls_client.py::test_dheparams",
    "client_tls_ecdhcurve": "live/test_tls_client.py::test_curve",
    "client_tls_key_file": "live/test_tls_client.py::test_reload_reads_changed_files",
    "client_tls_protocols": "live/test_tls_client.py::test_protocols",
    "client_tls_sslmode": "live/test_tls_client.py::test_reload_turns_tls_on_and_off",
    "conffile": "live/test_service_signals.py::test_reload_reads_the_file_that_conffile_names",
    "disable_pqexec": "wire/test_queries.py::test_pqexec_may_be_disallowed",
    "dns_max_ttl": "wire/test_dns.py::test_answer_is_cached_for_its_lifetime",
    "dns_zone_check_period": "wire/test_dns.py::test_increased_zone_serial_refreshes_its_names",
    "idle_transaction_timeout": "live/test_settings_timeouts.py::test_global",
    "query_timeout": "live/test_settings_timeouts.py::test_global",
    "listen_addr": "live/test_settings_listen.py::test_several_addresses",
    "listen_port": "live/test_settings_listen.py::test_so_reuseport",
    "max_prepared_statements": "live/test_prepared_drivers.py::test_statements_per_server_are_limited",
    "peer_id": "wire/test_cancel.py::test_trap_21_cancel_at_the_wrong_peer",
    "pkt_buf": "live/test_settings_listen.py::test_buffer_settings_change_no_answer",
    "pool_mode": "live/test_modes_drivers.py::test_psycopg3_transactions",
    "reserve_pool_size": "live/test_settings_sizes.py::test_reserve_pool",
    "resolv_conf": "wire/test_dns.py::test_silent_name_server_does_not_delay_other_clients",
    "sbuf_loopcnt": "live/test_settings_listen.py::test_buffer_settings_change_no_answer",
    "server_round_robin": "live/test_settings_queue.py::test_round_robin",
    "server_tls13_ciphers": "live/test_tls_server.py::test_protocols_and_ciphers",
    "server_tls_ca_file": "live/test_tls_server.py::test_sslmode_with_a_server_that_has_tls",
    "server_tls_cert_file": "live/test_tls_server.py::test_own_certificate",
    "server_tls_ciphers": "live/test_tls_server.py::test_protocols_and_ciphers",
    "server_tls_key_file": "live/test_tls_server.py::test_own_certificate",
    "server_tls_protocols": "live/test_tls_server.py::test_protocols_and_ciphers",
    "server_tls_sslmode": "live/test_tls_server.py::test_sslmode_with_a_server_that_has_tls",
    "syslog_facility": "live/test_settings_syslog.py::test_syslog_facility",
    "tcp_keepalive": "live/test_settings_sockets.py::test_option_is_set",
    "tcp_keepcnt": "live/test_settings_sockets.py::test_option_is_set",
    "tcp_keepidle": "live/test_settings_sockets.py::test_option_is_set",
    "tcp_keepintvl": "live/test_settings_sockets.py::test_option_is_set",
    "tcp_user_timeout": "live/test_settings_sockets.py::test_option_is_set",
    "unix_socket_dir": "live/test_settings_listen.py::test_abstract_unix_socket",
    "user": "live/test_service_command.py::test_user_that_does_not_exist",
    "database user": "live/test_settings_databases.py::test_forced_user_has_one_pool_for_all",
    "database password": "live/test_login_server.py::test_with_the_password_of_the_database_entry",
    "database connect_query": "live/test_settings_databases.py::test_connect_query_runs_once_after_a_server_login",
    "database dbname": "live/test_packaging.py::test_debian_package_with_the_binary_swapped",
    "database host": "wire/test_hosts.py::test_list_of_names",
    "database port": "live/test_packaging.py::test_debian_package_with_the_binary_swapped",
    "database client_encoding": "live/test_settings_databases.py::test_parameters_of_a_database",
    "database datestyle": "live/test_settings_databases.py::test_parameters_of_a_database",
    "database timezone": "live/test_settings_databases.py::test_parameters_of_a_database",
    "database application_name": "live/test_settings_databases.py::test_parameters_of_a_database",
}

COLUMNS = "unit/admin/test_show.c::columns_match_the_published_interface"

COMMANDS = (
    ("PAUSE [db]", "verbs.c::pause_waits_for_servers"), ("RESUME [db]", "verbs.c::resume_of_another_client_ends_a_pause"),
    ("SUSPEND", "verbs.c::suspend_waits_until_output_is_flushed"), ("DISABLE db", "verbs.c::refusals_about_databases"),
    ("ENABLE db", "verbs.c::refusals_about_databases"), ("RECONNECT [db]", "verbs.c::reconnect_and_wait_close"),
    ("KILL [db]", "verbs.c::kill"), ("KILL_CLIENT id", "verbs.c::kill_client"),
    ("WAIT_CLOSE [db]", "verbs.c::reconnect_and_wait_close"), ("RELOAD", "verbs.c::reload"),
    ("SET name = value", "verbs.c::set"), ("SHUTDOWN [WAIT_FOR_SERVERS, WAIT_FOR_CLIENTS]", "verbs.c::shutdown"),
)


def tests():
    """All that may prove something, as FILE::NAME below test/."""
    found = []
    for path in sorted(TOP.glob("test/live/test_*.py")) + sorted(TOP.glob("test/wire/test_*.py")):
        names = re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
        found += ["%s/%s::%s" % (path.parent.name, path.name, name) for name in names]
    for path in sorted(TOP.glob("test/unit/admin/test_*.c")):
        names = re.findall(r"^TEST\((\w+)\)", path.read_text(encoding="utf-8"), re.M)
        found += ["unit/admin/%s::%s" % (path.name, name) for name in names]
    return found


def proof(name, is_key, known):
    """The test of a setting, or None."""
    given = PROOFS.get("database " + name) if is_key else PROOFS.get(name)
    if given:
        return given if given in known else None
    pattern = re.compile(r"::test_%s(_|$)" % name)
    named = [test for test in known if pattern.search(test)] or \
        [test for test in known if re.search(r"::test_\w*_%s(_|$)" % name, test) and len(name) > 10]
    named.sort(key=lambda test: (not test.startswith("live/test_settings"), len(test)))
    return named[0] if named else None


def rows():
    """(setting, scope, default there, default here, test) of each row of pgbouncer_settings.tsv."""
    known = tests()
    table = (TOP / "include/tbl/settings.tbl").read_text(encoding="utf-8")
    ours = dict(re.findall(r'^SETTING\((\w+), \w+,\s*((?:"[^"]*"\s*)+),', table, re.M))
    facts = (TOP / "test/support/pgbouncer_settings.tsv").read_text(encoding="utf-8").splitlines()[1:]
    for line in facts:
        name, _, scope, default, *_ = line.split("\t")
        is_key = scope in ("database", "database,peer", "database,user,peer")
        here = "".join(re.findall(r'"([^"]*)"', ours.get(name, ""))) if not is_key else default
        yield name, scope, default, here, proof(name, is_key, known)


def code(text):
    return "`%s`" % text if text else ""


def by_test(pairs):
    """Items of a list: each test with the names that it proves, in the order of their first names; "open" for names without a test."""
    names = {}
    for name, test in pairs:
        names.setdefault(test or "open", []).append(name)
    return ["- %s: %s" % (", ".join(proven), "open" if test == "open" else code(test)) for test, proven in names.items()]


def document():
    known = tests()
    settings = []
    for name, scope, default, here, test in rows():
        key = "database" in scope and "global" not in scope
        settings.append((code(name) + (" (key)" if key else "") + (" (another default)" if default != here else ""), test))
    header = (TOP / "test/unit/admin/show_columns.h").read_text(encoding="utf-8")
    shows = re.findall(r'\{ "(SHOW \w+)",', header)
    lines = [
        "# Compatibility with PgBouncer 1.25", "",
        "Written by `test/support/compatibility.py` from the tables of settings and columns and from the tests. Each test below `test/` fails",
        "without the settings, columns or commands of its line. `doc/differences.md` has the intended differences, `man 5 pgweir` scope and",
        "default of each setting, `doc/show.md` the columns. A key is set in `[databases]`, `[users]` or `[peers]` only.", "",
        "## Settings", "", *by_test(settings), "", "## Columns", "",
        *by_test((code(command), COLUMNS if COLUMNS in known else None) for command in shows),
        "", "## Commands", "",
        *by_test((code(command), test if test in known else None) for command, test in
                 ((command, "unit/admin/test_" + test) for command, test in COMMANDS))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
