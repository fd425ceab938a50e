// kill -9 during the writing of the audit: of the API between work and entry, of the sealer in each of its
// statements and in its commit. What was done is on record once, what was not done is not, and the chain is
// whole: real processes on a real Postgres.
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AuditRecord, auditRecordSchema } from '@belfry/contract'
import { readPublicKey } from '@belfry/contract/audit-chain'
import { createAuditVerifier } from '@belfry/contract/audit-verifier'
import { expect, it } from 'vitest'
import { readAuditSigner } from '../../packages/server/src/security/audit-signer.ts'
import { eventually } from '../support/running.ts'
import { type Arena, arenaHarness } from './support/arena.ts'

const harness = arenaHarness()
const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
const publicKey = Buffer.from(readAuditSigner(pem).publicKey).toString('base64')

interface Step {
  readonly name: string
  readonly text: string
  /** Stops whoever comes by there until the transaction that sends it is over. */
  readonly hold: string
  readonly arrange?: string
}

const lock = (table: string, mode: string) => `LOCK TABLE belfry.${table} IN ${mode} MODE`
const turnstile = 'SELECT pg_advisory_xact_lock(61)'
const stoppedAt = (table: string) => `
  CREATE FUNCTION public.turnstile() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
  BEGIN
    PERFORM pg_advisory_lock_shared(61);
    PERFORM pg_advisory_unlock_shared(61);
    RETURN NEW;
  END $$;
  CREATE CONSTRAINT TRIGGER turnstile AFTER INSERT
    OR UPDATE ON belfry.${table} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION public.turnstile()`

const sealing: readonly Step[] = [
  { name: 'take entries', text: '%DELETE FROM belfry.audit_inbox%', hold: lock('audit_inbox', 'SHARE') },
  { name: 'lock heads', text: '%belfry.audit_head%', hold: lock('audit_head', 'ACCESS EXCLUSIVE') },
  { name: 'append links', text: '%INSERT INTO belfry.audit_log%', hold: lock('audit_log', 'SHARE') },
  {
    name: 'move heads',
    text: '%UPDATE belfry.audit_head%',
    hold: turnstile,
    arrange: stoppedAt('audit_head'),
  },
  { name: 'put a checkpoint', text: '%belfry.audit_checkpoint%', hold: lock('audit_checkpoint', 'SHARE') },
  { name: 'note an export', text: '%belfry.audit_export%', hold: lock('audit_export', 'SHARE') },
]
const deferred = new Set(['move heads'])

async function isHeld(arena: Arena, { name, text }: Step): Promise<boolean> {
  const held = await arena.rows(
    `SELECT FROM pg_stat_activity
     WHERE wait_event_type = 'Lock' AND datname = 'belfry' AND usename = 'belfry' AND query ILIKE $1`,
    [deferred.has(name) ? 'COMMIT' : text],
  )
  return held.length > 0
}

async function killAt(arena: Arena, step: Step, env: Record<string, string>): Promise<void> {
  if (step.arrange !== undefined) await arena.rows(step.arrange)
  const holder = await arena.connect()
  try {
    await holder.query(`BEGIN; ${step.hold}`)
    const victim = arena.spawn(`victim at "${step.name}"`, env)
    await eventually(() => isHeld(arena, step), `the process at "${step.name}"`, 60_000)
    victim.signal('SIGKILL')
    expect(await victim.ended).toBe('SIGKILL')
  } finally {
    await holder.query('COMMIT')
    await holder.end()
  }
  if (step.arrange !== undefined) await arena.rows('DROP FUNCTION public.turnstile CASCADE')
}

const linesOf = (path: string): AuditRecord[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => auditRecordSchema.parse(JSON.parse(line)))

async function verdictOf(arena: Arena, witnesses: readonly AuditRecord[]) {
  const key = readPublicKey(publicKey)
  const verifier = createAuditVerifier(key === undefined ? [] : [key], Date.now())
  for await (const record of arena.client('api').audit.export()) verifier.add(record)
  for (const record of witnesses) verifier.witness(record)
  return verifier.finish()
}

const httpJob = (name: string) => ({ name, handler: { kind: 'http', url: 'https://example.com/hook' } })

it('a sealer that is killed at any step leaves a whole chain', { timeout: 280_000 }, async () => {
  const arena = await harness.open({ env: { BELFRY_AUDIT_KEY: pem, BELFRY_AUDIT_CHECKPOINT_MS: '1000' } })
  const folder = mkdtempSync(join(tmpdir(), 'belfry-audit-'))
  harness.defer(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'audit.jsonl')
  const env = { BELFRY_AUDIT_COPY: file, BELFRY_ROLES: 'scheduler' }
  const api = await arena.start('api', { BELFRY_ROLES: 'api' })
  let made = 0
  const makeJobs = async (count: number) => {
    for (let index = 0; index < count; index++)
      expect((await arena.call(api, 'POST', '/v1/jobs', httpJob(`job-${made++}`))).status).toBe(201)
  }
  for (const step of sealing) {
    await makeJobs(5)
    await killAt(arena, step, env)
  }
  await makeJobs(5)
  await arena.start('heir', env)
  const size = sealing.length * 5 + 5
  const left = () => arena.rows('SELECT FROM belfry.audit_inbox')
  await eventually(async () => (await left()).length === 0, 'the chain', 60_000)
  const signed = async () => (await arena.client('api').audit.status()).signedSize
  await eventually(async () => (await signed()) === size, 'the signature', 30_000)
  await eventually(
    async () => linesOf(file).some((each) => each.type === 'checkpoint' && each.size === size),
    'the file',
    30_000,
  )
  const verdict = await verdictOf(arena, linesOf(file))
  expect(verdict).toMatchObject({ ok: true, tenants: [{ first: 1, last: size, signedSize: size }] })
})

it('an API that is killed under load leaves an entry for each thing it did, and none more', {
  timeout: 280_000,
}, async () => {
  const arena = await harness.open({ env: { BELFRY_AUDIT_KEY: pem, BELFRY_AUDIT_CHECKPOINT_MS: '1000' } })
  let made = 0
  let acknowledged = 0
  for (let round = 0; round < 5; round++) {
    const node = await arena.start('api', { BELFRY_ROLES: 'api,scheduler' })
    let alive = true
    const writers = Array.from({ length: 8 }, async () => {
      while (alive) {
        const answer = await arena
          .call(node, 'POST', '/v1/jobs', httpJob(`job-${made++}`))
          .catch(() => undefined)
        if (answer?.status === 201) acknowledged += 1
        if (answer === undefined) return
      }
    })
    const goal = acknowledged + 40 + round * 17
    await eventually(async () => acknowledged >= goal, 'some writes', 30_000)
    node.signal('SIGKILL')
    alive = false
    await Promise.all(writers)
    await node.ended
  }
  await arena.start('api', { BELFRY_ROLES: 'api,scheduler' })
  await eventually(
    async () => (await arena.rows('SELECT FROM belfry.audit_inbox')).length === 0,
    'the chain',
    60_000,
  )
  const [counts] = await arena.rows<{ jobs: number; entries: number; both: number }>(
    `SELECT (SELECT count(*)::int FROM belfry.job) AS jobs,
            (SELECT count(*)::int FROM belfry.audit_log WHERE action = 'job.create') AS entries,
            (SELECT count(*)::int FROM belfry.audit_log AS log
              JOIN belfry.job ON job.id::text = log.subject_id
             WHERE log.action = 'job.create') AS both`,
  )
  expect(counts?.jobs).toBeGreaterThanOrEqual(acknowledged)
  expect(counts?.entries).toBe(counts?.jobs)
  expect(counts?.both).toBe(counts?.jobs)
  expect(await verdictOf(arena, [])).toMatchObject({ ok: true, tenants: [{ first: 1, last: counts?.jobs }] })
})
