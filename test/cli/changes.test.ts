// What holds for every command that changes something: --dry-run stores nothing, --quiet says nothing, a
// creation carries an Idempotency-Key. And jobs, keys and tenants.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { commandName } from '../../packages/cli/src/command.ts'
import { commandTable } from '../../packages/cli/src/command-table.ts'
import { startCliRig } from './support/cli.ts'

const rig = await startCliRig()
const folder = mkdtempSync(join(tmpdir(), 'belfry-changes-'))
const file = join(folder, 'flow.yaml')
writeFileSync(file, 'name: new\ntasks: [{ id: a, job: report }]\n')
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await rig.close()
})

let runId = ''
let backfillId = ''
beforeEach(() => {
  const { store } = rig.server
  const { jobs, schedules, runs, keys, tenants, backfills, calendars, pools, workflows } = store
  const maps = [jobs, schedules, runs, keys, tenants, backfills, calendars, pools, workflows]
  for (const map of maps) map.clear()
  rig.server.seen.length = 0
  store.addJob('report')
  store.addSchedule('nightly')
  store.addKey('web')
  store.addCalendar('closed', { weekdays: ['sat', 'sun'] })
  store.addPool('database', { slots: 10 })
  store.addWorkflow('flow')
  runId = store.addRun().id
  backfillId = store.addBackfill().id
})

const stored = () => {
  const { store } = rig.server
  const { jobs, schedules, runs, keys, tenants, backfills, calendars, pools, workflows } = store
  const maps = [jobs, schedules, runs, keys, tenants, backfills, calendars, pools, workflows]
  return JSON.stringify(maps.map((map) => [...map.values()]))
}

/**
 * One line for every command that changes something on the server; the test below fails when one is missing.
 */
const changes: Readonly<Record<string, readonly string[]>> = {
  'schedule create': ['new', '--every', '5m', '--job', 'report'],
  'schedule update': ['nightly', '--every', '1h'],
  'schedule pause': ['nightly'],
  'schedule resume': ['nightly', '--backfill-from', '2d'],
  'schedule skip': ['nightly', '--count', '2'],
  'schedule sleep': ['nightly', '--until', '+2h'],
  'schedule wake': ['nightly'],
  'schedule trigger': ['nightly', '--wait'],
  'schedule delete': ['nightly'],
  'schedule backfill': ['nightly', '--from', '1d'],
  'backfill pause': ['BACKFILL', '--reason', 'peak hours'],
  'backfill resume': ['BACKFILL'],
  'backfill cancel': ['BACKFILL', '--cancel-runs'],
  'calendar create': ['new', '--weekdays', 'sat,sun'],
  'calendar update': ['closed', '--dates', '2026-12-24'],
  'calendar delete': ['closed'],
  'run create': ['report', '--wait'],
  'run batch': ['--file', '-'],
  'run cancel': ['RUN'],
  'dead-letter replay': ['RUN'],
  'dead-letter delete': ['RUN'],
  'workflow apply': ['-f', file],
  'workflow delete': ['flow'],
  'workflow run': ['flow'],
  'workflow-run cancel': ['RUN'],
  'workflow-run rerun': ['RUN', '--from', 'a'],
  'workflow-run mark': ['RUN', 'a', '--as', 'succeeded', '--reason', 'by hand'],
  'workflow-run skip': ['RUN', 'a'],
  'workflow-run approve': ['RUN', 'a'],
  'workflow-run reject': ['RUN', 'a', '--reason', 'no'],
  'workflow-run signal': ['RUN', 'go'],
  'event send': ['order.created', '--key', '17'],
  'job create': ['new', '--http', 'https://a.example'],
  'job update': ['report', '--priority', '3'],
  'job pause': ['report', '--reason', 'repair'],
  'job resume': ['report'],
  'job delete': ['report'],
  'queue pause': ['mail', '--reason', 'the mail server moves'],
  'queue resume': ['mail'],
  'queue limit': ['--runs', '50'],
  'pool create': ['api', '--slots', '10', '--host', 'api.example.com'],
  'pool update': ['database', '--slots', '20'],
  'pool delete': ['database'],
  'tenant create': ['billing'],
  'key create': ['new', '--scope', 'read'],
  'key revoke': ['web'],
  'service-account create': ['new', '--role', 'viewer'],
  'service-account update': ['robot', '--role', 'worker'],
  'service-account disable': ['robot'],
  'service-account enable': ['robot'],
  'member invite': ['grace@example.com', '--role', 'viewer'],
  'member invite-again': ['ada@example.com'],
  'member update': ['ada@example.com', '--role', 'viewer'],
  'member disable': ['ada@example.com'],
  'member enable': ['ada@example.com'],
  'member delete': ['ada@example.com'],
  'session end': [],
  'session revoke': ['019ad0c1-7f3e-7c63-9a52-6e4d8c1b2d00'],
  'quota set': ['billing', 'jobs=5'],
  'container allow': ['billing', '--max-pids', '32'],
  'secret set': ['new', '--from-stdin'],
  'secret grant': ['api-token', '--job', 'report'],
  'secret revoke': ['api-token', '--job', 'report'],
  'secret restore': ['api-token', '--to', '1'],
  'secret delete': ['api-token'],
  'secret rewrap': [],
}
const argvOf = (name: string) => [
  ...name.split(' '),
  ...(changes[name] ?? []).map((word) => ({ RUN: runId, BACKFILL: backfillId })[word] ?? word),
]
/** Of the command that reads it. */
const stdin = '{"job":"report"}\n{"job":"report","input":2}\n'
const names = commandTable.filter((command) => command.effect === 'change').map(commandName)

describe.each(names)('%s', (name) => {
  it('stores nothing with --dry-run, and says so', async () => {
    const before = stored()
    const result = await rig.run([...argvOf(name), '--dry-run'], { stdin })
    expect(result.err).toMatch(/Dry run, nothing was stored: would [a-z]+ /)
    expect(result.code).toBe(0)
    expect(stored()).toBe(before)
    expect(rig.server.seen.at(-1)?.query['dryRun']).toBe('true')
  })

  it('says nothing with --quiet', async () => {
    const argv = argvOf(name).filter((word) => word !== '--wait')
    const result = await rig.run([...argv, '--quiet'], { stdin })
    expect(result).toMatchObject({ code: 0, err: '' })
  })
})

describe('jobs', () => {
  it('lays the parts of a handler over the one that is there, and only over that one', async () => {
    const handler = {
      kind: 'http',
      url: 'https://a.example',
      method: 'PUT',
      headers: { A: '1' },
      body: 'x',
    } as const
    rig.server.store.addJob('parts', { handler, version: 7 })
    await rig.run(['job', 'update', 'parts', '--header', 'B: 2', '--max-attempts', '9'])
    const seen = rig.server.seen.at(-1)
    expect(seen?.body).toEqual({ handler: { ...handler, headers: { B: '2' } }, retry: { maxAttempts: 9 } })
    expect(seen?.headers['if-match']).toBe('"7"')
  })

  it('takes a function instead of a URL, and shows it', async () => {
    const made = await rig.run(['job', 'create', 'welcome', '--function', 'mail.send', '--queue', 'mail'])
    expect(rig.server.seen.at(-1)?.body).toMatchObject({
      name: 'welcome',
      handler: { kind: 'function', name: 'mail.send' },
      queue: 'mail',
    })
    expect(made.out).toContain('function mail.send')
    const both = await rig.run(['job', 'create', 'x', '--function', 'a', '--http', 'https://a.example'])
    expect(both).toMatchObject({ code: 2 })
    expect(both.err).toContain('give only one of --http, --function')
  })

  it('asks for what to call', async () => {
    const result = await rig.run(['job', 'create', 'new'])
    expect(result).toMatchObject({ code: 2 })
    expect(result.err).toContain('say what to run: --http POST')
  })

  it('shows a job, harmless whatever is in it', async () => {
    const job = rig.server.store.addJob('odd', { description: 'a\u001b]0;title\u0007b' })
    const { out } = await rig.run(['job', 'get', 'odd'])
    expect(out).toContain('a\\e]0;title\\u{7}b')
    expect(await rig.json(['job', 'get', job.id])).toEqual(job)
  })
})

describe('deleting a job', () => {
  it('says that its runs go on, and how to find them', async () => {
    const { id } = rig.server.store.addJob('spare')
    const { err } = await rig.run(['job', 'delete', 'spare'])
    expect(err).toContain('its runs that wait or run go on')
    expect(err).toContain(`Next: belfry run list --job ${id} --state pending,running`)
    expect((await rig.run(['run', 'list', '--job', id])).code).toBe(0)
  })
})

describe('keys', () => {
  it('shows the secret once, as data', async () => {
    const result = await rig.run(['key', 'create', 'ci', '--scope', 'enqueue,read', '--expires', '90d'])
    expect(rig.server.seen.at(-1)?.body).toEqual({
      name: 'ci',
      scopes: ['read', 'enqueue'],
      expiresAt: '2027-02-27T12:00:00.000Z',
    })
    expect(result.out).toContain('blf_secret_')
    expect(result.err).not.toContain('blf_secret_')
    expect(result.err).toContain('shown this once')
  })

  it('keeps the secret in a context instead of printing it', async () => {
    const home = mkdtempSync(join(tmpdir(), 'belfry-keys-'))
    const argv = ['key', 'create', 'me', '--scope', 'admin', '--save-context', 'work', '-o', 'json']
    const result = await rig.run(argv, { env: { XDG_CONFIG_HOME: home } })
    expect(result.code).toBe(0)
    expect(result.out + result.err).not.toContain('blf_secret_')
    expect(readFileSync(join(home, 'belfry', 'contexts.yaml'), 'utf8')).toContain('blf_secret_')
    rmSync(home, { recursive: true })
  })

  it('are suggested for a service account with the scope that its role takes', async () => {
    const suggested = async (role: string) =>
      /--scope \S+/.exec(
        (await rig.run(['service-account', 'create', `of-${role}`, '--role', role])).err,
      )?.[0]
    expect(await suggested('worker')).toBe('--scope worker')
    expect(await suggested('developer')).toBe('--scope admin')
  })

  it('refuses unknown scopes and none at all', async () => {
    expect((await rig.run(['key', 'create', 'x', '--scope', 'root'])).err).toContain(
      'not one of read, enqueue',
    )
    expect((await rig.run(['key', 'create', 'x'])).code).toBe(2)
  })

  it('finds a key by its name, not one that is revoked', async () => {
    rig.server.store.addKey('old', { revokedAt: '2026-11-01T00:00:00.000Z' })
    expect((await rig.run(['key', 'revoke', 'web'])).err).toContain('Revoked the key web')
    expect((await rig.run(['key', 'revoke', 'odl'])).err).toContain('There is no key "odl"')
  })

  it('says of a key that is revoked that it is, by name and by id, and asks for nothing', async () => {
    const { id } = rig.server.store.addKey('old', { revokedAt: '2026-11-01T00:00:00.000Z' })
    rig.server.store.addKey('old', { revokedAt: '2026-10-01T00:00:00.000Z' })
    for (const wanted of ['old', id]) {
      const result = await rig.run(['key', 'revoke', wanted])
      expect(result.code).toBe(0)
      expect(result.err).toContain('The key old is already revoked, since 2026-11-01 00:00:00')
    }
    expect(rig.server.seen.every(({ route }) => route === 'keyList')).toBe(true)
  })
})
