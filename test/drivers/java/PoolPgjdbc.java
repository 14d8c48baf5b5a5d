/* A HikariCP pool of pgjdbc whose workers write numbers until standard input ends: see ../test_pools.py. */
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

public class PoolPgjdbc {
	static final int WORKERS = 6;
	static final AtomicInteger last = new AtomicInteger();
	static volatile boolean over;

	static void write(HikariDataSource pool) {
		int number = last.incrementAndGet();

		try (Connection connection = pool.getConnection();
			PreparedStatement insert = connection.prepareStatement("INSERT INTO numbers VALUES (?, 0)")) {
			insert.setInt(1, number);
			insert.executeUpdate();
			System.out.println(number);
		} catch (SQLException why) {
			System.out.println("error " + why.getMessage());
		}
	}

	public static void main(String[] arguments) throws Exception {
		HikariConfig config = new HikariConfig();
		List<Thread> workers = new ArrayList<>();

		config.setJdbcUrl("jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"));
		config.setUsername(System.getenv("PGUSER"));
		config.setPassword(System.getenv("PGPASSWORD"));
		config.setMaximumPoolSize(WORKERS);
		try (HikariDataSource pool = new HikariDataSource(config)) {
			for (int i = 0; i < WORKERS; i++) {
				Thread worker = new Thread(() -> {
					while (!over)
						write(pool);
				});
				worker.start();
				workers.add(worker);
			}
			while (System.in.read() >= 0)
				continue;
			over = true;
			for (Thread worker : workers)
				worker.join();
		}
	}
}
