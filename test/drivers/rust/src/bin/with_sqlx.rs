//! sqlx: the extended protocol in binary, and a named statement for each text; in variant cache only two are kept, so that
//! each query gives up another one. It has no request to cancel: it closes the connection.

use drivers::*;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolCopyExt, PgPoolOptions, PgSslMode};
use sqlx::{Connection, Error, Executor, PgConnection, PgPool, Row};
use uuid::Uuid;

fn options() -> PgConnectOptions {
    let options = PgConnectOptions::new_without_pgpass()
        .host(&env("PGHOST"))
        .port(env("PGPORT").parse().expect("a port"))
        .username(&env("PGUSER"))
        .password(&env("PGPASSWORD"))
        .database(&env("PGDATABASE"));
    let options = if is_cache() { options.statement_cache_capacity(2) } else { options };
    if is_tls() {
        options.ssl_mode(PgSslMode::VerifyFull).ssl_root_cert(env("PGSSLROOTCERT"))
    } else {
        options.ssl_mode(PgSslMode::Disable)
    }
}

async fn connect() -> Result<PgConnection, Error> {
    PgConnection::connect_with(&options()).await
}

fn code(error: &Error) -> Option<String> {
    error.as_database_error().and_then(|server| server.code()).map(|code| code.into_owned())
}

fn fault_code(fault: &Fault) -> Option<String> {
    fault.downcast_ref::<Error>().and_then(code)
}

async fn one(connection: &mut PgConnection) -> Verdict {
    that(sqlx::query_scalar::<_, i32>("SELECT 1").fetch_one(connection).await? == 1, "not 1")
}

async fn swap(rival: &mut PgConnection) -> Result<(), Error> {
    rival.execute("BEGIN").await?;
    rival.execute("SELECT 1").await.map(|_| ())
}

async fn count(connection: &mut PgConnection, what: &str) -> Result<i64, Error> {
    sqlx::query_scalar("SELECT count(*) FROM drive WHERE t = $1").bind(what).fetch_one(connection).await
}

async fn open() -> Verdict {
    let mut connection = connect().await?;
    let row = sqlx::query("SELECT current_user::text, current_database()::text").fetch_one(&mut connection).await?;
    that(row.get::<&str, _>(0) == env("PGUSER") && row.get::<&str, _>(1) == env("PGDATABASE"), "another user or database")?;
    Ok(connection.close().await?)
}

async fn types() -> Verdict {
    let mut connection = connect().await?;
    let id = Uuid::parse_str("0b7f55cd-9d5a-4c5c-8d38-2a1f0d3ff1a5")?;
    let (text, raw, array) = ("häßlich, it's ☃", vec![0u8, 1, 254, 255], vec![1i32, 2, -3]);
    let row = sqlx::query("SELECT $1::int8, $2::float8, $3::text, $4::bool, $5::text, $6::bytea, $7::int4[], $8::uuid")
        .bind(9007199254740993i64)
        .bind(-1.5f64)
        .bind(text)
        .bind(true)
        .bind(None::<String>)
        .bind(&raw)
        .bind(&array)
        .bind(id)
        .fetch_one(&mut connection)
        .await?;
    that(row.get::<i64, _>(0) == 9007199254740993 && row.get::<f64, _>(1) == -1.5, "numbers")?;
    that(row.get::<&str, _>(2) == text && row.get::<bool, _>(3) && row.get::<Option<&str>, _>(4).is_none(), "text")?;
    that(row.get::<Vec<u8>, _>(5) == raw && row.get::<Vec<i32>, _>(6) == array && row.get::<Uuid, _>(7) == id, "others")
}

async fn transaction() -> Verdict {
    let mut connection = connect().await?;
    let insert = "INSERT INTO drive VALUES ($1, 'transaction')";
    let mut block = connection.begin().await?;
    sqlx::query(insert).bind(1).execute(&mut *block).await?;
    block.rollback().await?;
    let mut block = connection.begin().await?;
    sqlx::query(insert).bind(2).execute(&mut *block).await?;
    let mut inner = block.begin().await?;
    sqlx::query(insert).bind(3).execute(&mut *inner).await?;
    inner.rollback().await?;
    block.commit().await?;
    that(count(&mut connection, "transaction").await? == 1, "more or less than one row")
}

async fn error() -> Verdict {
    let mut connection = connect().await?;
    let insert = "INSERT INTO drive VALUES ($1, 'error')";
    sqlx::query(insert).bind(4).execute(&mut connection).await?;
    expect(Some("23505"), sqlx::query(insert).bind(4).execute(&mut connection).await, code)?;
    expect(Some("42601"), sqlx::query("SELEC 1").execute(&mut connection).await, code)?;
    let mut block = connection.begin().await?;
    expect(Some("22012"), sqlx::query("SELECT 1 / $1::int").bind(0).execute(&mut *block).await, code)?;
    expect(Some("25P02"), sqlx::query("SELECT 1").execute(&mut *block).await, code)?;
    block.rollback().await?;
    one(&mut connection).await
}

async fn copy() -> Verdict {
    let pool = PgPoolOptions::new().max_connections(2).connect_with(options()).await?;
    let lines: String = (20000..30000).map(|n| format!("{n}\tcopy {n}\n")).collect();
    let mut into = pool.copy_in_raw("COPY drive FROM STDIN").await?;
    into.send(lines.as_bytes()).await?;
    that(into.finish().await? == 10000, "another number of rows")?;
    let mut into = pool.copy_in_raw("COPY drive FROM STDIN").await?;
    into.send("20000\tcopy\n".as_bytes()).await?;
    expect(Some("23505"), into.finish().await, code)?;
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM drive WHERE starts_with(t, 'copy')").fetch_one(&pool).await?;
    pool.close().await;
    that(rows == 10000, "another number of rows came in")
}

async fn large() -> Verdict {
    let mut connection = connect().await?;
    let text = "x".repeat(LARGE);
    let row = sqlx::query("SELECT $1::text, length($1::text)").bind(&text).fetch_one(&mut connection).await?;
    that(row.get::<&str, _>(0) == text && row.get::<i32, _>(1) == LARGE as i32, "another text")
}

async fn prepared() -> Verdict {
    let (mut connection, mut rival) = (connect().await?, connect().await?);
    for turn in 0..7 {
        for n in 0..10 {
            let sql = format!("SELECT $1::int + {n}");
            let got: i32 = sqlx::query_scalar(&sql).bind(turn).fetch_one(&mut connection).await?;
            that(got == turn + n, "another sum")?;
        }
        swap(&mut rival).await?;
        let got: i32 = sqlx::query_scalar("SELECT $1::int + 0").bind(turn).fetch_one(&mut connection).await?;
        that(got == turn, "another number")?;
        rival.execute("ROLLBACK").await?;
    }
    Ok(())
}

async fn temporary() -> Verdict {
    let (mut connection, mut rival) = (connect().await?, connect().await?);
    connection.execute("CREATE TEMPORARY TABLE mine (n int)").await?;
    swap(&mut rival).await?;
    let got = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM mine").fetch_one(&mut connection).await;
    rival.execute("ROLLBACK").await?;
    connection.execute("DISCARD TEMP").await?;
    that(got? == 0, "rows")
}

async fn reconnect() -> Verdict {
    expect(Some("57P01"), connect().await?.execute(TERMINATE).await, code)?;
    one(&mut connect().await?).await
}

async fn worker(pool: PgPool, number: i32) -> Verdict {
    for turn in 0..ROUNDS {
        let key = 100000 + number * ROUNDS + turn;
        let mut block = pool.begin().await?;
        sqlx::query("INSERT INTO drive VALUES ($1, 'workers')").bind(key).execute(&mut *block).await?;
        let text: String = sqlx::query_scalar("SELECT t FROM drive WHERE n = $1").bind(key).fetch_one(&mut *block).await?;
        block.commit().await?;
        that(text == "workers", "another text")?;
    }
    Ok(())
}

/// In session mode a pool that keeps its connections would keep all servers: each worker has its own, and closes it.
async fn worker_alone(number: i32) -> Verdict {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(std::time::Duration::from_secs(3600))
        .connect_with(options())
        .await?;
    let verdict = worker(pool.clone(), number).await;
    pool.close().await;
    verdict
}

async fn workers() -> Verdict {
    let all: Vec<_> = (0..WORKERS).map(|number| tokio::spawn(worker_alone(number))).collect();
    for one in all {
        one.await??;
    }
    that(count(&mut connect().await?, "workers").await? == (WORKERS * ROUNDS) as i64, "another number of rows")
}

async fn listen() -> Verdict {
    let pool = PgPoolOptions::new().max_connections(2).connect_with(options()).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen("weir").await?;
    pool.execute("NOTIFY weir, 'high'").await?;
    that(listener.recv().await?.payload() == "high", "another payload")
}

#[tokio::main]
async fn main() {
    check("open", open(), fault_code).await;
    check("types", types(), fault_code).await;
    check("transaction", transaction(), fault_code).await;
    check("error", error(), fault_code).await;
    check("copy", copy(), fault_code).await;
    check("large", large(), fault_code).await;
    check("prepared", prepared(), fault_code).await;
    check("temporary", temporary(), fault_code).await;
    check("reconnect", reconnect(), fault_code).await;
    check("workers", workers(), fault_code).await;
    if is_session() {
        check("listen", listen(), fault_code).await;
    }
}
