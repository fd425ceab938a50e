// docs/how-to/access.md is run, line by line, by the CLI against the real API; then what its commands answer.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { permissions, roles } from '@belfry/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { renderPermissions } from '../../scripts/lib/permissions-page.ts'
import { runAlone } from '../cli/support/cli.ts'
import { startTestApi, type TestApi } from '../support/api.ts'

const page = readFileSync(new URL('../../docs/how-to/access.md', import.meta.url), 'utf8')
const lines = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].flatMap(([, block = '']) =>
  block.trimEnd().split('\n'),
)

let t: TestApi
let env: Record<string, string>
beforeAll(async () => {
  t = await startTestApi()
  env = {
    XDG_CONFIG_HOME: mkdtempSync(join(tmpdir(), 'belfry-docs-')),
    BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: t.adminKey,
    TZ: 'UTC',
  }
})
afterAll(async () => {
  rmSync(env['XDG_CONFIG_HOME'] ?? '', { recursive: true, force: true })
  await t.close()
})

function belfry(line: string) {
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
  return runAlone(words.slice(1), { env, now: () => Date.now() })
}

describe('docs/how-to/access.md', () => {
  it('has commands', () => expect(lines.length).toBeGreaterThanOrEqual(14))

  it.each(lines)('%s', async (line) => {
    const { code, out, err } = await belfry(line)
    expect([code, err.includes('error')]).toEqual([
      line.includes('--role viewer') && line.includes('can') ? 1 : 0,
      false,
    ])
    expect(`${out}${err}`).not.toBe('')
  })
})

describe('service accounts', () => {
  it('are listed, shown and changed', async () => {
    expect((await belfry('belfry service-account list')).out).toMatch(/billing +viewer +billing +active/)
    expect((await belfry('belfry service-account disable billing --dry-run')).err).toContain('would disable')
    await belfry('belfry service-account disable billing')
    expect((await belfry('belfry service-account get billing')).out).toMatch(/State +disabled/)
    const moved = await belfry('belfry service-account update billing --queue none')
    expect([moved.code, moved.out]).toEqual([0, expect.stringMatching(/billing +viewer +all +disabled/)])
    const unknown = await belfry('belfry service-account get biling')
    expect([unknown.code, unknown.err]).toEqual([1, expect.stringContaining('did you mean billing?')])
    const nothing = await belfry('belfry service-account update billing')
    expect([nothing.code, nothing.err]).toEqual([2, expect.stringContaining('nothing to change')])
    const roleless = await belfry('belfry service-account create x')
    expect([roleless.code, roleless.err]).toEqual([2, expect.stringContaining('--role')])
  })

  it('show in their keys and in the jobs that run as them', async () => {
    expect((await belfry('belfry job get invoices')).out).toMatch(/Runs as +billing/)
    const asked = await t.call('GET', '/v1/keys')
    expect(asked.body.items.find(({ name }) => name === 'mailer-1')).toMatchObject({
      owner: { kind: 'service_account', name: 'mailer' },
    })
    const off = await belfry('belfry job update invoices --run-as none')
    expect(off.code).toBe(0)
    expect((await belfry('belfry job get invoices')).out).not.toContain('Runs as')
  })
})

describe('belfry access can', () => {
  const can = async (words: string) => {
    const { code, out, err } = await belfry(`belfry access can ${words}`)
    return [code, out.trim(), err.trim()]
  }

  it('answers for the key in use, by permission and by call', async () => {
    expect((await can('job.write'))[1]).toMatch(/^yes: the key key-\d+ may \(job.write\)$/)
    expect((await can('jobCreate'))[1]).toMatch(/^yes: .* \(job.write\)$/)
    expect(await can('tenant.manage')).toEqual([
      1,
      expect.stringMatching(/^no: .*these roles may: platform$/),
      '',
    ])
  })

  it('answers for a role without asking the server, and says what was meant', async () => {
    expect((await can('run.operate --role operator'))[0]).toBe(0)
    expect((await can('secret.write --role developer'))[0]).toBe(1)
    expect(await can('job.wrte')).toEqual([2, '', expect.stringContaining('did you mean job.write?')])
    const listed = await belfry('belfry access list --role worker -o json')
    expect(JSON.parse(listed.out)).toMatchObject({ items: [{ permission: 'worker.serve' }] })
  })
})

it('the reference page shows every permission, role and call', () => {
  const text = renderPermissions()
  for (const each of [...permissions, ...roles]) expect(text).toContain(`\`${each}\``)
  expect(text).toContain('`POST /v1/service-accounts`')
})
