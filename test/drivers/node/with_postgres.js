/*
 * postgres.js: it sends queries without waiting for answers, and prepares each text under a name of its own; in variant
 * cache there are many more texts than turns. `sql` stands for a pool; reserve() takes a connection out of it.
 */
'use strict';

const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const postgres = require('postgres');
const { assert, expect, run, waitFor, place, session, cache, WORKERS, ROUNDS, LARGE, SLEEP, RUNNING, TERMINATE } =
	require('./check');

const texts = cache ? 60 : 10;

function connect(options = {}) {
	return postgres({ ...place, max: 1, onnotice: () => {}, ...options });
}

async function ended(...clients) {
	for (const client of clients)
		await client.end();
}

/* While it runs, another client has the server that was released last. */
function swapped(rival, work) {
	return rival.begin(async (held) => {
		await held`SELECT 1`;
		await work();
	});
}

async function open() {
	const sql = connect();
	const [row] = await sql`SELECT current_user::text AS "user", current_database()::text AS "database"`;
	assert.deepStrictEqual({ ...row }, { user: place.user, database: place.database });
	await ended(sql);
}

async function types() {
	const sql = connect();
	const when = new Date('2026-11-21T02:01:23.820Z');
	const values = ['9007199254740993', -1.5, "häßlich, it's ☃", true, null, '123.450', [1, 2, -3],
		Buffer.from([0, 1, 254, 255]), '0b7f55cd-9d5a-4c5c-8d38-2a1f0d3ff1a5', when];
	const [row] = await sql`SELECT ${values[0]}::int8, ${values[1]}::float8, ${values[2]}::text, ${values[3]}::bool,
		${values[4]}::text, ${values[5]}::numeric, ${values[6]}::int4[], ${values[7]}::bytea, ${values[8]}::uuid,
		${values[9]}::timestamptz`.values();
	assert.deepStrictEqual([...row].map((v) => Buffer.isBuffer(v) ? Buffer.from(v) : v), values);
	assert.deepStrictEqual((await sql`SELECT ${sql.json({ a: [1, 2] })} AS j`)[0].j, { a: [1, 2] });
	await ended(sql);
}

async function transaction() {
	const sql = connect();
	await expect(null, () => sql.begin(async (inside) => {
		await inside`INSERT INTO drive VALUES (1, 'transaction')`;
		throw new Error('changed my mind');
	}));
	await sql.begin(async (inside) => {
		await inside`INSERT INTO drive VALUES (${2}, 'transaction')`;
		await expect('23505', () => inside.savepoint(async (deeper) => {
			await deeper`INSERT INTO drive VALUES (${3}, 'transaction')`;
			await deeper`INSERT INTO drive VALUES (${3}, 'transaction')`;
		}));
	});
	assert.deepStrictEqual([...await sql`SELECT n FROM drive WHERE t = 'transaction'`.values()], [[2]]);
	await ended(sql);
}

async function error() {
	const sql = connect();
	await sql`INSERT INTO drive VALUES (${4}, 'error')`;
	await expect('23505', () => sql`INSERT INTO drive VALUES (${4}, 'error')`);
	await expect('42601', () => sql`SELEC 1`);
	await expect('22012', () => sql.begin((inside) => inside`SELECT 1 / ${0}::int`));
	assert.strictEqual((await sql`SELECT 1 AS n`)[0].n, 1);
	await ended(sql);
}

/* All at once on one connection: a pipeline. One of them fails, the others don't. */
async function batch() {
	const sql = connect();
	const asked = [];
	for (let n = 0; n < 200; n++)
		asked.push(n === 100 ? expect('22012', () => sql`SELECT 1 / ${0}::int`) : sql`SELECT ${n}::int AS n`);
	(await Promise.all(asked)).forEach((rows, n) => n === 100 || assert.strictEqual(rows[0].n, n));
	await ended(sql);
}

/* Few lines, in one piece: where its streams have to wait, the driver may wait for ever, whoever it is connected to. */
async function copy() {
	const sql = connect();
	const lines = Array.from({ length: 100 }, (_, n) => `${20000 + n}\tcopy ${n}\n`);
	await sql.begin(async (inside) => {
		await pipeline(Readable.from([lines.join('')]), await inside`COPY drive FROM STDIN`.writable());
		let out = '';
		const from = await inside`COPY (SELECT * FROM drive WHERE starts_with(t, 'copy') ORDER BY n) TO STDOUT`.readable();
		for await (const chunk of from)
			out += chunk;
		assert.strictEqual(out, lines.join(''));
	});
	assert.strictEqual((await sql`SELECT 1 AS n`)[0].n, 1);
	await ended(sql);
}

async function cancel() {
	const sql = connect(), watcher = connect();
	const asleep = sql.unsafe(SLEEP);
	const heard = expect('57014', () => asleep);
	await waitFor(async () => (await watcher.unsafe(RUNNING))[0].n === 1);
	asleep.cancel();
	await heard;
	assert.strictEqual((await sql`SELECT 1 AS n`)[0].n, 1);
	await ended(sql, watcher);
}

async function large() {
	const sql = connect(), text = 'x'.repeat(LARGE);
	const [row] = await sql`SELECT ${text}::text AS t, length(${text}::text) AS n`;
	assert.strictEqual(row.t, text);
	assert.strictEqual(row.n, LARGE);
	await ended(sql);
}

async function prepared() {
	const sql = connect(), rival = connect();
	for (let turn = 0; turn < 7; turn++) {
		for (let n = 0; n < texts; n++)
			assert.strictEqual((await sql.unsafe(`SELECT $1::int + ${n} AS n`, [turn], { prepare: true }))[0].n, turn + n);
		await swapped(rival, async () => {
			assert.strictEqual((await sql.unsafe('SELECT $1::int + 0 AS n', [turn], { prepare: true }))[0].n, turn);
		});
	}
	await ended(sql, rival);
}

async function cursor() {
	const sql = connect();
	let sum = 0;
	await sql.begin(async (inside) => {
		for await (const rows of inside`SELECT generate_series(1, ${1000}::int) AS n`.cursor(10))
			rows.forEach((row) => { sum += row.n; });
	});
	assert.strictEqual(sum, 500500);
	await ended(sql);
}

async function temporary() {
	const sql = connect(), rival = connect();
	try {
		await sql`CREATE TEMPORARY TABLE mine (n int)`;
		await swapped(rival, () => sql`SELECT count(*) FROM mine`);
	} finally {
		await sql`DISCARD TEMP`;
		await ended(sql, rival);
	}
}

/* With another pool: in this one the server's last words may reach the next query too, here as on a direct connection. */
async function reconnect() {
	const lost = connect(), sql = connect();
	await expect(null, () => lost.unsafe(TERMINATE));
	await lost.end({ timeout: 0 });
	assert.strictEqual((await sql`SELECT 1 AS n`)[0].n, 1);
	await ended(sql);
}

async function workers() {
	const work = async (number) => {
		const sql = connect();
		for (let turn = 0; turn < ROUNDS; turn++) {
			const key = 100000 + number * ROUNDS + turn;
			await sql.begin(async (inside) => {
				await inside`INSERT INTO drive VALUES (${key}, 'workers')`;
				assert.strictEqual((await inside`SELECT t FROM drive WHERE n = ${key}`)[0].t, 'workers');
			});
		}
		await sql.end();
	};
	await Promise.all(Array.from({ length: WORKERS }, (_, number) => work(number)));
	const sql = connect({ max: 3 });
	assert.strictEqual((await sql`SELECT count(*)::int AS n FROM drive WHERE t = 'workers'`)[0].n, WORKERS * ROUNDS);
	await ended(sql);
}

async function listen() {
	const sql = connect();
	let done;
	const heard = new Promise((resolve) => { done = resolve; });
	await sql.listen('weir', done);
	await sql.notify('weir', 'high');
	assert.strictEqual(await heard, 'high');
	await ended(sql);
}

run([open, types, transaction, error, batch, copy, cancel, large, prepared, cursor, temporary, reconnect, workers]
	.concat(session ? [listen] : [])).then(() => process.exit());	// a connection that has listened may hold it up
