// `belfry audit …` against the real API: what was done is listed, exported and verified, here and without a
// server; what a superuser changed is found, with its place and exit code 1.
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { openSealer, testSigner } from '../support/audit-rig.ts'

let t: TestApi
let env: Record<string, string>
let folder: string
const publicKey = Buffer.from(testSigner.publicKey).toString('base64')
const belfry = (...argv: string[]) => runAlone(argv, { env, now: () => Date.now() })
const offline = (...argv: string[]) => runAlone(argv, { env: { XDG_CONFIG_HOME: folder } })
const at = (name: string) => join(folder, name)

beforeAll(async () => {
  t = await startTestApi()
  folder = mkdtempSync(join(tmpdir(), 'belfry-audit-cli-'))
  env = {
    XDG_CONFIG_HOME: folder,
    BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: t.adminKey,
    TZ: 'UTC',
  }
  for (let index = 0; index < 12; index++) await t.call('POST', '/v1/jobs', { body: httpJob(`job-${index}`) })
  await t.call('POST', '/v1/jobs', { key: await t.keyFor('acme', ['read']), body: {} })
  await t.audit.flush()
  await openSealer(t.db).runOnce()
  const { code, out } = await belfry('audit', 'export')
  if (code !== 0) throw new Error(`The export ended with ${code}.`)
  writeFileSync(at('export.jsonl'), out)
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await t.close()
})

it('lists who did what, by filters', async () => {
  const all = await belfry('audit', 'list')
  expect(all.out).toMatch(/AT +WHO +ACTION +WHAT +OUTCOME +FROM/)
  expect(all.out).toMatch(/key key-0 +job\.create +job job-11 +done +127\.0\.0\.1/)
  const refused = await belfry('audit', 'list', '--refused', '-o', 'json')
  expect(JSON.parse(refused.out)).toMatchObject({ items: [{ action: 'job.create', code: 'forbidden' }] })
  expect((await belfry('audit', 'list', '--subject', 'job-3')).out.trim().split('\n')).toHaveLength(2)
  expect((await belfry('audit', 'list', '--action', 'schedule')).err).toContain('Nothing is on record')
  expect((await belfry('audit', 'status')).out).toContain(publicKey)
})

describe('verify', () => {
  it('fetches the chain and judges it, and says where the keys came from', async () => {
    const trusting = await belfry('audit', 'verify')
    expect([trusting.code, trusting.err]).toEqual([0, expect.stringContaining('keep a copy')])
    const pinned = await belfry('audit', 'verify', '--public-key', publicKey)
    expect(pinned.code).toBe(0)
    expect(pinned.err).toMatch(/entries 1 to \d+ whole/)
    expect(pinned.err).not.toContain('keep a copy')
  })

  it('needs no server for an export, and takes the key as PEM too', async () => {
    const verdict = await offline('audit', 'verify', '--file', at('export.jsonl'), '--public-key', publicKey)
    expect([verdict.code, verdict.err]).toEqual([0, expect.stringContaining('all signed')])
    const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), testSigner.publicKey])
    const pem = `-----BEGIN PUBLIC KEY-----\n${der.toString('base64')}\n-----END PUBLIC KEY-----\n`
    writeFileSync(at('audit.pem'), pem)
    expect(
      (await offline('audit', 'verify', '--file', at('export.jsonl'), '--public-key', at('audit.pem'))).code,
    ).toBe(0)
  })

  it('names the place where an export was changed or cut', async () => {
    const lines = readFileSync(at('export.jsonl'), 'utf8').trimEnd().split('\n')
    const judged = async (changed: readonly string[]) => {
      writeFileSync(at('changed.jsonl'), `${changed.join('\n')}\n`)
      const files = ['--file', at('changed.jsonl'), '--public-key', publicKey]
      const { code, out } = await offline('audit', 'verify', ...files, '-o', 'json')
      const { faults } = JSON.parse(out) as { faults: { kind: string; seq: number }[] }
      return [code, ...faults.map(({ kind, seq }) => `${kind} ${seq}`)]
    }
    expect(await judged(lines)).toEqual([0])
    expect(await judged(lines.map((line, n) => (n === 4 ? line.replace('job-4', 'job-5') : line)))).toEqual([
      1,
      'altered 5',
    ])
    expect(await judged(lines.filter((_, n) => n !== 4))).toEqual([1, 'missing 5'])
    const tail = lines.filter((line) => !line.includes('"seq":13') && !line.includes('"seq":12'))
    expect(await judged(tail)).toEqual([1, 'missing 12'])
    const table = await offline('audit', 'verify', '--file', at('changed.jsonl'), '--public-key', publicKey)
    expect(table.out).toMatch(/missing +12 +entries 12 to 13 are missing at the end/)
    expect(table.err).toContain('tampered with')
  })

  it('finds by a kept copy what the database alone does not show', async () => {
    await t.database.sql('DELETE FROM belfry.audit_log WHERE seq > 10')
    const cut = await belfry('audit', 'verify', '--public-key', publicKey, '-o', 'json')
    const places = (JSON.parse(cut.out) as { faults: { kind: string; seq: number }[] }).faults
    expect([cut.code, ...places.map(({ kind, seq }) => `${kind} ${seq}`)]).toEqual([1, 'missing 11'])
    await t.database.sql('DELETE FROM belfry.audit_checkpoint')
    const headLeft = await belfry('audit', 'verify', '--public-key', publicKey)
    expect([headLeft.code, headLeft.out]).toEqual([1, expect.stringContaining('the server itself says')])
    await t.database.sql(
      'UPDATE belfry.audit_head SET (size, signed_size, hash) = (SELECT 10, 0, hash FROM belfry.audit_log ' +
        'WHERE seq = 10 AND audit_log.tenant_id = audit_head.tenant_id)',
    )
    expect((await belfry('audit', 'verify', '--public-key', publicKey)).code).toBe(0)
    const later = { env, now: () => Date.now() + 120_000 }
    const unsigned = await runAlone(['audit', 'verify', '--public-key', publicKey], later)
    expect([unsigned.code, unsigned.out]).toEqual([1, expect.stringContaining('no checkpoint attests')])
    const kept = await belfry('audit', 'verify', '--public-key', publicKey, '--kept', at('export.jsonl'))
    expect([kept.code, kept.out]).toEqual([1, expect.stringMatching(/missing +11 /)])
  })

  it('says what is wrong with what it is given', async () => {
    const wrong = await offline('audit', 'verify', '--file', at('none.jsonl'), '--public-key', publicKey)
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('none.jsonl cannot be read')])
    const noKey = await offline('audit', 'verify', '--file', at('export.jsonl'))
    expect([noKey.code, noKey.err]).toEqual([2, expect.stringContaining('--public-key')])
    const badKey = await offline('audit', 'verify', '--file', at('export.jsonl'), '--public-key', 'nonsense')
    expect([badKey.code, badKey.err]).toEqual([2, expect.stringContaining('no Ed25519 public key')])
    writeFileSync(at('bad.jsonl'), '{"type":"entry"}\n')
    appendFileSync(at('bad.jsonl'), readFileSync(at('export.jsonl')))
    const bad = await offline('audit', 'verify', '--file', at('bad.jsonl'), '--public-key', publicKey)
    expect([bad.code, bad.err]).toEqual([1, expect.stringContaining('Line 1 of')])
  })
})
