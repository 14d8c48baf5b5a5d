/*
 * pgjdbc, which prepares each statement at once, for the test of type changes: ../python/type_changes.py describes the lines that are read and printed.
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;

public class TypesPgjdbc {
	static Connection open() throws SQLException {
		Properties given = new Properties();
		given.setProperty("user", System.getenv("PGUSER"));
		given.setProperty("password", System.getenv("PGPASSWORD"));
		given.setProperty("sslmode", "disable");
		given.setProperty("prepareThreshold", "1");
		return DriverManager.getConnection(String.format("jdbc:postgresql://%s:%s/%s", System.getenv("PGHOST"), System.getenv("PGPORT"),
			System.getenv("PGDATABASE")), given);
	}

	/* The same, whether it came in text or in binary. */
	static String text(Object value) throws SQLException {
		if (value instanceof Array)
			return Arrays.toString((Object[]) ((Array) value).getArray());
		return value instanceof byte[] ? Arrays.toString((byte[]) value) : String.valueOf(value);
	}

	static String run(Connection c, String sql) {
		List<String> rows = new ArrayList<>();

		try (PreparedStatement statement = c.prepareStatement(sql.replace("$1", "?"))) {
			if (sql.contains("$1"))
				statement.setInt(1, 7);
			try (ResultSet found = statement.executeQuery()) {
				while (found.next()) {
					List<String> row = new ArrayList<>();
					for (int i = 1; i <= found.getMetaData().getColumnCount(); i++)
						row.add(found.getMetaData().getColumnTypeName(i) + ":" + text(found.getObject(i)));
					rows.add(String.join(",", row));
				}
			}
		} catch (SQLException e) {
			return "error " + e.getSQLState();
		}
		return "ok " + String.join(";", rows);
	}

	public static void main(String[] arguments) throws Exception {
		BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
		Connection c = open();

		for (String line; (line = lines.readLine()) != null;) {
			if (line.startsWith("fresh ")) {
				c.close();
				c = open();
			}
			System.out.println(run(c, line.substring(line.indexOf(' ') + 1)));
		}
		c.close();
	}
}
