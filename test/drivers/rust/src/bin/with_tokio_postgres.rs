//! tokio-postgres: the extended protocol in binary. As it comes it prepares a named statement for each query and closes it
//! behind it; in variant cache the program keeps its statements. Queries that are asked together go out as a pipeline.

use bytes::Bytes;
use drivers::*;
use futures_util::{future, pin_mut, stream, SinkExt, StreamExt, TryStreamExt};
use openssl::ssl::{SslConnector, SslMethod};
use postgres_openssl::MakeTlsConnector;
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::types::{FromSqlOwned, ToSql};
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls};
use uuid::Uuid;

/// A connection, and the statements that are kept with it.
struct Held {
    client: Client,
    kept: HashMap<String, tokio_postgres::Statement>,
}

type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

fn config() -> Config {
    let mut config = Config::new();
    config
        .host(env("PGHOST"))
        .port(env("PGPORT").parse().expect("a port"))
        .user(env("PGUSER"))
        .password(env("PGPASSWORD"))
        .dbname(env("PGDATABASE"));
    config.ssl_mode(if is_tls() { tokio_postgres::config::SslMode::Require } else { tokio_postgres::config::SslMode::Disable });
    config
}

fn tls() -> Result<MakeTlsConnector, Fault> {
    let mut builder = SslConnector::builder(SslMethod::tls())?;
    builder.set_ca_file(env("PGSSLROOTCERT"))?;
    Ok(MakeTlsConnector::new(builder.build()))
}

async fn connect() -> Result<Held, Fault> {
    let client = if is_tls() {
        let (client, connection) = config().connect(tls()?).await?;
        tokio::spawn(connection);
        client
    } else {
        let (client, connection) = config().connect(NoTls).await?;
        tokio::spawn(connection);
        client
    };
    Ok(Held { client, kept: HashMap::new() })
}

fn code(error: &Error) -> Option<String> {
    error.code().map(|state| state.code().to_string())
}

fn fault_code(fault: &Fault) -> Option<String> {
    fault.downcast_ref::<Error>().and_then(code)
}

/// The first column of the first row.
async fn ask<T: FromSqlOwned>(held: &mut Held, sql: &str, values: Values<'_>) -> Result<T, Error> {
    if !is_cache() {
        return held.client.query_one(sql, values).await?.try_get(0);
    }
    if !held.kept.contains_key(sql) {
        let statement = held.client.prepare(sql).await?;
        held.kept.insert(sql.into(), statement);
    }
    held.client.query_one(&held.kept[sql], values).await?.try_get(0)
}

/// Another client takes the server that was released last.
async fn swap(rival: &Held) -> Result<(), Error> {
    rival.client.batch_execute("BEGIN; SELECT 1").await
}

async fn open() -> Verdict {
    let mut held = connect().await?;
    let user: String = ask(&mut held, "SELECT current_user::text", &[]).await?;
    let name: String = ask(&mut held, "SELECT current_database()::text", &[]).await?;
    that(user == env("PGUSER") && name == env("PGDATABASE"), "another user or database")
}

async fn types() -> Verdict {
    let held = connect().await?;
    let id = Uuid::parse_str("0b7f55cd-9d5a-4c5c-8d38-2a1f0d3ff1a5")?;
    let (text, raw, array) = ("häßlich, it's ☃", vec![0u8, 1, 254, 255], vec![1i32, 2, -3]);
    let row = held
        .client
        .query_one(
            "SELECT $1::int8, $2::float8, $3::text, $4::bool, $5::text, $6::bytea, $7::int4[], $8::uuid",
            &[&9007199254740993i64, &-1.5f64, &text, &true, &None::<String>, &raw, &array, &id],
        )
        .await?;
    that(row.get::<_, i64>(0) == 9007199254740993 && row.get::<_, f64>(1) == -1.5, "numbers")?;
    that(row.get::<_, String>(2) == text && row.get::<_, bool>(3) && row.get::<_, Option<String>>(4).is_none(), "text")?;
    that(row.get::<_, Vec<u8>>(5) == raw && row.get::<_, Vec<i32>>(6) == array && row.get::<_, Uuid>(7) == id, "others")
}

async fn transaction() -> Verdict {
    let mut held = connect().await?;
    let insert = "INSERT INTO drive VALUES ($1, 'transaction')";
    let block = held.client.transaction().await?;
    block.execute(insert, &[&1]).await?;
    block.rollback().await?;
    let mut block = held.client.transaction().await?;
    block.execute(insert, &[&2]).await?;
    let inner = block.transaction().await?;
    inner.execute(insert, &[&3]).await?;
    inner.rollback().await?;
    block.commit().await?;
    let count: i64 = ask(&mut held, "SELECT count(*) FROM drive WHERE t = 'transaction'", &[]).await?;
    that(count == 1, "more or less than one row")
}

async fn error() -> Verdict {
    let mut held = connect().await?;
    let insert = "INSERT INTO drive VALUES ($1, 'error')";
    held.client.execute(insert, &[&4]).await?;
    expect(Some("23505"), held.client.execute(insert, &[&4]).await, code)?;
    expect(Some("42601"), held.client.query("SELEC 1", &[]).await, code)?;
    let block = held.client.transaction().await?;
    expect(Some("22012"), block.query("SELECT 1 / $1::int", &[&0]).await, code)?;
    expect(Some("25P02"), block.query("SELECT 1", &[]).await, code)?;
    block.rollback().await?;
    that(ask::<i32>(&mut held, "SELECT 1", &[]).await? == 1, "not 1")
}

/// Queries that don't wait for each other, one of them wrong.
async fn batch() -> Verdict {
    let held = connect().await?;
    let statement = held.client.prepare("SELECT 100 / $1::int").await?;
    let divisors: Vec<i32> = (-100..100).collect();
    let asked = divisors.iter().map(|n| {
        let (client, statement) = (&held.client, &statement);
        async move { client.query_one(statement, &[n]).await }
    });
    for (n, got) in divisors.iter().zip(future::join_all(asked).await) {
        if *n == 0 {
            expect(Some("22012"), got, code)?;
        } else {
            that(got?.get::<_, i32>(0) == 100 / n, "another quotient")?;
        }
    }
    Ok(())
}

async fn copy() -> Verdict {
    let mut held = connect().await?;
    let lines: String = (20000..30000).map(|n| format!("{n}\tcopy {n}\n")).collect();
    let block = held.client.transaction().await?;
    let sink = block.copy_in("COPY drive FROM STDIN").await?;
    pin_mut!(sink);
    for piece in lines.as_bytes().chunks(1000) {
        sink.send(Bytes::copy_from_slice(piece)).await?;
    }
    that(sink.finish().await? == 10000, "another number of rows")?;
    let out = block.copy_out("COPY (SELECT * FROM drive WHERE starts_with(t, 'copy') ORDER BY n) TO STDOUT").await?;
    let got = out.try_fold(Vec::new(), |mut all, piece| async move {
        all.extend_from_slice(&piece);
        Ok(all)
    });
    that(got.await? == lines.as_bytes(), "other rows")?;
    let sink = block.copy_in("COPY drive FROM STDIN").await?;
    pin_mut!(sink);
    sink.send(Bytes::from("20000\tcopy\n")).await?;
    expect(Some("23505"), sink.finish().await, code)?;
    block.rollback().await?;
    that(ask::<i32>(&mut held, "SELECT 1", &[]).await? == 1, "not 1")
}

async fn cancel() -> Verdict {
    let (mut held, mut watcher) = (connect().await?, connect().await?);
    let token = held.client.cancel_token();
    let canceller = async {
        while ask::<i64>(&mut watcher, RUNNING, &[]).await? != 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if is_tls() {
            token.cancel_query(tls()?).await?;
        } else {
            token.cancel_query(NoTls).await?;
        }
        Ok::<(), Fault>(())
    };
    let (slept, cancelled) = future::join(held.client.query(SLEEP, &[]), canceller).await;
    cancelled?;
    expect(Some("57014"), slept, code)?;
    that(ask::<i32>(&mut held, "SELECT 1", &[]).await? == 1, "not 1")
}

async fn large() -> Verdict {
    let mut held = connect().await?;
    let text = "x".repeat(LARGE);
    that(ask::<String>(&mut held, "SELECT $1::text", &[&text]).await? == text, "another text")?;
    that(ask::<i32>(&mut held, "SELECT length($1::text)", &[&text]).await? == LARGE as i32, "another length")
}

async fn prepared() -> Verdict {
    let (mut held, rival) = (connect().await?, connect().await?);
    for turn in 0..7 {
        for n in 0..10 {
            let got: i32 = ask(&mut held, &format!("SELECT $1::int + {n}"), &[&turn]).await?;
            that(got == turn + n, "another sum")?;
        }
        swap(&rival).await?;
        that(ask::<i32>(&mut held, "SELECT $1::int + 0", &[&turn]).await? == turn, "another number")?;
        rival.client.batch_execute("ROLLBACK").await?;
    }
    Ok(())
}

/// A portal that is read in portions.
async fn cursor() -> Verdict {
    let mut held = connect().await?;
    let block = held.client.transaction().await?;
    let portal = block.bind("SELECT generate_series(1, $1::int)", &[&1000]).await?;
    let mut sum = 0;
    loop {
        let rows = block.query_portal(&portal, 10).await?;
        if rows.is_empty() {
            break;
        }
        sum += rows.iter().map(|row| row.get::<_, i32>(0)).sum::<i32>();
    }
    block.commit().await?;
    that(sum == 500500, "another sum")
}

async fn temporary() -> Verdict {
    let (mut held, rival) = (connect().await?, connect().await?);
    held.client.batch_execute("CREATE TEMPORARY TABLE mine (n int)").await?;
    swap(&rival).await?;
    let got: Result<i64, Error> = ask(&mut held, "SELECT count(*) FROM mine", &[]).await;
    rival.client.batch_execute("ROLLBACK").await?;
    held.client.batch_execute("DISCARD TEMP").await?;
    that(got? == 0, "rows")
}

async fn reconnect() -> Verdict {
    let held = connect().await?;
    expect(Some("57P01"), held.client.query(TERMINATE, &[]).await, code)?;
    that(ask::<i32>(&mut connect().await?, "SELECT 1", &[]).await? == 1, "not 1")
}

async fn worker(number: i32) -> Verdict {
    let mut held = connect().await?;
    for turn in 0..ROUNDS {
        let key = 100000 + number * ROUNDS + turn;
        let block = held.client.transaction().await?;
        block.execute("INSERT INTO drive VALUES ($1, 'workers')", &[&key]).await?;
        let row = block.query_one("SELECT t FROM drive WHERE n = $1", &[&key]).await?;
        that(row.get::<_, &str>(0) == "workers", "another text")?;
        block.commit().await?;
    }
    Ok(())
}

async fn workers() -> Verdict {
    let all: Vec<_> = (0..WORKERS).map(|number| tokio::spawn(worker(number))).collect();
    for one in all {
        one.await??;
    }
    let count: i64 = ask(&mut connect().await?, "SELECT count(*) FROM drive WHERE t = 'workers'", &[]).await?;
    that(count == (WORKERS * ROUNDS) as i64, "another number of rows")
}

/// What the server says unasked comes out of the connection, which is the program's own to read here.
async fn heard<S, T>(client: Client, mut connection: tokio_postgres::Connection<S, T>) -> Verdict
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let speaks = async {
        client.batch_execute("LISTEN weir").await?;
        connect().await?.client.batch_execute("NOTIFY weir, 'high'").await?;
        future::pending::<Verdict>().await
    };
    let listens = async {
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message? {
                return that(notification.payload() == "high", "another payload");
            }
        }
        Err("the connection has ended".into())
    };
    pin_mut!(speaks, listens);
    future::select(speaks, listens).await.factor_first().0
}

async fn listen() -> Verdict {
    if is_tls() {
        let (client, connection) = config().connect(tls()?).await?;
        heard(client, connection).await
    } else {
        let (client, connection) = config().connect(NoTls).await?;
        heard(client, connection).await
    }
}

#[tokio::main]
async fn main() {
    check("open", open(), fault_code).await;
    check("types", types(), fault_code).await;
    check("transaction", transaction(), fault_code).await;
    check("error", error(), fault_code).await;
    check("batch", batch(), fault_code).await;
    check("copy", copy(), fault_code).await;
    check("cancel", cancel(), fault_code).await;
    check("large", large(), fault_code).await;
    check("prepared", prepared(), fault_code).await;
    check("cursor", cursor(), fault_code).await;
    check("temporary", temporary(), fault_code).await;
    check("reconnect", reconnect(), fault_code).await;
    check("workers", workers(), fault_code).await;
    if is_session() {
        check("listen", listen(), fault_code).await;
    }
}
