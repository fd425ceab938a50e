// The way of a newcomer by the command line, against a real server process' parts in this process: the first
// owner is invited, joins, signs in again from another place, looks at sessions and ends one. No password
// and no invitation ever stands in an argument.
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runCli } from '../../packages/cli/src/run-cli.ts'
import { startTestApi, type TestApi } from '../support/api.ts'

const password = 'gull-harbour-41-lantern'
let t: TestApi
let url: string
let home: string
let ownerKey: string
beforeAll(async () => {
  t = await startTestApi()
  url = await t.api.listen({ host: '127.0.0.1', port: 0 })
  home = await mkdtemp(join(tmpdir(), 'belfry-people-'))
  ownerKey = await t.keyFor('acme', ['admin', 'platform'])
})
afterAll(async () => {
  await t.close()
  await rm(home, { recursive: true, force: true })
})

async function belfry(args: string, options: { stdin?: string; key?: string } = {}) {
  const out: string[] = []
  const err: string[] = []
  const code = await runCli(args.split(' '), {
    stdout: { write: (text: string) => void out.push(text) },
    stderr: { write: (text: string) => void err.push(text) },
    env: {
      XDG_CONFIG_HOME: home,
      ...(options.key === undefined ? {} : { BELFRY_API_KEY: options.key, BELFRY_URL: url }),
    },
    fetch,
    readStdin: async () => options.stdin ?? '',
    now: Date.now,
    stopSignal: () => new AbortController().signal,
    loadServer: () => Promise.reject(new Error('not needed')),
  })
  return { code, out: out.join(''), err: err.join('') }
}

it('leads from an invitation to a session, and out again', async () => {
  const made = await belfry('member invite Ada@Example.com --role owner -o json', { key: ownerKey })
  expect(made).toMatchObject({ code: 0 })
  const { inviteToken, email } = JSON.parse(made.out) as { inviteToken: string; email: string }
  expect(email).toBe('ada@example.com')
  const invite = join(home, 'invite.txt')
  await writeFile(invite, `${inviteToken}\n`)

  const weak = await belfry(`join --invite-file ${invite} --password-file - --url ${url}`, {
    stdin: 'password1234',
  })
  expect(weak.code).toBe(1)
  expect(weak.err).toContain('--password-file')

  const joined = await belfry(`join --invite-file ${invite} --password-file - --url ${url}`, {
    stdin: `${password}\n`,
  })
  expect(joined).toMatchObject({ code: 0 })
  expect(joined.err).toContain('signed in to acme as owner')
  const contexts = join(home, 'belfry', 'contexts.yaml')
  expect(await readFile(contexts, 'utf8')).toContain('bfs_')
  expect((await stat(contexts)).mode & 0o077).toBe(0)

  const again = `login ada@example.com --password-file - --url ${url} --save-context laptop`
  expect((await belfry(again, { stdin: 'wrong' })).code).toBe(4)
  expect(await belfry(again, { stdin: password })).toMatchObject({ code: 0 })

  const listed = await belfry('session list -o json')
  const { items } = JSON.parse(listed.out) as { items: { id: string; current: boolean }[] }
  expect(items.map(({ current }) => current)).toEqual([true, false])
  const members = await belfry('member list')
  expect(members.out).toContain('ada@example.com')
  const last = await belfry('member disable ada@example.com')
  expect(last.code).toBe(1)
  expect(last.err).toContain('last active owner')

  expect(await belfry(`session revoke ${items[1]?.id ?? ''}`)).toMatchObject({ code: 0 })
  expect((await belfry('job list --context acme')).code).toBe(4)
  expect(await belfry('session end')).toMatchObject({ code: 0 })
  expect((await belfry('job list')).code).toBe(4)
})

it('stores nothing in a dry run, and asks for no password in words', async () => {
  const dry = await belfry(`login ada@example.com --password-file - --url ${url} --dry-run`, {
    stdin: password,
  })
  expect(dry.err).toContain('Dry run')
  const none = await belfry(`login ada@example.com --url ${url}`)
  expect(none).toMatchObject({ code: 2 })
  expect(none.err).toContain('--password-file')
})
