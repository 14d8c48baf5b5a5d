/*
 * What both programs need: where pgweir is, and how to say what came of a check. python/check.py describes the
 * environment and the lines that are printed.
 */
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');

const env = process.env;

async function run(checks) {
	for (const check of checks) {
		try {
			await check();
			console.log('ok ' + check.name);
		} catch (error) {
			const text = String(error.message || error).split('\n')[0];
			console.error(error);
			console.log('error %s: %s %s', check.name, error.code || '-----', text);
		}
	}
}

/* The work has to fail, with this code unless it is null. */
async function expect(code, work) {
	let failed = null;
	try {
		await work();
	} catch (error) {
		failed = error;
	}
	assert(failed, 'no error, where there should be ' + code);
	assert(code === null || failed.code === code, `${failed.code} instead of ${code}: ${failed}`);
}

async function waitFor(isSo) {
	while (!await isSo())
		await new Promise((done) => setTimeout(done, 10));
}

module.exports = {
	assert, expect, run, waitFor,
	place: {
		host: env.PGHOST, port: Number(env.PGPORT), user: env.PGUSER, password: env.PGPASSWORD, database: env.PGDATABASE,
		ssl: env.PGSSLMODE === 'disable' ? false : { ca: fs.readFileSync(env.PGSSLROOTCERT) },
	},
	session: env.DRIVER_MODE === 'session',
	cache: env.DRIVER_VARIANT === 'cache',
	WORKERS: 100,
	ROUNDS: 5,
	LARGE: 10 * 1000 * 1000,
	SLEEP: 'SELECT pg_sleep(3600)',
	RUNNING: 'SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND ' +
		"starts_with(query, 'SELECT pg_sleep(3600)') AND state = 'active' AND wait_event = 'PgSleep'",
	TERMINATE: 'SELECT pg_terminate_backend(pg_backend_pid())',
};
