/*
 * pgjdbc: the extended protocol; it prepares under a name what it has run five times, in variant cache at once, with the
 * texts of plain statements too, and keeps only few of them. ../python/check.py describes the environment and the lines
 * that are printed.
 */
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

public class WithPgjdbc {
	static final int WORKERS = 100, ROUNDS = 5, LARGE = 10 * 1000 * 1000;
	static final String SLEEP = "SELECT pg_sleep(3600)";
	static final String TERMINATE = "SELECT pg_terminate_backend(pg_backend_pid())";
	static final String RUNNING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
		+ "starts_with(query, 'SELECT pg_sleep(3600)') AND state = 'active' AND wait_event = 'PgSleep'";

	interface Work {
		void run() throws Exception;
	}

	// --- what the checks are made of

	static String env(String name) {
		return System.getenv(name);
	}

	static boolean isCache() {
		return "cache".equals(env("DRIVER_VARIANT"));
	}

	static Connection connect() throws SQLException {
		Properties given = new Properties();
		given.setProperty("user", env("PGUSER"));
		given.setProperty("password", env("PGPASSWORD"));
		given.setProperty("sslmode", env("PGSSLMODE"));
		if (!"disable".equals(env("PGSSLMODE")))
			given.setProperty("sslrootcert", env("PGSSLROOTCERT"));
		if (isCache()) {
			given.setProperty("prepareThreshold", "1");
			given.setProperty("preferQueryMode", "extendedCacheEverything");
			given.setProperty("preparedStatementCacheQueries", "5");
		}
		return DriverManager.getConnection(
			"jdbc:postgresql://" + env("PGHOST") + ":" + env("PGPORT") + "/" + env("PGDATABASE"), given);
	}

	static void exec(Connection c, String sql, Object... values) throws SQLException {
		try (PreparedStatement s = c.prepareStatement(sql)) {
			for (int n = 0; n < values.length; n++)
				s.setObject(n + 1, values[n]);
			s.execute();
		}
	}

	/** The first column of the first row. */
	static Object ask(Connection c, String sql, Object... values) throws SQLException {
		try (PreparedStatement s = c.prepareStatement(sql)) {
			for (int n = 0; n < values.length; n++)
				s.setObject(n + 1, values[n]);
			try (ResultSet rows = s.executeQuery()) {
				rows.next();
				return rows.getObject(1);
			}
		}
	}

	static void that(boolean isSo, String what) {
		if (!isSo)
			throw new IllegalStateException(what);
	}

	static void same(Object got, Object want) {
		that(want.equals(got), got + " instead of " + want);
	}

	static String code(Throwable error) {
		return error instanceof SQLException && ((SQLException) error).getSQLState() != null
			? ((SQLException) error).getSQLState() : "-----";
	}

	/** The work has to fail, with this code unless it is null. */
	static void expect(String code, Work work) {
		try {
			work.run();
		} catch (Exception error) {
			that(code == null || code.equals(code(error)), error + " instead of " + code);
			return;
		}
		throw new IllegalStateException("no error, where there should be " + code);
	}

	/** Another client takes the server that was released last. */
	static void swap(Connection rival) throws SQLException {
		rival.setAutoCommit(false);
		ask(rival, "SELECT 1");
	}

	static void waitFor(Callable<Boolean> isSo) throws Exception {
		while (!isSo.call())
			Thread.sleep(10);
	}

	// --- the checks

	static void open() throws Exception {
		try (Connection c = connect()) {
			same(ask(c, "SELECT current_user::text"), env("PGUSER"));
			same(ask(c, "SELECT current_database()::text"), env("PGDATABASE"));
		}
	}

	static void types() throws Exception {
		Object[] values = { 9007199254740993L, -1.5, "häßlich, it's ☃", true, new BigDecimal("123.450"),
			UUID.fromString("0b7f55cd-9d5a-4c5c-8d38-2a1f0d3ff1a5") };
		String[] kinds = { "int8", "float8", "text", "bool", "numeric", "uuid" };
		try (Connection c = connect()) {
			// more turns than it takes until the driver changes over to binary
			for (int turn = 0; turn < 7; turn++) {
				for (int n = 0; n < values.length; n++)
					same(ask(c, "SELECT ?::" + kinds[n], values[n]), values[n]);
				that(ask(c, "SELECT ?::text", (Object) null) == null, "not null");
				byte[] raw = { 0, 1, -2, -1 };
				that(Arrays.equals((byte[]) ask(c, "SELECT ?::bytea", (Object) raw), raw), "other bytes");
				OffsetDateTime when = OffsetDateTime.parse("2026-11-21T02:01:23.820Z");
				try (PreparedStatement s = c.prepareStatement("SELECT ?::timestamptz, ?::int4[]")) {
					s.setObject(1, when);
					s.setArray(2, c.createArrayOf("int4", new Integer[] { 1, 2, -3 }));
					try (ResultSet rows = s.executeQuery()) {
						rows.next();
						same(rows.getObject(1, OffsetDateTime.class).toInstant(), when.toInstant());
						that(Arrays.equals((Integer[]) rows.getArray(2).getArray(), new Integer[] { 1, 2, -3 }), "array");
					}
				}
			}
		}
	}

	static void transaction() throws Exception {
		String insert = "INSERT INTO drive VALUES (?, 'transaction')";
		try (Connection c = connect()) {
			c.setAutoCommit(false);
			exec(c, insert, 1);
			c.rollback();
			exec(c, insert, 2);
			Savepoint here = c.setSavepoint();
			exec(c, insert, 3);
			c.rollback(here);
			c.commit();
			same(ask(c, "SELECT count(*) FROM drive WHERE t = 'transaction'"), 1L);
			c.commit();
		}
	}

	static void error() throws Exception {
		String insert = "INSERT INTO drive VALUES (?, 'error')";
		try (Connection c = connect()) {
			exec(c, insert, 4);
			expect("23505", () -> exec(c, insert, 4));
			expect("42601", () -> exec(c, "SELEC 1"));
			c.setAutoCommit(false);
			expect("22012", () -> ask(c, "SELECT 1 / ?::int", 0));
			expect("25P02", () -> ask(c, "SELECT 1"));
			c.rollback();
			same(ask(c, "SELECT 1"), 1);
			c.rollback();
		}
	}

	/** Many executions behind one Sync; an error in the midst of them. */
	static void batch() throws Exception {
		try (Connection c = connect()) {
			try (PreparedStatement s = c.prepareStatement("INSERT INTO drive VALUES (?, 'batch')")) {
				for (int n = 10000; n < 11000; n++) {
					s.setInt(1, n);
					s.addBatch();
				}
				same(s.executeBatch().length, 1000);
				for (int n = 11000; n > 10990; n--) {
					s.setInt(1, n);
					s.addBatch();
				}
				expect("23505", () -> s.executeBatch());
			}
			same(ask(c, "SELECT 1"), 1);
		}
	}

	static void copy() throws Exception {
		StringBuilder lines = new StringBuilder();
		for (int n = 20000; n < 30000; n++)
			lines.append(n).append("\tcopy ").append(n).append('\n');
		try (Connection c = connect()) {
			c.setAutoCommit(false);
			PGConnection own = c.unwrap(PGConnection.class);
			same(own.getCopyAPI().copyIn("COPY drive FROM STDIN", new StringReader(lines.toString())), 10000L);
			StringWriter out = new StringWriter();
			own.getCopyAPI().copyOut("COPY (SELECT * FROM drive WHERE starts_with(t, 'copy') ORDER BY n) TO STDOUT", out);
			same(out.toString(), lines.toString());
			expect("23505", () -> own.getCopyAPI().copyIn("COPY drive FROM STDIN", new StringReader("20000\tcopy\n")));
			c.rollback();
			same(ask(c, "SELECT 1"), 1);
			c.rollback();
		}
	}

	static void cancel() throws Exception {
		ExecutorService aside = Executors.newSingleThreadExecutor();
		try (Connection c = connect(); Connection watcher = connect(); Statement s = c.createStatement()) {
			Future<?> canceller = aside.submit(() -> {
				waitFor(() -> ask(watcher, RUNNING).equals(1L));
				s.cancel();
				return null;
			});
			expect("57014", () -> s.execute(SLEEP));
			canceller.get();
			same(ask(c, "SELECT 1"), 1);
		} finally {
			aside.shutdown();
		}
	}

	static void large() throws Exception {
		String text = "x".repeat(LARGE);
		try (Connection c = connect()) {
			same(ask(c, "SELECT ?::text", text), text);
			same(ask(c, "SELECT length(?::text)", text), LARGE);
		}
	}

	static void prepared() throws Exception {
		try (Connection c = connect(); Connection rival = connect();
			PreparedStatement kept = c.prepareStatement("SELECT ?::int + 100")) {
			for (int turn = 0; turn < 7; turn++) {
				for (int n = 0; n < 10; n++)
					same(ask(c, "SELECT ?::int + " + n, turn), turn + n);
				swap(rival);
				same(ask(c, "SELECT ?::int + 0", turn), turn);
				kept.setInt(1, turn);
				try (ResultSet rows = kept.executeQuery()) {
					rows.next();
					same(rows.getInt(1), turn + 100);
				}
				rival.rollback();
			}
		}
	}

	/** A result in portions is a portal that lives as long as its transaction. */
	static void cursor() throws Exception {
		try (Connection c = connect(); Statement s = c.createStatement()) {
			c.setAutoCommit(false);
			s.setFetchSize(10);
			long sum = 0;
			try (ResultSet rows = s.executeQuery("SELECT generate_series(1, 1000)")) {
				while (rows.next())
					sum += rows.getInt(1);
			}
			same(sum, 500500L);
			c.rollback();
		}
	}

	static void temporary() throws Exception {
		try (Connection c = connect(); Connection rival = connect()) {
			exec(c, "CREATE TEMPORARY TABLE mine (n int)");
			swap(rival);
			try {
				same(ask(c, "SELECT count(*) FROM mine"), 0L);
			} finally {
				rival.rollback();
				exec(c, "DISCARD TEMP");
			}
		}
	}

	static void reconnect() throws Exception {
		try (Connection c = connect()) {
			expect("57P01", () -> ask(c, TERMINATE));
		}
		try (Connection c = connect()) {
			same(ask(c, "SELECT 1"), 1);
		}
	}

	static void worker(int number) throws SQLException {
		try (Connection c = connect()) {
			c.setAutoCommit(false);
			for (int turn = 0; turn < ROUNDS; turn++) {
				int key = 100000 + number * ROUNDS + turn;
				exec(c, "INSERT INTO drive VALUES (?, 'workers')", key);
				same(ask(c, "SELECT t FROM drive WHERE n = ?", key), "workers");
				c.commit();
			}
		}
	}

	static void workers() throws Exception {
		ExecutorService threads = Executors.newFixedThreadPool(WORKERS);
		List<Callable<Object>> all = new ArrayList<>();
		for (int n = 0; n < WORKERS; n++) {
			int number = n;
			all.add(() -> {
				worker(number);
				return null;
			});
		}
		try {
			for (Future<Object> one : threads.invokeAll(all))
				one.get();
		} finally {
			threads.shutdown();
		}
		try (Connection c = connect()) {
			same(ask(c, "SELECT count(*) FROM drive WHERE t = 'workers'"), (long) WORKERS * ROUNDS);
		}
	}

	static void listen() throws Exception {
		try (Connection c = connect(); Connection other = connect()) {
			exec(c, "LISTEN weir");
			exec(other, "NOTIFY weir, 'high'");
			PGNotification[] heard = c.unwrap(PGConnection.class).getNotifications(0);
			same(heard[0].getParameter(), "high");
		}
	}

	static void check(String name, Work work) {
		try {
			work.run();
			System.out.println("ok " + name);
		} catch (Exception error) {
			error.printStackTrace();
			String text = String.valueOf(error.getMessage()).split("\n")[0];
			System.out.println("error " + name + ": " + code(error) + " " + text);
		}
	}

	public static void main(String[] arguments) {
		check("open", WithPgjdbc::open);
		check("types", WithPgjdbc::types);
		check("transaction", WithPgjdbc::transaction);
		check("error", WithPgjdbc::error);
		check("batch", WithPgjdbc::batch);
		check("copy", WithPgjdbc::copy);
		check("cancel", WithPgjdbc::cancel);
		check("large", WithPgjdbc::large);
		check("prepared", WithPgjdbc::prepared);
		check("cursor", WithPgjdbc::cursor);
		check("temporary", WithPgjdbc::temporary);
		check("reconnect", WithPgjdbc::reconnect);
		check("workers", WithPgjdbc::workers);
		if ("session".equals(env("DRIVER_MODE")))
			check("listen", WithPgjdbc::listen);
	}
}
