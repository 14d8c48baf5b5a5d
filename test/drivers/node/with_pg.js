/* node-postgres (pg): the unnamed statement for queries with values; in variant cache each text has a name. */
'use strict';

const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');
const { Client, Pool } = require('pg');
const copyStreams = require('pg-copy-streams');
const Cursor = require('pg-cursor');
const { assert, expect, run, waitFor, place, session, cache, WORKERS, ROUNDS, LARGE, SLEEP, RUNNING, TERMINATE } =
	require('./check');

const names = new Map();

/* A query with values; its rows as arrays. */
async function ask(client, text, values = []) {
	const query = { text, values, rowMode: 'array' };
	if (cache) {
		if (!names.has(text))
			names.set(text, 'named ' + names.size);
		query.name = names.get(text);
	}
	return (await client.query(query)).rows;
}

async function connect() {
	const client = new Client(place);
	client.on('error', () => {});		// the end of the connection, which the query tells too
	await client.connect();
	return client;
}

async function ended(...clients) {
	for (const client of clients)
		await client.end();
}

/* Another client takes the server that was released last. */
async function swap(rival) {
	await rival.query('BEGIN');
	await rival.query('SELECT 1');
}

async function open() {
	const client = await connect();
	const rows = await ask(client, 'SELECT current_user::text, current_database()::text');
	assert.deepStrictEqual(rows, [[place.user, place.database]]);
	await ended(client);
}

async function types() {
	const client = await connect();
	const values = ['9007199254740993', -1.5, "häßlich, it's ☃", true, null, '123.450', [1, 2, -3], { a: [1, 2] },
		Buffer.from([0, 1, 254, 255]), '0b7f55cd-9d5a-4c5c-8d38-2a1f0d3ff1a5', new Date('2026-11-21T02:01:23.820Z')];
	const [row] = await ask(client, 'SELECT $1::int8, $2::float8, $3::text, $4::bool, $5::text, $6::numeric, $7::int4[], ' +
		'$8::jsonb, $9::bytea, $10::uuid, $11::timestamptz', values);
	assert.deepStrictEqual(row, values);
	await ended(client);
}

async function transaction() {
	const client = await connect();
	const insert = "INSERT INTO drive VALUES ($1, 'transaction')";
	await client.query('BEGIN');
	await ask(client, insert, [1]);
	await client.query('ROLLBACK');
	await client.query('BEGIN');
	await ask(client, insert, [2]);
	await client.query('SAVEPOINT here');
	await ask(client, insert, [3]);
	await client.query('ROLLBACK TO here');
	await client.query('COMMIT');
	assert.deepStrictEqual(await ask(client, "SELECT n FROM drive WHERE t = 'transaction'"), [[2]]);
	await ended(client);
}

async function error() {
	const client = await connect();
	const insert = "INSERT INTO drive VALUES ($1, 'error')";
	await ask(client, insert, [4]);
	await expect('23505', () => ask(client, insert, [4]));
	await expect('42601', () => client.query('SELEC 1'));
	await client.query('BEGIN');
	await expect('22012', () => ask(client, 'SELECT 1 / $1::int', [0]));
	await expect('25P02', () => ask(client, 'SELECT 1'));
	await client.query('ROLLBACK');
	assert.deepStrictEqual(await ask(client, 'SELECT 1'), [[1]]);
	await ended(client);
}

/* Queries are queued by the driver; nobody waits for the one before. */
async function batch() {
	const client = await connect();
	const asked = [];
	for (let n = 0; n < 200; n++)
		asked.push(ask(client, 'SELECT $1::int', [n]));
	(await Promise.all(asked)).forEach((rows, n) => assert.deepStrictEqual(rows, [[n]]));
	await ended(client);
}

async function copy() {
	const client = await connect();
	const lines = Array.from({ length: 10000 }, (_, n) => `${20000 + n}\tcopy ${n}\n`);
	const into = (what) => pipeline(Readable.from(what), client.query(copyStreams.from('COPY drive FROM STDIN')));
	await client.query('BEGIN');
	await into(lines);
	let out = '';
	const from = client.query(copyStreams.to("COPY (SELECT * FROM drive WHERE starts_with(t, 'copy') ORDER BY n) TO STDOUT"));
	for await (const chunk of from)
		out += chunk;
	assert.strictEqual(out, lines.join(''));
	await client.query('ROLLBACK');
	await expect('23505', () => into([lines[0], lines[0]]));
	assert.deepStrictEqual(await ask(client, 'SELECT 1'), [[1]]);
	await ended(client);
}

async function cancel() {
	const client = await connect(), watcher = await connect(), canceller = new Client(place);
	canceller.on('error', () => {});
	const query = new (require('pg').Query)(SLEEP);
	const asleep = new Promise((_, reject) => query.on('error', reject));
	client.query(query);
	await waitFor(async () => (await ask(watcher, RUNNING))[0][0] === 1);
	canceller.cancel(client, query);
	await expect('57014', () => asleep);
	assert.deepStrictEqual(await ask(client, 'SELECT 1'), [[1]]);
	await ended(client, watcher);
}

async function large() {
	const client = await connect(), text = 'x'.repeat(LARGE);
	assert.deepStrictEqual(await ask(client, 'SELECT $1::text, length($1::text)', [text]), [[text, LARGE]]);
	await ended(client);
}

async function prepared() {
	const client = await connect(), rival = await connect();
	for (let turn = 0; turn < 7; turn++) {
		for (let n = 0; n < 10; n++)
			assert.deepStrictEqual(await ask(client, `SELECT $1::int + ${n}`, [turn]), [[turn + n]]);
		await swap(rival);
		assert.deepStrictEqual(await ask(client, 'SELECT $1::int + 0', [turn]), [[turn]]);
		await rival.query('ROLLBACK');
	}
	await ended(client, rival);
}

async function cursor() {
	const client = await connect();
	await client.query('BEGIN');
	const portions = client.query(new Cursor('SELECT generate_series(1, $1::int) AS n', [1000]));
	let sum = 0;
	for (let rows = await portions.read(10); rows.length; rows = await portions.read(10))
		rows.forEach((row) => { sum += row.n; });
	assert.strictEqual(sum, 500500);
	await client.query('COMMIT');
	await ended(client);
}

async function temporary() {
	const client = await connect(), rival = await connect();
	try {
		await client.query('CREATE TEMPORARY TABLE mine (n int)');
		await swap(rival);
		assert.deepStrictEqual(await ask(client, 'SELECT count(*)::int FROM mine'), [[0]]);
	} finally {
		await rival.end();
		await client.query('DISCARD TEMP');
		await client.end();
	}
}

async function reconnect() {
	const client = await connect();
	await expect(null, () => ask(client, TERMINATE));
	const again = await connect();
	assert.deepStrictEqual(await ask(again, 'SELECT 1'), [[1]]);
	await ended(again);
}

async function workers() {
	const work = async (number) => {
		const client = await connect();
		for (let turn = 0; turn < ROUNDS; turn++) {
			const key = 100000 + number * ROUNDS + turn;
			await client.query('BEGIN');
			await ask(client, "INSERT INTO drive VALUES ($1, 'workers')", [key]);
			assert.deepStrictEqual(await ask(client, 'SELECT t FROM drive WHERE n = $1', [key]), [['workers']]);
			await client.query('COMMIT');
		}
		await client.end();
	};
	await Promise.all(Array.from({ length: WORKERS }, (_, number) => work(number)));
	const pool = new Pool({ ...place, max: 3 });
	const { rows } = await pool.query("SELECT count(*)::int AS n FROM drive WHERE t = 'workers'");
	assert.strictEqual(rows[0].n, WORKERS * ROUNDS);
	await pool.end();
}

async function listen() {
	const client = await connect(), other = await connect();
	const heard = new Promise((done) => client.on('notification', (message) => done(message.payload)));
	await client.query('LISTEN weir');
	await other.query("NOTIFY weir, 'high'");
	assert.strictEqual(await heard, 'high');
	await ended(client, other);
}

run([open, types, transaction, error, batch, copy, cancel, large, prepared, cursor, temporary, reconnect, workers]
	.concat(session ? [listen] : []));
